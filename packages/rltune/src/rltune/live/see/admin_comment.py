"""What a job's AdminComment tells its user of us: one format for all parts of rltune, which names itself as ours."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OURS = "rltune: "
_TEXT = re.compile(
    r"rltune: place (?P<place>\d+) of (?P<of>\d+), (?P<slurm_place>\d+) by Slurm alone; (?P<why>[^;]*); "
    r"by (?P<by>[^;]*), cycle (?P<cycle>\d+) of (?P<who>[^;]*)"
)
_UNSAFE = re.compile(r"[^\w .,:/+@()=-]")  # quotes and semicolons would end it, or the command


@dataclass(frozen=True)
class JobNotice:
    """Who moved a job, and why."""

    place: int  # in the queue, from 1
    of: int  # jobs that wait
    slurm_place: int  # where Slurm alone would have it
    why: str
    by: str  # the policy
    cycle: int  # of the journal
    who: str  # the machine whose controller did it

    def __str__(self) -> str:
        return (
            f"{_OURS}place {self.place} of {self.of}, {self.slurm_place} by Slurm alone; {_safe(self.why)}; "
            f"by {_safe(self.by)}, cycle {self.cycle} of {_safe(self.who)}"
        )

    @classmethod
    def read(cls, text: str) -> JobNotice | None:
        """Read one; None if the text is somebody else's."""
        match = _TEXT.fullmatch(text)
        if match is None:
            return None
        found = match.groupdict()
        numbers = {name: int(found[name]) for name in ("place", "of", "slurm_place", "cycle")}
        return cls(**{**found, **numbers})  # type: ignore[arg-type]


def is_ours(text: str) -> bool:
    """Return whether an AdminComment was written by us."""
    return text.startswith(_OURS)


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text)
