"""An evaluation as tables and sentences for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from rltune.evaluation.comparison_tables import best_first, interval, write_ratio
from rltune.evaluation.cross import cross
from rltune.evaluation.evaluation import BY_SIZE, BY_VC
from rltune.metrics.formats import drift_of, number, percent, seconds
from rltune.policy.portfolio import taken_notes
from rltune.text import columns, cut
from rltune.trials.intervals import FEWEST
from rltune.trials.measures import COMPARED, MEASURED, metric_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rltune.evaluation.evaluation import Evaluation
    from rltune.evaluation.results import Results

SHORT = {
    "wait": "wait",
    "jct": "JCT",
    "slowdown": "slowdown",
    "delay": "delay",
    "delay-p99": "p99 delay",
    "preemptions": "displaced",
    "lost": "lost",
    "wait-p99": "p99 wait",
    "utilisation": "util.",
}
MOST_VCS = 8


def tables(evaluation: Evaluation, *, details: bool = False) -> Iterator[Table]:
    """Return the tables in the order in which they are read."""
    if evaluation.validation is not None:
        yield validation_table(evaluation)
    yield ratio_table(evaluation)
    if evaluation.pairs:
        yield pair_table(evaluation)
    if details:
        yield value_table(evaluation)
        yield group_table(evaluation, BY_SIZE, "mean wait by the GPUs that a job asks for")
        if evaluation.present(BY_VC):
            yield group_table(evaluation, BY_VC, "mean wait by VC")


def evaluation_lines(evaluation: Evaluation) -> list[str]:
    """Return in a few lines how the pipelines fared on the test part: the best first, each over the reference."""
    test, metric = evaluation.test, metric_of(evaluation.metric)
    means = test.means(evaluation.metric).tolist()
    rows = [(evaluation.labels[i], metric.write(means[i]), _against(evaluation, i)) for i in best_first(means, metric)]
    return [
        f"Evaluation by {metric.title}; test part: {extent(test)}; estimates: {evaluation.estimator}",
        *cut(columns(rows), kind="more pipelines"),
        *(f"  {note}" for note in evaluation_notes(evaluation)),
    ]


def _against(evaluation: Evaluation, i: int) -> str:
    if i == evaluation.reference:
        return "reference"
    over = interval(evaluation.test.ratio(i, evaluation.reference, evaluation.metric), write_ratio)
    return f"{over} of {evaluation.labels[evaluation.reference]}"


def validation_table(evaluation: Evaluation) -> Table:
    """Lay out every configuration on the validation part, the best first, and which were chosen."""
    results, metric = evaluation.validation, metric_of(evaluation.metric)
    assert results is not None
    table = _table(f"validation part: {extent(results)}", ["configuration", f"{metric.title}", "chosen as"])
    for i in best_first(results.means(evaluation.metric).tolist(), metric):
        label = results.pipelines[i].label
        chosen = [f"{c.side}, {c.kind}" for c in evaluation.choices if c.pipeline.label == label]
        table.add_row(Text(label), metric.write(results.mean(i, evaluation.metric)), "; ".join(chosen))
    return table


def ratio_table(evaluation: Evaluation) -> Table:
    """Lay out each pipeline's means on the test part over the reference's, and the wait over FCFS's."""
    test, base = evaluation.test, evaluation.labels[evaluation.reference]
    metric = metric_of(evaluation.metric)
    others = [name for name in evaluation.test.shown(COMPARED) if name != evaluation.metric]
    heads = [metric.title, f"ratio to {base}", "better in", *(f"{SHORT[name]} ratio" for name in others), "vs fcfs"]
    table = _table(f"test part: {extent(test)}; estimates: {evaluation.estimator}", ["pipeline", *heads])
    table.caption = Text("\n".join(evaluation_notes(evaluation)))
    for i, label in enumerate(evaluation.labels):
        cells = [metric.write(test.mean(i, evaluation.metric)), *_ratios(evaluation, i, others)]
        table.add_row(Text(label), *cells, style="dim" if i == evaluation.reference else "")
    return table


def pair_table(evaluation: Evaluation) -> Table:
    """Lay out the learned side's choices over the static side's."""
    shown = evaluation.test.shown(COMPARED)
    heads = ["", "learned / static", *(SHORT[name] for name in shown), "better in"]
    table = _table("chosen on the validation part, then frozen: ratios on the test part", heads)
    for pair in evaluation.pairs:
        cells = [interval(pair.ratios[name], write_ratio) for name in shown]
        wins = f"{pair.better_in}/{len(evaluation.test.starts)}"
        table.add_row(pair.kind, Text(f"{pair.learned} / {pair.static}"), *cells, wins)
    return table


def cross_table(evaluations: Sequence[Evaluation]) -> Table:
    """Lay out every choice under each estimator over the static choices under each."""
    metric = metric_of(evaluations[0].metric)
    names = [evaluation.estimator for evaluation in evaluations]
    heads = ["", "choice", "with", *(f"over the static choice with {name}" for name in names)]
    table = _table(f"{metric.title}: each side with each estimator, ratios on the test part", heads)
    cells: dict[tuple[str, str, str, str], list[str]] = {}
    for c in cross(evaluations):
        cells.setdefault((c.kind, c.side, c.pipeline, c.estimator), []).append(interval(c.ratio, write_ratio))
    for (kind, side, pipeline, estimator), row in cells.items():
        table.add_row(kind, Text(f"{side}: {pipeline}"), estimator, *row)
    return table


