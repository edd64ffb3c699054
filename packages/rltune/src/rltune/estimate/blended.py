"""A blend of estimators: the geometric mean of what each says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError
from rltune.estimate.estimators import Believed, Estimates, Estimator, LooksAgain, Onlooks, RunSeen, estimated
from rltune.jobs import Floats, Jobs


@dataclass(frozen=True)
class Blend:
    """The geometric mean of what several estimators say, `blend:user+predicted`."""

    parts: tuple[Estimator, ...]

    @property
    def name(self) -> str:
        """Name it by its parts."""
        return "blend:" + "+".join(part.name for part in self.parts)

    @property
    def before(self) -> Jobs | None:
        """Return the history of its first part that has one."""
        return next((b for b in (getattr(part, "before", None) for part in self.parts) if b is not None), None)

    def after(self, before: Jobs) -> Blend:
        """Start warm, each part that learns."""
        return replace(self, parts=tuple(p.after(before) if hasattr(p, "after") else p for p in self.parts))

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:
        """Ask every part."""
        made = [estimated(part, jobs, seed) for part in self.parts]
        for part, each in zip(self.parts, made, strict=True):
            if each.likeness is not None:
                raise InputError(f"{self.name}: {part.name} is made inside the run, and cannot be blended")
        values = _mean([each.values_s for each in made])
        looks = BlendedLooks(tuple(e.looks or e.values_s for e in made))
        return Estimates(values, looks=looks if any(e.looks for e in made) else None)


def _mean(values: list[Floats]) -> Floats:
    mean: Floats = np.exp(np.mean([np.log(np.maximum(v, 1.0)) for v in values], axis=0))
    return mean


@dataclass(frozen=True)
class BlendedLooks:
    """Parts that look again and again, and values of those that do not."""

    parts: tuple[LooksAgain | Floats, ...] = field(repr=False)

    def begin(self) -> BlendedOnlooker:
        """Let every part begin that looks."""
        return BlendedOnlooker([p if isinstance(p, np.ndarray) else p.begin() for p in self.parts])

    def in_order(self, order: NDArray[np.intp]) -> BlendedLooks:
        """Return the same for jobs in another order; a number past the last is a stranger."""
        ordered = tuple(
            np.append(p, 1.0)[np.minimum(order, len(p))] if isinstance(p, np.ndarray) else p.in_order(order)
            for p in self.parts
        )
        return BlendedLooks(ordered)


class BlendedOnlooker:
    """Looks with the eyes of every part."""

    def __init__(self, parts: list[Onlooks | Floats]) -> None:
        self._parts = parts
        self.every = min(p.every for p in parts if not isinstance(p, np.ndarray))

    def look(self, look: RunSeen) -> Believed:
        """Blend what the parts say; of running jobs only those say something who look, and the longest holds."""
        told = [p if isinstance(p, np.ndarray) else p.look(look) for p in self._parts]
        seen = [t for t in told if isinstance(t, Believed)]
        coming = _mean(
            [t[look.coming] if isinstance(t, np.ndarray) else _spread(look.coming, t.coming, t.coming_s) for t in told]
        )
        waiting = next((t.waiting for t in seen if len(t.waiting)), np.zeros(0, dtype=np.int64))
        again = [
            t[waiting] if isinstance(t, np.ndarray) else t.waiting_s
            for t in told
            if not isinstance(t, Believed) or len(t.waiting)
        ]
        running = next(((t.running, t.running_s) for t in seen if len(t.running)), (waiting[:0], np.zeros(0)))
        return Believed(look.coming, coming, waiting, _mean(again) if len(waiting) else np.zeros(0), *running)


def _spread(jobs: NDArray[np.int64], known: NDArray[np.int64], values_s: Floats) -> Floats:
    """Put values in the places of their jobs; of others nothing is said."""
    found = np.ones(len(jobs))
    found[np.searchsorted(jobs, known)] = values_s
    return found
