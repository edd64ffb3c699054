"""Giving back on a real Slurm, by the clock: how long does `rltune control --release` take, whoever changed the jobs?

    python benchmarks/rltune/give_back.py [--jobs 2000]

So many jobs wait and all have a number of a controller that is killed. Then the command is run as the unit runs it
after a crash, without a journal, and Slurm is asked what it still holds. How long Slurm's own commands take for one
look and as many writes is measured right after: on a busy machine the ratio tells more than the seconds. Needs root and
Slurm.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rltune.lab.testbed import Testbed
from rltune.live.see.backend import Change, ChangeKind

RLTUNE = (sys.executable, "-c", "from rltune.cli import main; main()")
SETTINGS = "steer = 'off'\n[advanced.limits]\nchanges_per_cycle = 100000\n"
SETTINGS += "[advanced.health]\nmax_overruns = 1000000\nmax_decision_s = 100\n"  # a slow machine is no fault here
SUBMIT = "for i in $(seq {}); do sbatch -Q -o /dev/null -D / -t $((i % 97 + 3)) --gpus-per-node=k80:2 --wrap true; done"


def numbers(bed: Testbed) -> int:
    """Count the waiting jobs with a SiteFactor."""
    return sum(parts.site != 0 for parts in bed.backend().priorities().values())


def main() -> None:
    """Submit, act, kill, give back."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2000)
    jobs = parser.parse_args().jobs
    folder = Path(tempfile.mkdtemp(prefix="rltune-"))
    folder.chmod(0o755)
    with Testbed.up(folder, settings={"MaxJobCount": "20000"}) as bed:
        bed.submit(36_000, gpus=2, gpu_type="k80", nodes=2, limit_min=600)
        bed.run("sh", "-c", SUBMIT.format(jobs), timeout_s=3600)
        (folder / "control.toml").write_text(SETTINGS, encoding="utf-8")
        words = [*RLTUNE, "control", "--testbed", str(folder), "--journal", str(folder / "lost.db")]
        act = ["--mode", "act", "--partition", "gpu", "--policy", "saf", "--config", str(folder / "control.toml")]
        with subprocess.Popen([*words, *act, "--cycle", "5"]) as controller:
            bed.wait_for("numbers", lambda: numbers(bed) > 0.9 * jobs, 600)
            time.sleep(10)
            controller.send_signal(signal.SIGKILL)
        held = numbers(bed)
        (folder / "lost.db").unlink()
        begin = time.monotonic()
        done = subprocess.run([*words, "--release"], check=False)
        seconds = time.monotonic() - begin
        load = os.getloadavg()[0]
        print(
            f"{held} of {jobs} jobs had a number; {numbers(bed)} have one after {seconds:.1f} s, exit {done.returncode}"
        )
        begin = time.monotonic()
        slurm = bed.backend()
        slurm.apply([Change(job.id, ChangeKind.SITE_FACTOR, 0) for job in slurm.observe().pending])
        alone = time.monotonic() - begin
        print(f"one look and as many writes by Slurm's own commands, right after: {alone:.1f} s")
        print(f"load of the machine: {load:.1f}")


if __name__ == "__main__":
    main()
