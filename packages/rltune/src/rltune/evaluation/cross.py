"""The same windows under several estimators: better knowledge is not a better policy, so each side has each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rltune.evaluation.choose import Choice
from rltune.evaluation.evaluation import Evaluation
from rltune.trials.intervals import Interval, over_time, ratio
from rltune.trials.measures import MEASURED


@dataclass(frozen=True)
class Crossing:
    """A choice under one estimator over a static choice under another, on the test part."""

    kind: str
    side: str
    pipeline: str
    estimator: str
    against: str
    against_estimator: str
    ratio: Interval  # of the metric that was chosen by


def cross(evaluations: Sequence[Evaluation]) -> tuple[Crossing, ...]:
    """Divide every choice by every static choice of its kind, whatever the estimators."""
    return tuple(
        _crossing(one, choice, other, static)
        for one in evaluations
        for choice in one.choices
        for other, static in _statics(evaluations, choice.kind)
    )


def _statics(evaluations: Sequence[Evaluation], kind: str) -> Iterator[tuple[Evaluation, Choice]]:
    for evaluation in evaluations:
        for choice in evaluation.choices:
            if (choice.side, choice.kind) == ("static", kind):
                yield evaluation, choice


def _crossing(one: Evaluation, choice: Choice, other: Evaluation, static: Choice) -> Crossing:
    assert one.test.starts == other.test.starts  # contention is FCFS's without backfilling, which asks no estimate
    column = MEASURED.index(one.metric)
    ours = one.test.values[one.test.index(choice.pipeline.label), :, column]
    theirs = other.test.values[other.test.index(static.pipeline.label), :, column]
    return Crossing(
        kind=choice.kind,
        side=choice.side,
        pipeline=choice.pipeline.label,
        estimator=one.estimator,
        against=static.pipeline.label,
        against_estimator=other.estimator,
        ratio=over_time(ours, theirs, one.test.course, ratio, **one.test.how),
    )
