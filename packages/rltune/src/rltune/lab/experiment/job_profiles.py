"""Named profiles of the experiment's jobs: how long they run, who has agreed to give way, and what that costs."""

from __future__ import annotations

import math
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rltune.errors import unknown
from rltune.jobs import Jobs
from rltune.lab.experiment import checkpointing_job
from rltune.preemption_rules import lots
from rltune.whole_file import write_whole

YIELDS = "yields"  # the word of its comment by which a job agrees to give way


@dataclass(frozen=True)
class JobProfile:
    """What is made of the fine-tuning jobs of a seed."""

    stretch: float = 1.0  # of run times, limits and the times between two submissions
    willing: float = 0.0  # share of the jobs that agree to give way, by lot
    checkpoint_s: float = math.inf  # of work between two checkpoints of those
    restart_s: float = 0.0
    works: bool = False  # jobs count their work and keep a log, instead of sleeping
    guard: str = "24h:4x"  # of the controller

    def shape(self, jobs: Jobs, seed: int) -> Jobs:
        """Return the jobs as this profile has them."""
        willing = lots(range(len(jobs)), seed) < self.willing
        return jobs.with_columns(
            submit_s=jobs.submit_s * self.stretch,
            duration_s=jobs.duration_s * self.stretch,
            limit_s=jobs.limit_s * self.stretch,
            preemptible=willing,
            checkpoint_s=np.where(willing, self.checkpoint_s, math.inf),
            restart_s=np.where(willing, self.restart_s, 0.0),
        )


PROFILES = {
    "short": JobProfile(),
    "long-half-willing": JobProfile(
        stretch=6.0, willing=0.5, checkpoint_s=300.0, restart_s=60.0, works=True, guard="144h:4x"
    ),
}
PLAIN, TURNS = PROFILES  # their names


def profile_of(name: str) -> JobProfile:
    """Return a profile by its name."""
    if name not in PROFILES:
        raise unknown("profile", name, tuple(PROFILES))
    return PROFILES[name]


@dataclass(frozen=True)
class WorkFolder:
    """Where jobs of all users keep checkpoints and logs, and the program that they run."""

    folder: Path
    factor: int

    @classmethod
    def make(cls, folder: Path, factor: int) -> WorkFolder:
        """Make it, with a copy of the program: jobs' users may not be allowed to read the package."""
        folder.mkdir()
        folder.chmod(0o1777)
        made = cls(folder, factor)
        write_whole(made.program, Path(checkpointing_job.__file__).read_bytes())
        made.program.chmod(0o644)
        return made

    @property
    def program(self) -> Path:
        """Return the program."""
        return self.folder / "job.py"

    def command(self, jobs: Jobs, row: int) -> str:
        """Return what a job runs."""
        python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
        numbers = (jobs.duration_s[row], jobs.checkpoint_s[row], jobs.restart_s[row], self.factor)
        return shlex.join(["exec", python, "-IS", str(self.program), str(self.folder), *(f"{n:g}" for n in numbers)])

    def log(self, number: int) -> str:
        """Return what a job wrote; "" if it never began."""
        path = self.folder / f"{number}.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""
