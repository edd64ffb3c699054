"""The result of an evaluation on held-out windows: what was chosen, on what, and how it fared where nothing was."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.evaluation.choose import KINDS, Choice
from rltune.evaluation.results import Results
from rltune.metrics.formats import DRIFT
from rltune.text import html_of
from rltune.trials.groups import Groups
from rltune.trials.measures import COMPARED, MEASURED, metric_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rltune.trials.intervals import Interval

BY_SIZE, BY_VC = range(2)  # places in Evaluation.groupings


@dataclass(frozen=True)
class Pair:
    """The learned side's choice against the static side's, of the same kind, on the test part."""

    kind: str
    learned: str
    static: str
    ratios: dict[str, Interval]  # by metric
    better_in: int


@dataclass(frozen=True)
class Evaluation:
    """Pipelines on the test part; with choices, only those that were chosen on the validation part, and FCFS."""

    test: Results
    reference: int  # the pipeline of `test` that others are divided by
    metric: str
    estimator: str
    contended_s: float
    groupings: tuple[Groups, ...]  # by size, by VC
    validation: Results | None = None
    choices: tuple[Choice, ...] = ()
    warnings: tuple[str, ...] = ()  # what makes results worthless

    @property
    def fcfs(self) -> int:
        """Return the pipeline that tells contention, and that papers compare with."""
        return 0

    @property
    def labels(self) -> list[str]:
        """Name the pipelines of the test part."""
        return [p.label for p in self.test.pipelines]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Compare the two sides' choices, kind by kind."""
        return tuple(self._pairs())

    def _pairs(self) -> Iterator[Pair]:
        for kind in KINDS:
            of = {c.side: c.pipeline.label for c in self.choices if c.kind == kind}
            if len(of) == 2:
                ours, theirs = self.test.index(of["learned"]), self.test.index(of["static"])
                ratios = {metric: self.test.ratio(ours, theirs, metric) for metric in COMPARED}
                better = self.test.better_in(ours, theirs, self.metric)
                yield Pair(kind, of["learned"], of["static"], ratios, better)

    def present(self, grouping: int) -> list[int]:
        """List the groups that have jobs, the largest VC first, sizes in order."""
        jobs = self.test.group_jobs(grouping)
        order = np.argsort(-jobs, kind="stable") if grouping == BY_VC else np.arange(len(jobs))
        return [int(g) for g in order if jobs[g] > 0]

    def __repr__(self) -> str:
        from rltune.evaluation.evaluation_tables import evaluation_lines

        return "\n".join(evaluation_lines(self))

    def _repr_html_(self) -> str:
        from rltune.evaluation.evaluation_tables import tables

        return "".join(html_of(table) for table in tables(self))

    def to_dict(self) -> dict[str, Any]:
        """Return all results as plain values; what cannot be told is None."""
        from rltune.evaluation.evaluation_tables import evaluation_notes
        from rltune.metrics.formats import plain

        content: dict[str, Any] = plain(
            {
                "metric": self.metric,
                "estimator": self.estimator,
                "contended_s": self.contended_s,
                "notes": evaluation_notes(self),
                "choices": [
                    {"side": c.side, "kind": c.kind, "pipeline": c.pipeline.label, "value": c.value, "among": c.among}
                    for c in self.choices
                ],
                "pairs": [asdict(pair) for pair in self.pairs],
                "validation": None if self.validation is None else _part(self.validation),
                "test": {**_part(self.test), "standings": [self._standing(i) for i in range(len(self.labels))]},
            }
        )
        return content

    def _standing(self, i: int) -> dict[str, Any]:
        return {
            "pipeline": self.labels[i],
            "learned": self.test.pipelines[i].learned,
            "against": self.labels[self.reference],
            "ratio": {metric: asdict(self.test.ratio(i, self.reference, metric)) for metric in COMPARED},
            "difference": asdict(self.test.difference(i, self.reference, self.metric)),
            "better_in": self.test.better_in(i, self.reference, self.metric),
            "ratio_to_fcfs": {metric: asdict(self.test.ratio(i, self.fcfs, metric)) for metric in COMPARED},
            "by_size": self._groups_of(i, BY_SIZE),
            "by_vc": self._groups_of(i, BY_VC),
        }

    def _groups_of(self, i: int, grouping: int) -> list[dict[str, Any]]:
        jobs = self.test.group_jobs(grouping)
        return [
            {
                "group": self.groupings[grouping].names[g],
                "jobs": int(jobs[g]),
                "mean_wait_s": self.test.group_mean(i, grouping, g),
                "ratio": asdict(self.test.group_ratio(i, self.reference, grouping, g)),
            }
            for g in self.present(grouping)
        ]

    @property
    def best(self) -> int:
        """Return the pipeline with the best value of the metric on the test part."""
        sign = -1.0 if metric_of(self.metric).higher_is_better else 1.0
        return int(np.nanargmin(sign * self.test.means(self.metric)))


def _part(results: Results) -> dict[str, Any]:
    return {
        "part": results.part.name,
        "first_job": results.part.first,
        "jobs": len(results.part),
        "window": results.size,
        "every": results.every,
        "looked_at": results.looked_at,
        "contended": len(results.starts),
        "disjoint": results.disjoint,
        "starts": list(results.starts),
        "pipelines": [
            {
                "label": p.label,
                **{name: results.drift[i][name] for name in DRIFT},
                **{metric: results.mean(i, metric) for metric in MEASURED},
            }
            for i, p in enumerate(results.pipelines)
        ],
        "mean_wait_s_by_window": {p.label: results.values[i, :, 0].tolist() for i, p in enumerate(results.pipelines)},
    }
