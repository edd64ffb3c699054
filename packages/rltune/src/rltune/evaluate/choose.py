"""Configurations are chosen where nothing is reported, and reported where nothing is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rltune.evaluate.metric import metric_of
from rltune.policy.base import Networked

if TYPE_CHECKING:
    from collections.abc import Callable

    from rltune.evaluate.results import Results
    from rltune.evaluate.runs import Contender

SIDES = ("static", "learned")
KINDS = ("without backfilling", "with any backfilling")


@dataclass(frozen=True)
class Choice:
    """The best pipeline of a side on the validation part; from here on it is frozen."""

    side: str
    kind: str
    pipeline: Contender
    value: float  # of the metric, on the validation part
    among: int

    def __str__(self) -> str:
        return f"{self.side}, {self.kind}: {self.pipeline.label} (best of {self.among} on the validation part)"


def is_learned(pipeline: Contender) -> bool:
    """Tell a trained model from rules and from a user's own function."""
    return isinstance(pipeline.policy, Networked)


def choose(validation: Results, metric: str) -> tuple[Choice, ...]:
    """Choose the best pipeline of each side, without backfilling and with any."""
    made = (_best(validation, metric, side, kind) for kind in KINDS for side in SIDES)
    return tuple(choice for choice in made if choice is not None)


def _best(validation: Results, metric: str, side: str, kind: str) -> Choice | None:
    rows = [i for i, p in enumerate(validation.pipelines) if _admits(side, kind)(p)]
    if not rows:
        return None
    sign = -1.0 if metric_of(metric).higher_is_better else 1.0
    means = validation.means(metric)[rows]
    best = rows[int(np.nanargmin(sign * means))]
    return Choice(side, kind, validation.pipelines[best], validation.mean(best, metric), len(rows))


def _admits(side: str, kind: str) -> Callable[[Contender], bool]:
    def admits(pipeline: Contender) -> bool:
        right_side = is_learned(pipeline) == (side == "learned")
        return right_side and (kind != KINDS[0] or pipeline.backfill == "none")

    return admits
