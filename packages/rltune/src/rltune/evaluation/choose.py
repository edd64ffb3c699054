"""Configurations are chosen where nothing is reported, and reported where nothing is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rltune.trials.measures import metric_of

if TYPE_CHECKING:
    from rltune.engine.pipeline import Pipeline
    from rltune.evaluation.results import Results

STATIC, OURS = SIDES = ("static", "learned")
KINDS = ("without backfilling", "with any backfilling")


@dataclass(frozen=True)
class Choice:
    """The best pipeline of a side on the validation part; from here on it is frozen."""

    side: str
    kind: str
    pipeline: Pipeline
    value: float  # of the metric, on the validation part
    among: int

    def __str__(self) -> str:
        return f"{self.side}, {self.kind}: {self.pipeline.label} (best of {self.among} on the validation part)"


def is_alone(pipeline: Pipeline) -> bool:
    """Return whether it is a model by itself, without backfilling, search or solver."""
    plain = not pipeline.placement.may_solve and not pipeline.search
    return pipeline.learned and plain and pipeline.backfill == "none"


def choose(validation: Results, metric: str) -> tuple[Choice, ...]:
    """Choose the best pipeline of each side: rules and models by themselves, then both with all there is."""
    made = (_best(validation, metric, side, kind) for kind in KINDS for side in SIDES)
    return tuple(choice for choice in made if choice is not None)


def _best(validation: Results, metric: str, side: str, kind: str) -> Choice | None:
    rows = [i for i, p in enumerate(validation.pipelines) if admits(side, kind, p)]
    if not rows:
        return None
    sign = -1.0 if metric_of(metric).higher_is_better else 1.0
    means = validation.means(metric)[rows]
    best = rows[int(np.nanargmin(sign * means))]
    return Choice(side, kind, validation.pipelines[best], validation.mean(best, metric), len(rows))


def admits(side: str, kind: str, pipeline: Pipeline) -> bool:
    """Return whether a pipeline may stand for a side in a kind of comparison.

    Without backfilling a model alone meets rules alone. With any, models, search and solver, alone or together, meet
    rules that are placed greedily.
    """
    if side == STATIC:
        return pipeline.static and (kind != KINDS[0] or pipeline.backfill == "none")
    return is_alone(pipeline) if kind == KINDS[0] else not pipeline.static