def value_table(evaluation: Evaluation) -> Table:
    """Lay out the means of every metric on the test part."""
    shown = evaluation.test.shown(MEASURED)
    table = _table("means over the windows of the test part", ["pipeline", *(SHORT[name] for name in shown)])
    for i, label in enumerate(evaluation.labels):
        table.add_row(Text(label), *(metric_of(name).write(evaluation.test.mean(i, name)) for name in shown))
    return table


def group_table(evaluation: Evaluation, grouping: int, title: str) -> Table:
    """Lay out the mean wait of groups of jobs, and its ratio to the reference's."""
    shown = evaluation.present(grouping)
    kept = shown[:MOST_VCS] if grouping == BY_VC else shown
    names, jobs = evaluation.groupings[grouping].names, evaluation.test.group_jobs(grouping)
    base = evaluation.labels[evaluation.reference]
    table = _table(title, ["group", "jobs", "pipeline", "mean wait", f"ratio to {base}"])
    for g in kept:
        for i, label in enumerate(evaluation.labels):
            who = (names[g], number(jobs[g])) if i == 0 else ("", "")
            cells = _group_cells(evaluation, i, grouping, g)
            table.add_row(*map(Text, (*who, label, *cells)), end_section=i == len(evaluation.labels) - 1)
    if len(kept) < len(shown):
        table.caption = Text(f"{len(shown) - len(kept)} smaller ones are not shown; --json has them.")
    return table


def extent(results: Results) -> str:
    """Return how many windows of which part there are."""
    rows = f"jobs {results.part.first:,} to {results.part.end - 1:,}"
    return f"{rows}, {len(results.starts)} contended windows of {results.size:,} ({results.disjoint} disjoint)"


def evaluation_notes(evaluation: Evaluation) -> list[str]:
    """List what a reader must know before believing the numbers."""
    test = evaluation.test
    contended = f"FCFS without backfilling waits over {seconds(evaluation.contended_s)} on average"
    share = f"{len(test.starts)} of {test.looked_at} windows of the test part, one every {test.every} jobs"
    said = [
        *evaluation.warnings,
        f"Contended: {contended}, as it does in {share}. Idle times are left out.",
        "Every window starts from an idle cluster; what learns knows all that had ended before it.",
    ]
    if evaluation.choices:
        said.append("Chosen on the validation part, before the test part was run; nothing was chosen on the test part.")
    if evaluation.estimator == "oracle":
        said.append("Estimates are the true run times, which no real scheduler knows.")
    if evaluation.estimator.startswith("noisy"):
        said.append("A job has one error, whatever window it is in.")
    said += (
        f"{told}." for label, work in zip(evaluation.labels, test.drift, strict=True) if (told := drift_of(label, work))
    )
    said += taken_notes(zip(evaluation.labels, test.policies, strict=True))
    if test.rejected:
        said.append(f"{test.rejected:,} jobs of the windows can never run and are in no mean.")
    if test.uneven:
        said.append(
            f"In {test.uneven} windows the pipelines ran different jobs, so their means are not of the same jobs."
        )
    return [*said, _about_intervals(test)]


def _about_intervals(test: Results) -> str:
    if test.disjoint < FEWEST:
        return f"There are no intervals: {test.disjoint} disjoint windows are too few, {FEWEST} are the least."
    how = f"Student's t over blocks of time, {test.disjoint} disjoint windows"
    return f"[low, high]: {test.confidence:.0%} intervals of ratios of means; {how}."


def _ratios(evaluation: Evaluation, i: int, others: Sequence[str]) -> list[str]:
    test, base = evaluation.test, evaluation.reference
    against_fcfs = "" if i == evaluation.fcfs else _change(test.ratio(i, evaluation.fcfs, evaluation.metric).estimate)
    if i == base:
        return ["reference", "", *("" for _ in others), against_fcfs]
    wins = f"{test.better_in(i, base, evaluation.metric)}/{len(test.starts)}"
    main = interval(test.ratio(i, base, evaluation.metric), write_ratio)
    return [main, wins, *(write_ratio(test.ratio(i, base, name).estimate) for name in others), against_fcfs]


def _change(of_one: float) -> str:
    return f"{'+' if of_one > 1 else ''}{percent(of_one - 1)}"


def _group_cells(evaluation: Evaluation, i: int, grouping: int, group: int) -> tuple[str, str]:
    mean = seconds(evaluation.test.group_mean(i, grouping, group))
    if i == evaluation.reference:
        return mean, "reference"
    return mean, interval(evaluation.test.group_ratio(i, evaluation.reference, grouping, group), write_ratio)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=Text(title), title_justify="left", caption_justify="left")
    for i, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if i else "left", no_wrap=i == 0)
    return table
