"""What sprio tells of waiting jobs: the site factor, which the JSON lacks, and who set the priority."""

from __future__ import annotations

from rltune.live.see.backend import BackendError
from rltune.live.see.snapshot import LOWEST, PriorityParts

FORMAT = "%i|%Y|%S|%N|%A|%B|%F|%J|%P|%Q|%T"  # id, priority, site, nice, then the other factors


def factors_of(text: str) -> dict[int, PriorityParts]:
    """Return per job what its priority is made of; Slurm shows no factor of a priority that was set by hand."""
    found: dict[int, PriorityParts] = {}
    for line in text.splitlines():
        fields = line.split("|")
        try:
            job, priority, site, nice = (int(float(field)) for field in fields[:4])
            others = sum(_value(field) for field in fields[4:])
        except ValueError:
            raise BackendError(f"sprio printed what cannot be read: {line[:100]!r}") from None
        by_hand = priority > LOWEST and others == 0 and site == 0 and nice == 0
        found[job] = PriorityParts(priority, site, round(others) - nice, by_hand)
    return found


def _value(text: str) -> float:
    """Add up a factor; that of the resources is a list such as `cpu=1.5,gres/gpu=4.0`."""
    return sum(float(part.rpartition("=")[2]) for part in text.split(",") if part)
