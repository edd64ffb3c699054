"""Models on traces that they were not trained on: each on each, against its base policy and the best rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.pipeline import Pipeline
from rltune.errors import InputError
from rltune.evaluation.choose import KINDS, choose
from rltune.evaluation.evaluate import HeldOutTrial, beside_fcfs, require_measured, run_part
from rltune.evaluation.results import Results
from rltune.inputs import require_inputs
from rltune.jobs import Jobs
from rltune.opt_in import for_replay
from rltune.parallel import Here, Spread
from rltune.text import html_of, text_of
from rltune.trials.groups import Groups
from rltune.trials.intervals import Interval
from rltune.trials.leak import Exam, leaks
from rltune.trials.measures import MEASURED, metric_of, relative_gap
from rltune.trials.parts import split
from rltune.trials.pipelines import line_up, unique
from rltune.trials.trial import Trial, in_order

Progress = Callable[[int, int, str], None]  # windows done, windows in all, the trace and its part


@dataclass(frozen=True)
class Ground:
    """A trace on a cluster, and what to call it."""

    name: str
    jobs: Jobs
    cluster: Cluster


@dataclass(frozen=True)
class Cell:
    """One model on one trace's test part."""

    model: str
    trace: str
    base: str
    static: str  # the best rule on that trace's validation part
    value: float
    to_base: dict[str, Interval]  # ratios by metric
    to_static: dict[str, Interval]
    windows: int
    disjoint: int


@dataclass(frozen=True)
class Transfer:
    """All models on all traces."""

    cells: tuple[Cell, ...]  # trace by trace, and model by model in each
    metric: str
    estimator: str
    backfill: str
    contended_s: float
    warnings: tuple[str, ...] = ()  # what makes results worthless

    @property
    def models(self) -> list[str]:
        """Name the models."""
        return list(dict.fromkeys(cell.model for cell in self.cells))

    @property
    def traces(self) -> list[str]:
        """Name the traces."""
        return list(dict.fromkeys(cell.trace for cell in self.cells))

    def cell(self, model: str, trace: str) -> Cell:
        """Find one cell of the matrix."""
        return next(cell for cell in self.cells if (cell.model, cell.trace) == (model, trace))

    def __repr__(self) -> str:
        from rltune.evaluation.transfer_tables import matrix

        return text_of(matrix(self), width=120)

    def _repr_html_(self) -> str:
        from rltune.evaluation.transfer_tables import matrix

        return html_of(matrix(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, gaps included; what cannot be told is None."""
        from rltune.metrics.formats import plain

        better = metric_of(self.metric).higher_is_better
        cells = [
            {
                **asdict(cell),
                "gap_to_base": asdict(gap(cell.to_base[self.metric], higher_is_better=better)),
                "gap_to_static": asdict(gap(cell.to_static[self.metric], higher_is_better=better)),
            }
            for cell in self.cells
        ]
        content: dict[str, Any] = plain({**self.__dict__, "cells": cells})
        return content


def gap(ratio: Interval, *, higher_is_better: bool = False) -> Interval:
    """Return (theirs - ours) / max(theirs, ours), the paper's reward, from ours / theirs; above 0 is better."""
    low, estimate, high = (
        relative_gap(1.0, 1 / r if higher_is_better else r) for r in (ratio.low, ratio.estimate, ratio.high)
    )
    if low <= high:
        return Interval(estimate, low, high, ratio.low_unknown, ratio.high_unknown)
    return Interval(estimate, high, low, ratio.high_unknown, ratio.low_unknown)


def transfer(
    models: Sequence[Any],
    grounds: Sequence[Ground],
    rules: Sequence[str],
    backfill: str = "none",
    placement: str = "best-fit",
    estimator: Any = "history",
    *,
    holdout: float = 0.0,
    size: int = 1024,
    every: int = 64,
    contended_s: float = 600.0,
    metric: str = "wait",
    head: str = "pool",
    view: int = 0,
    seed: int = 0,
    spread: Spread | None = None,
    progress: Progress | None = None,
) -> Transfer:
    """Run every model on the test part of every trace; the best rule is chosen on the part before."""
    require_measured(metric)
    for ground in grounds:
        require_inputs(ground.jobs, ground.cluster)
    if len({ground.name for ground in grounds}) < len(grounds) or not grounds:
        raise InputError("give at least one trace, and each once")
    settings: dict[str, Any] = {"head": head, "view": view, "seed": seed}
    cells: list[Cell] = []
    warnings: list[str] = []
    for ground in grounds:
        jobs, guess = in_order(for_replay(ground.jobs, ground.cluster), estimator)
        pipelines = beside_fcfs(line_up(rules, [backfill], [placement], **settings))
        trial = HeldOutTrial(
            Trial(jobs, ground.cluster, guess, seed=seed), pipelines, size, contended_s, (Groups.by_size(jobs),)
        )
        cells += _on_one_trace(trial, ground.name, models, holdout, every, metric, spread or Here(), progress)
        judged = line_up(models, [backfill], [placement], **settings)
        exam = Exam.of_part(jobs, split(len(jobs), holdout).test)
        warnings += (f"{ground.name}: {told}" for told in leaks([p.policy for p in judged], [exam]))
    return Transfer(tuple(cells), metric, str(estimator), backfill, contended_s, tuple(warnings))


def base_of(policy: Any) -> str:
    """Name the base policy that a model was trained against; FCFS for what is no model."""
    return str(getattr(getattr(policy, "model", None), "base", "fcfs"))


def _on_one_trace(
    trial: HeldOutTrial,
    trace: str,
    models: Sequence[Any],
    holdout: float,
    every: int,
    metric: str,
    spread: Spread,
    progress: Progress | None,
) -> list[Cell]:
    def tell(done: int, planned: int, part: str) -> None:
        if progress is not None:
            progress(done, planned, f"{trace}, {part}")

    parts = split(len(trial.trial.jobs), holdout)
    validation = run_part(trial, parts.validation, every, spread, tell)
    static = next(c.pipeline for c in choose(validation, metric) if c.kind == KINDS[1])
    judged = [_pipeline(model, static) for model in models]
    bases = [_pipeline(base_of(p.policy), static) for p in judged]
    kept = unique([trial.pipelines[0], static, *bases, *judged])
    test = run_part(replace(trial, pipelines=kept), parts.test, every, spread, tell)
    return [
        _cell(test, p.label, trace, base.label, static.label, metric) for p, base in zip(judged, bases, strict=True)
    ]


def _pipeline(spec: Any, like: Pipeline) -> Pipeline:
    """Put another policy, with what is around it, in the place of a pipeline's."""
    return parse_pipeline(spec, like.backfill, like.placement, head=like.head, view=like.view, seed=like.seed)


def _cell(test: Results, model: str, trace: str, base: str, static: str, metric: str) -> Cell:
    ours = test.index(model)
    return Cell(
        model=model,
        trace=trace,
        base=base,
        static=static,
        value=test.mean(ours, metric),
        to_base={name: test.ratio(ours, test.index(base), name) for name in MEASURED},
        to_static={name: test.ratio(ours, test.index(static), name) for name in MEASURED},
        windows=len(test.starts),
        disjoint=test.disjoint,
    )
