"""What jobs say of themselves: each writes down when it starts and when it has come to its end, whatever Slurm says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

_KEY = "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}_${SLURM_ARRAY_TASK_ID:-0}"


@dataclass(frozen=True)
class SpellLog:
    """A file to which every job of a scene adds a line when it starts and one when it ends."""

    path: Path

    def script(self, doing: str) -> str:
        """Return the commands of a job that does something between its two lines."""
        return f'echo "{_KEY} start" >>{self.path}; {doing}; echo "{_KEY} end" >>{self.path}'

    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """Count the starts and the ends of every job."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        lines = [line.split() for line in text.splitlines()]
        starts = Counter(key for key, what in lines if what == "start")
        return starts, Counter(key for key, what in lines if what == "end")


def keys_of(job: int, tasks: int = 0) -> tuple[str, ...]:
    """Name a job, or the tasks 1 to N of an array, as their scripts do."""
    return tuple(f"{job}_{task}" for task in range(1, tasks + 1)) if tasks else (f"{job}_0",)
