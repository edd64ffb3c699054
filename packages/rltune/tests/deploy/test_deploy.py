import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest
from slurm_fixtures import started_testbed_with_database, testbed_with_database

from rltune.live.control_settings import ControlSettings, Scope
from rltune.live.control_settings_file import load_settings
from rltune.live.holder import this_process
from rltune.live.keeper import Keeper
from rltune.live.see.backend import ChangeKind
from rltune.live.see.record_text import Claim, mark_of

__all__ = ["started_testbed_with_database", "testbed_with_database"]

FOLDER = resources.files("rltune") / "deploy"


def test_the_settings_shipped_are_the_defaults(tmp_path):
    """Whoever copies the file and reads its comments is told the truth; only the scope is an example."""
    file = tmp_path / "control.toml"
    file.write_text((FOLDER / "control.toml").read_text())
    shipped = load_settings(file)
    assert shipped.model_copy(update={"scope": Scope()}) == ControlSettings()
    text = (FOLDER / "control.toml").read_text()
    for key in _keys(shipped.model_dump()):
        table, _, name = key.rpartition(".")
        of_table = text.partition(f"[{table}]")[2].partition("\n[")[0] if table else text
        assert table == "scope" or f"\n{name} = " in of_table, key


def _keys(table, prefix=""):
    """Name every setting by the tables that it is in."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_setting_stands_in_the_reference(request):
    """A key that exists is documented, by its whole name below `advanced` or beside it."""
    text = (request.config.rootpath / "docs/reference/control.md").read_text()
    plain, _, advanced = text.partition("## Advanced settings")
    for key in _keys(ControlSettings().model_dump()):
        part = advanced if key.startswith("advanced.") else plain
        assert f"| `{key.removeprefix('advanced.')}` |" in part, key


def test_the_service_is_well_hardened(tmp_path):
    """systemd's own judgement: an exposure below 2 of 10; and a stop of any kind frees all jobs."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not here")
    unit = tmp_path / "rltune-control.service"
    unit.write_text((FOLDER / "rltune-control.service").read_text())
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout[-2000:] + judged.stderr
    assert "ExecReload=/bin/kill -HUP $MAINPID" in unit.read_text()
    assert "ExecStopPost=/opt/rltune/bin/rltune control --release" in unit.read_text()  # a failure is not ignored
    assert "Type=notify" in unit.read_text()
    assert "WatchdogSec=300" in unit.read_text()


PYTHON = f"/usr/bin/python3.{sys.version_info.minor}"  # outside any home, as a service needs it
RLTUNE = "from rltune.cli import main; main()"


@pytest.fixture
def under_the_unit(tmp_path_factory):
    """Run Python as the unit's account, under the unit's own sandbox and filter of system calls."""
    for need in ("systemd-analyze", PYTHON):
        if not shutil.which(need):
            pytest.skip(f"{need} is not here")
    if os.geteuid() != 0:
        pytest.skip("only root can put the sandbox on")
    state = tmp_path_factory.mktemp("state")
    state.chmod(0o777)
    for folder in (state, *state.parents[:3]):  # where pytest keeps them, others may not look
        folder.chmod(folder.stat().st_mode | 0o011)
    unit, launcher = FOLDER / "rltune-control.service", Path(__file__).with_name("under_the_unit.py")
    packages = (str(Path(str(FOLDER)).parents[1]), sysconfig.get_path("purelib"))

    def run(*words, **environment):
        words = [PYTHON, str(launcher), str(unit), "slurm", str(state), "--", PYTHON, "-c", *words]
        kept = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONPATH": ":".join(packages), **environment}
        return subprocess.run(words, env=kept, capture_output=True, text=True, check=False, timeout=300)

    run.state = state
    return run


def test_the_unit_lets_the_core_be_compiled(under_the_unit):
    """numpy is imported and a function compiled under the unit's filter, where every forbidden call once killed it."""
    told = under_the_unit("import numba, numpy; print(numba.njit(lambda x: x + 1)(numpy.ones(2)).sum())")
    assert (told.returncode, told.stdout) == (0, "4.0\n"), told.stderr


def test_the_unit_acts_and_releases(testbed_with_database, under_the_unit):
    """Both of the unit's commands do their work as an unprivileged Operator, with no home and one folder to write."""
    bed = testbed_with_database
    holder = bed.submit(600, gpus=2, gpu_type="k80", nodes=2, limit_min=60)
    bed.wait_for("a start", lambda: bed.job(holder)["job_state"] == "RUNNING")
    jobs = [bed.submit(1, gpus=2, gpu_type="k80", limit_min=minutes) for minutes in (50, 40, 30)]
    plain = {"SLURM_CONF": str(bed.folder / "etc/slurm.conf"), "NUMBA_DISABLE_JIT": "1"}  # compiling takes a minute
    act = ("--mode", "act", "--partition", "gpu", "--policy", "saf", "--journal", "journal.db")
    acted = under_the_unit(RLTUNE, "control", "--once", *act, **plain)
    assert acted.returncode == 0, acted.stderr
    assert all(_site_factor(bed, job) for job in jobs[1:])
    released = under_the_unit(RLTUNE, "control", "--release", "--journal", "journal.db", **plain)
    assert released.returncode == 0, released.stderr
    assert not any(_site_factor(bed, job) for job in jobs)


def _site_factor(bed, job):
    return {seen.id: seen.site_factor for seen in bed.backend().observe().pending}[job]


def test_lists_of_running_jobs_are_no_failure_of_the_unit(testbed_with_database, under_the_unit):
    """The unit's release ends with 3 while a running job keeps a list of nodes, which systemd is told to accept.

    It needs no settings file, and no journal that it may read.
    """
    bed = testbed_with_database
    job = bed.submit(600, "--exclude=k80-1", gpus=2, gpu_type="k80", limit_min=60)
    bed.wait_for("a start", lambda: bed.job(job)["job_state"] == "RUNNING")
    dead = replace(this_process(), pid=2**22 + 1)  # no process has such a number
    keeper = Keeper(bed.backend(as_operator=True), ("gpu",), me=dead)
    keeper.take()
    now = bed.now_s()
    keeper.note([Claim(job, ChangeKind.EXCLUDE_NODES, (mark_of(("k80-1",)),), ())], now, now)
    unit = (FOLDER / "rltune-control.service").read_text()
    words = _value(unit, "ExecStopPost").replace("/var/lib/rltune", "/root").split()[1:]
    told = under_the_unit(RLTUNE, *words, SLURM_CONF=str(bed.folder / "etc/slurm.conf"))
    assert told.returncode == int(_value(unit, "SuccessExitStatus")), told.stderr
    assert f"running jobs keep a list of nodes until they wait again or end: {job}" in told.stderr
    assert "going on by Slurm's commands" in told.stderr
    assert "going on without the journal" in told.stderr


def _value(unit, name):
    return next(line.partition("=")[2] for line in unit.splitlines() if line.startswith(f"{name}="))
