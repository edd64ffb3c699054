"""The parts of a trace: what is trained on, what configurations are chosen on, and what is looked at in the end."""

from __future__ import annotations

from dataclasses import dataclass

from rltune.errors import InputError
from rltune.text import counted
from rltune.trials.intervals import FEWEST

WINDOW = 1024  # jobs of a window, if a part has room for a few of them
HOLDOUT, MOST_HELD_OUT = 0.1, 0.25
LEAST_WINDOWS = 2  # in a held-out part of a short history


@dataclass(frozen=True)
class Part:
    """Rows of a trace in order of submit, from `first` up to `end`."""

    name: str
    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first

    def starts(self, size: int, every: int) -> range:
        """Return the rows at which windows of `size` jobs may start so that they end within this part."""
        if size < 1 or not len(self):
            raise InputError(f"the {self.name} part has {counted(len(self), 'job')}: the history is too short to cut")
        if size > len(self):
            raise InputError(
                f"a window of {size:,} jobs does not fit the {self.name} part of {len(self):,}; give smaller windows, "
                f"such as {max(1, len(self) // 4):,} jobs, or a longer history"
            )
        return range(self.first, self.end - size + 1, every)

    def disjoint(self, starts: list[int], size: int) -> int:
        """Count the most windows, of those that start here, of which no two share a job."""
        taken, free_from = 0, self.first
        for start in sorted(starts):
            if start >= free_from:
                taken, free_from = taken + 1, start + size
        return taken


def usual_holdout(jobs: int) -> float:
    """Return a tenth; of a short history as much as makes two windows, up to a quarter."""
    return min(max(HOLDOUT, LEAST_WINDOWS * WINDOW / max(jobs, 1)), MOST_HELD_OUT)


def usual_size(part: Part, wanted: int = WINDOW) -> int:
    """Return how many jobs a window has: as wanted if the part has room for enough of them, or else fewer."""
    return wanted if len(part) >= FEWEST * wanted else max(1, min(wanted, len(part) // (FEWEST + 1)))


def grown_sizes(part: Part, size: int) -> tuple[int, ...]:
    """Return a size of windows, then larger ones to try if jobs queue in none that begins with an idle cluster."""
    return (size, *(larger for larger in (len(part) // 2, len(part)) if larger > size))


@dataclass(frozen=True)
class Split:
    """Three parts, in order of time."""

    training: Part
    validation: Part
    test: Part


def split(jobs: int, holdout: float = 0.0) -> Split:
    """Hold out the last share of the jobs as the test part, and as many before them as the validation part.

    A share of 0 follows the length of the history.
    """
    if not 0 <= holdout < 0.5:
        raise InputError(f"a hold-out of {holdout:g} cannot be: it should be above 0 and below 0.5, such as 0.1")
    held = int(jobs * (holdout or usual_holdout(jobs)))
    cuts = (jobs - 2 * held, jobs - held)
    return Split(Part("training", 0, cuts[0]), Part("validation", *cuts), Part("test", cuts[1], jobs))
