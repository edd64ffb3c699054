"""Deploy the controller as docs/how-to/control.md says, for real, and upgrade and roll it back with jobs changed.

    python benchmarks/rltune/deployment.py [--before REVISION]

Makes wheels of this tree and of an earlier revision, installs one by pip into a venv below /opt, and lets an
unprivileged Operator drive a test cluster with it: act and be killed, upgrade, release; act and be killed, roll back,
release by the old version's journal, upgrade again. After each step Slurm is asked what it holds. Needs root, Debian's
Slurm and a Python outside any home. Prints one line a step with its seconds; ends with 1 if anything is left. Each
version compiles its core once, which takes a minute or more; with NUMBA_DISABLE_JIT=1 none does.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rltune.lab.testbed import Testbed

PYTHON = "/usr/bin/python3"
REPOSITORY = Path(__file__).parents[2]
HOLDER = {"gpus": 2, "gpu_type": "k80", "nodes": 2, "limit_min": 60}
ACT = ("--mode", "act", "--partition", "gpu", "--policy", "saf", "--cycle", "1")


def main() -> None:
    """Run the steps."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", default="HEAD~1", help="the revision to upgrade from and roll back to")
    revision = parser.parse_args().before
    folder = Path(tempfile.mkdtemp(prefix="rltune-deploy-", dir="/opt"))
    folder.chmod(0o755)
    try:
        with Testbed.up(folder / "bed", database=True) as bed:
            Deployment(folder, bed).run(revision)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Deployment:
    """One installation, its state folder and a cluster."""

    def __init__(self, folder: Path, bed: Testbed) -> None:
        self.folder, self.bed = folder, bed
        self.state = folder / "state"
        self.state.mkdir(mode=0o700)
        shutil.chown(self.state, "slurm", "slurm")

    def run(self, revision: str) -> None:
        """Deploy, upgrade and roll back."""
        new, old = self.wheel(REPOSITORY, "new"), self.old_wheel(revision)
        self.step("venv and pip install of the new wheel", lambda: self.install(new, first=True))
        self.fill()
        self.step("act, killed by SIGKILL", self.act_and_die)
        self.step("release without the journal", lambda: self.release(lose_journal=True))
        self.step("act, killed by SIGKILL", self.act_and_die)
        self.step("roll back to the old wheel", lambda: self.install(old))
        self.step("release by the old version", lambda: self.release(old=True))
        self.step("act by the old version, killed", self.act_and_die)
        self.step("upgrade to the new wheel", lambda: self.install(new))
        self.step("act again, killed after it took over", lambda: self.act_and_die(take_over=True))
        self.step("release without the journal", lambda: self.release(lose_journal=True))

    def step(self, name: str, do: object) -> None:
        """Do one step and say how long it took."""
        begin = time.monotonic()
        do()  # type: ignore[operator]
        print(
            f"{name:55} {time.monotonic() - begin:6.1f} s   site factors {sorted(self.factors().values())}", flush=True
        )

    def wheel(self, source: Path, name: str) -> Path:
        """Build the package's wheel."""
        out = self.folder / name
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "-w",
            str(out),
            str(source / "packages/rltune"),
        ]
        subprocess.run(command, check=True)
        return next(out.glob("*.whl"))

    def old_wheel(self, revision: str) -> Path:
        """Build the wheel of an earlier revision."""
        source = self.folder / "source"
        source.mkdir()
        archive = subprocess.run(
            ["git", "-C", str(REPOSITORY), "archive", revision, "packages/rltune"], check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
        return self.wheel(source, "old")

    def install(self, wheel: Path, *, first: bool = False) -> None:
        """Install a wheel, with what it needs the first time."""
        if first:
            subprocess.run([PYTHON, "-m", "venv", "--without-pip", str(self.folder / "rltune")], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(self.folder / "rltune/bin/python"), "install", "-q"]
        more = ["-c", str(REPOSITORY / "constraints.txt")] if first else ["--no-deps", "--force-reinstall"]
        subprocess.run([*pip, *more, str(wheel)], check=True)

    def fill(self) -> None:
        """Let three jobs wait."""
        holder = self.bed.submit(36_000, **HOLDER)
        self.bed.wait_for("a start", lambda: self.bed.job(holder)["job_state"] == "RUNNING")
        for minutes in (50, 40, 30):
            self.bed.submit(600, gpus=2, gpu_type="k80", limit_min=minutes)

    def factors(self) -> dict[int, int | None]:
        """Ask Slurm."""
        return {job.id: job.site_factor for job in self.bed.backend().observe().pending}

    def command(self, *words: str) -> subprocess.Popen[bytes]:
        """Start the installed command as the unprivileged Operator, who has no home."""
        environment = {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
            "SLURM_CONF": f"{self.bed.folder}/etc/slurm.conf",
            "NUMBA_CACHE_DIR": str(self.state),
            "HOME": "/nonexistent",
            **{name: os.environ[name] for name in ("NUMBA_DISABLE_JIT",) if name in os.environ},
        }
        program = [*self.bed.operator, str(self.folder / "rltune/bin/rltune"), "control", *words]
        return subprocess.Popen([*program, "--journal", str(self.state / "journal.db")], env=environment, cwd="/")

    def act_and_die(self, *, take_over: bool = False) -> None:
        """Let it change jobs, or take over those that another one changed, and kill it."""
        before = {record.id for record in self.bed.backend().observe().records}

        def done() -> bool:
            new = [record for record in self.bed.backend().observe().records if record.id not in before]
            return len(set(self.factors().values())) == 3 and (len(new) >= 2 or not take_over)

        with self.command(*ACT) as running:
            try:
                self.bed.wait_for("numbers", done, timeout_s=900)
            finally:
                os.kill(running.pid, signal.SIGKILL)

    def release(self, *, lose_journal: bool = False, old: bool = False) -> None:
        """Give back, and ask Slurm."""
        if lose_journal:
            for file in self.state.glob("journal.db*"):
                file.unlink()
        with self.command("--release") as running:
            code = running.wait(120)
        left = [factor for factor in self.factors().values() if factor]
        records = [] if old else self.bed.backend().observe().records
        if code or left or records:
            sys.exit(f"release ended with {code}, left {left} and {len(records)} records")


if __name__ == "__main__":
    main()
