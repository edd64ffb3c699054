"""The same jobs on several clusters: every pipeline on every cluster is a contender, paired window by window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rltune.errors import InputError
from rltune.evaluation.comparison import Comparison, Run
from rltune.evaluation.comparison_tables import interval, write_ratio
from rltune.trials.measures import metric_of
from rltune.trials.pipelines import Contender

AT = " @ "


def join_clusters(made: Mapping[str, Comparison]) -> Comparison:
    """Make one comparison of those of several clusters, by name; the baseline is that of the first."""
    (first_name, first), *_ = made.items()
    if any(other.windows != first.windows for other in made.values()):
        raise InputError("the clusters were not compared on the same windows: give windows that no cluster chooses")
    runs: list[Run] = []
    contenders: list[Contender] = []
    for name, comparison in made.items():
        runs += [replace(run, contender=run.contender + len(contenders)) for run in comparison.runs]
        contenders += [replace(one, label=f"{one.label}{AT}{name}") for one in comparison.contenders]
    joined = Comparison.build(
        tuple(sorted(runs, key=lambda run: (run.window, run.contender))),
        first.windows,
        tuple(contenders),
        f"{first.contenders[first.baseline].label}{AT}{first_name}",
        first.metric,
        first.confidence,
        seed=first.seed,
        about=first.about,
        notes=tuple(dict.fromkeys(note for comparison in made.values() for note in comparison.notes)),
    )
    return replace(joined, notes=(*between_clusters(joined, list(made)), *joined.notes))


def between_clusters(joined: Comparison, names: list[str]) -> Iterator[str]:
    """Return what another cluster than the first does to every pipeline, in sentences."""
    metric = metric_of(joined.metric)
    pipelines = [
        one.label.removesuffix(AT + names[0]) for one in joined.contenders if one.label.endswith(AT + names[0])
    ]
    for pipeline in pipelines:
        against = joined.against(f"{pipeline}{AT}{names[0]}")
        for standing in against.standings:
            label, _, name = standing.label.rpartition(AT)
            if label == pipeline and name != names[0]:
                ratio = f"{interval(standing.ratio, write_ratio)} of that on {names[0]}"
                yield f"{pipeline}: {metric.title} on {name} {metric.write(standing.value)}, {ratio}."
