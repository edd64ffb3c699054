"""The unit as it ships under a real systemd, on a real Slurm: start, reload, crash, hang, failure and stop."""

import sys
import sysconfig
import tempfile
from importlib import resources
from pathlib import Path

import pytest
from booted_systemd import booted, missing
from real_slurm import EVERYWHERE, require_slurm

from rltune.errors import InputError
from rltune.lab.testbed import Testbed

UNIT = "rltune-control"
DEPLOY = resources.files("rltune") / "deploy"
PACKAGE = Path(str(DEPLOY)).parents[1]
PYTHON = f"/usr/bin/python3.{sys.version_info.minor}"  # outside any home, as a service needs it
PROGRAM = f"""#!/bin/sh
PYTHONPATH=/opt/rltune/src:/opt/rltune/lib exec {PYTHON} -c 'from rltune.cli import main; main()' "$@"
"""
SETTINGS = """mode = "act"
cycle_s = 1
steer = "off"
[pipeline]
policy = "saf"
[scope]
partitions = ["gpu"]
"""
# What a test cannot wait for, and the account that the testbed knows as an Operator.
DROP_IN = """[Service]
User=slurm
RestartSec=1
WatchdogSec=10
Environment=SLURM_CONF={conf} NUMBA_DISABLE_JIT=1
"""


@pytest.fixture(scope="module")
def bed():
    """Three jobs wait for the K80; the folder is none that the unit's sandbox hides."""
    if not EVERYWHERE:
        pytest.skip("takes two minutes: run with RLTUNE_SLURM=all")
    if reason := missing():
        pytest.skip(reason)
    require_slurm(database=True)
    folder = Path(tempfile.mkdtemp(prefix="rltune-", dir="/srv"))
    folder.chmod(0o755)
    with Testbed.up(folder, database=True) as bed:
        holder = bed.submit(36_000, gpus=2, gpu_type="k80", nodes=2, limit_min=600)
        bed.wait_for("a start", lambda: bed.job(holder)["job_state"] == "RUNNING")
        for minutes in (50, 40, 30):
            bed.submit(1, gpus=2, gpu_type="k80", limit_min=minutes)
        yield bed


@pytest.fixture(scope="module")
def host(bed):
    """A systemd with the unit, its settings and a package outside any home."""
    binds = [str(bed.folder), f"{PACKAGE}:/opt/rltune/src", f"{sysconfig.get_path('purelib')}:/opt/rltune/lib"]
    with booted(binds) as host:
        host.install(f"/etc/systemd/system/{UNIT}.service", (DEPLOY / f"{UNIT}.service").read_text())
        drop_in = DROP_IN.format(conf=bed.folder / "etc/slurm.conf")
        host.install(f"/etc/systemd/system/{UNIT}.service.d/test.conf", drop_in)
        host.install("/etc/rltune/control.toml", SETTINGS)
        host.install("/opt/rltune/bin/rltune", PROGRAM, 0o755)
        host.run("systemctl", "daemon-reload")
        yield host


def numbers(bed):
    return [job.site_factor for job in bed.backend().observe().pending]


def wait_for_numbers(bed, host):
    try:
        bed.wait_for("numbers of the unit's", lambda: sum(map(bool, numbers(bed))) >= 2)
    except InputError:
        pytest.fail(host.said(UNIT))


@pytest.fixture
def started(bed, host):
    """The unit is active, which it says itself, and its numbers are in Slurm."""
    host.run("systemctl", "start", UNIT)
    wait_for_numbers(bed, host)
    yield host
    host.run("systemctl", "stop", UNIT, check=False)
    host.run("systemctl", "reset-failed", UNIT, check=False)


def test_it_starts_reloads_and_gives_all_back_when_it_is_stopped(bed, started):
    """Stopped, it was a success, and Slurm holds nothing of its."""
    assert started.shown(UNIT, "ActiveState") == "active"
    assert started.shown(UNIT, "StatusText")
    started.run("systemctl", "reload", UNIT)
    bed.wait_for("the reload", lambda: "was read again" in started.said(UNIT))
    started.run("systemctl", "stop", UNIT)
    assert (started.shown(UNIT, "ActiveState"), started.shown(UNIT, "Result")) == ("inactive", "success")
    assert set(numbers(bed)) == {0}
    assert not bed.backend().observe().records


@pytest.mark.parametrize(("sign", "result"), [("KILL", "signal"), ("STOP", "watchdog")])
def test_a_crash_and_a_hang_give_all_back_and_it_is_started_again(bed, started, sign, result):
    """Killed, or found to hang by the watchdog: ExecStopPost gives back, and a new one acts."""
    before = int(started.shown(UNIT, "NRestarts"))
    started.kill_main(UNIT, sign)
    bed.wait_for("all to be given back", lambda: not any(numbers(bed)))
    bed.wait_for("a new start", lambda: int(started.shown(UNIT, "NRestarts")) > before)
    wait_for_numbers(bed, started)
    said = started.said(UNIT)
    assert f"Failed with result '{result}'" in started.run("journalctl", "--no-pager", f"--unit={UNIT}")
    assert "Slurm holds nothing of ours" in said


def test_settings_that_cannot_be_read_change_nothing_and_are_told(bed, started):
    """It ends at once with a sentence, gives back what it can, and goes on when they are right again."""
    started.run("systemctl", "stop", UNIT)
    started.install("/etc/rltune/control.toml", SETTINGS.replace('"act"', '"nonsense"'))
    started.run("systemctl", "start", UNIT, check=False)
    assert "nonsense" in started.said(UNIT)
    assert set(numbers(bed)) == {0}
    started.install("/etc/rltune/control.toml", SETTINGS)
    wait_for_numbers(bed, started)
