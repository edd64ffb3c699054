"""Figs. 11 to 15 and Table 6: one network for each base policy, trace and metric."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from rltune.reproduce import protocols as by
from rltune.reproduce.cells import HONEST, PAPER, PRODUCT, Figure, Ours, PaperCell, Plain, Section
from rltune.reproduce.drawing import Axes, Series, SpreadRow, lines, spreads
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.held_out import Entry
from rltune.reproduce.relative_gain import by_window, window_gain
from rltune.reproduce.workloads import GPU_TRACES, TITLES, WITH_VCS
from rltune.trials.measures import METRICS

if TYPE_CHECKING:
    from rltune.reproduce.held_out import HeldOutRun
    from rltune.reproduce.lesson import Lesson
    from rltune.reproduce.run_size import RunSize
    from rltune.reproduce.steady import SteadyRun
    from rltune.reproduce.step import Result, Step

METRIC_TOLD = {"wait": "wait", "jct": "JCT", "slowdown": "bounded slowdown", "utilisation": "utilisation"}
BASE_TOLD = {"fcfs": "FIFO", "sjf": "SJF", "f1": "F1", "wfp3": "WFP3", "unicep": "UNICEP", "qssf": "QSSF"}
KEYS = {
    ("philly", "fcfs", "wait"): "fig12.philly.fifo.wait",
    ("helios", "f1", "slowdown"): "fig14.helios.f1.bsld",
    ("pai", "sjf", "slowdown"): "fig14.alibaba.sjf.bsld",
    ("philly", "fcfs", "jct"): "fig15.philly.fifo.jct",
    ("pai", "f1", "jct"): "fig15.alibaba.f1.jct",
    **{
        (trace, base, "utilisation"): f"table6.{row}.{column}"
        for (trace, row) in (("philly", "philly"), ("helios", "helios"), ("pai", "alibaba"))
        for (base, column) in (("fcfs", "fifo"), ("sjf", "sjf"), ("f1", "f1"))
    },
}


def base_told(base: str) -> str:
    """Name a base policy as the paper does."""
    return BASE_TOLD.get(base, base)


def paper_lessons(scope: RunSize, trace: str, objective: str) -> list[Lesson]:
    """Return the trainings under the paper's protocol, all bases and seeds."""
    seeds = range(1) if trace == WITH_VCS else scope.all_seeds
    pairs = product(scope.bases, seeds)
    return [by.paper_lesson(scope, trace, base, objective, seed) for base, seed in pairs]


def honest_lessons(scope: RunSize, trace: str) -> list[Lesson]:
    """Return the trainings under honest conditions."""
    pairs = product(scope.honest_objectives, scope.bases, scope.all_seeds)
    return [by.honest_lesson(scope, trace, base, objective, seed) for objective, base, seed in pairs]


def paper_run(scope: RunSize, trace: str, variant: tuple[str, str]) -> HeldOutRun:
    """Return all networks and rules on the windows of one trace."""
    objectives = ("wait",) if trace == WITH_VCS else scope.objectives
    lessons = [lesson for objective in objectives for lesson in paper_lessons(scope, trace, objective)]
    return by.paper_windows(scope, trace, lessons, variant)


def honest_run(scope: RunSize, trace: str) -> SteadyRun:
    """Return all networks and rules in steady state on one trace."""
    return by.honest_run(trace, honest_lessons(scope, trace))


def variants(scope: RunSize) -> tuple[tuple[str, str], ...]:
    """Return the forms of the paper's protocol that are run."""
    return by.PAPER_VARIANTS[:1] if scope.name == "quick" else by.PAPER_VARIANTS


def traces(scope: RunSize) -> tuple[str, ...]:
    """Return the traces; Helios with VCs by lot comes with all but the quick look."""
    return GPU_TRACES if scope.name == "quick" else (*GPU_TRACES, WITH_VCS)


class PerBase(Experiment):
    """One network for each base policy, as the paper's main evaluation."""

    names = ("fig12", "fig11", "fig13", "fig14", "fig15", "table6")
    title = "RLTune over each base policy: wait, bounded slowdown, JCT, utilisation"
    where = "sections 5.2 and 5.3: Figs. 11 to 15, Table 6"

    def steps(self, scope: RunSize) -> tuple[Step, ...]:
        """Return windows under every form of the paper's protocol, steady state, and the product's choice."""
        made: list[Step] = [paper_run(scope, trace, variant) for variant in variants(scope) for trace in traces(scope)]
        made += [honest_run(scope, trace) for trace in GPU_TRACES]
        made += [by.product_windows(scope, trace, part) for trace in GPU_TRACES for part in ("validation", "test")]
        return tuple(made)

    def section(self, made: Made) -> Section:
        """Return a cell for each trace, base and metric."""
        cells = tuple(self._cells(made))
        return Section(
            self.names[0],
            self.title,
            self.where,
            cells=cells,
            tables=tuple(_variant_tables(made)),
            figures=(*_curves(made), *_distributions(made)),
            differs=(
                (
                    "The paper's windows, seeds and cluster slices of Philly and Alibaba are not published; gains are "
                    "compared, not levels."
                ),
                (
                    "JCT is wait plus run time, so the network trained for wait is judged for JCT, too; unless --full "
                    "is given for utilisation as well, and under honest conditions for slowdown."
                ),
                (
                    "Trainings end early when the validation score no longer improves, from two starts (random, and "
                    "imitating the base), of which the better is kept; the paper's run for 100 epochs."
                ),
            ),
            concludes=_conclusion(cells),
        )

    def _cells(self, made: Made) -> Iterator[PaperCell]:
        for metric, trace in product(METRIC_TOLD, traces(made.scope)):
            if trace == WITH_VCS and metric != "wait":
                continue
            for base in made.scope.bases:
                yield _cell(made, trace, base, metric)


def _cell(made: Made, trace: str, base: str, metric: str) -> PaperCell:
    ours: dict[str, Ours] = {}
    if (found := made.get(paper_run(made.scope, trace, by.HEADLINE))) is not None:
        ours[PAPER] = _paper_ours(made, found, trace, base, metric)
    if trace != WITH_VCS and (steady := made.get(honest_run(made.scope, trace))) is not None:
        ours[HONEST] = _honest_ours(made, steady, trace, base, metric)
    if trace != WITH_VCS and (chosen := product_ours(made, trace, base, metric)) is not None:
        ours[PRODUCT] = chosen
    row, column = made.origin(trace).title, f"{METRIC_TOLD[metric]} over {base_told(base)}"
    key = KEYS.get((trace, base, metric))
    return PaperCell.of_key(key, row, column, ours) if key else PaperCell(row, column, ours)


def _paper_ours(made: Made, found: Result, trace: str, base: str, metric: str) -> Ours:
    lesson = by.paper_lesson(made.scope, trace, base, made.scope.trained_for(metric), 0)
    gain = window_gain(found, Entry(lesson).group, Entry(base).label, metric)
    best = by.hindsight(found, "none", metric)
    beside = window_gain(found, Entry(lesson).group, best, metric)
    values = (METRICS[metric].write(by.mean_of(found, who, "none", metric)) for who in (base, lesson))
    told = f"{' -> '.join(values)}; over the best rule in hindsight ({best.partition(' + ')[0]}): {beside}"
    return Ours(gain, note=told, over_best=beside)


def _honest_ours(made: Made, found: Result, trace: str, base: str, metric: str) -> Ours:
    objective = made.scope.trained_for(metric, honest=True)
    lesson = by.honest_lesson(made.scope, trace, base, objective, 0)
    gain, beside, best = by.honest_gain(found, lesson, metric)
    return Ours(gain, note=f"over the best rule in hindsight ({best}): {beside}", over_best=beside)


def product_ours(made: Made, trace: str, base: str, metric: str) -> Ours | None:
    """Return the gain of the pipeline chosen on the validation part over a base policy under EASY."""
    parts = [made.get(by.product_windows(made.scope, trace, part)) for part in ("validation", "test")]
    if parts[0] is None or parts[1] is None:
        return None
    gain, chosen = by.product_gain(parts[0], parts[1], base, metric)
    return Ours(gain, note=f"{chosen}, over {base} + easy")


def _variant_tables(made: Made) -> Iterator[Plain]:
    """Show the gains in wait under all forms of the paper's protocol."""
    rows = []
    for trace, base in product(traces(made.scope), made.scope.bases):
        lesson = by.paper_lesson(made.scope, trace, base, "wait", 0)
        cells = []
        for variant in variants(made.scope):
            found = made.get(paper_run(made.scope, trace, variant))
            backfill = variant[1]
            cells.append(
                "-"
                if found is None
                else str(window_gain(found, Entry(lesson, backfill).group, Entry(base, backfill).label, "wait"))
            )
        rows.append((f"{made.origin(trace).title}, {base_told(base)}", *cells))
    heads = tuple(by.VARIANT_TOLD[variant] for variant in variants(made.scope))
    yield Plain(("wait over", *heads), tuple(rows), "Gain in mean wait under each form of the paper's protocol.")


def _curves(made: Made) -> Iterator[Figure]:
    """Draw the reward by epoch: Fig. 11 (wait) and Fig. 13 (bounded slowdown)."""
    for figure, objective in (("fig11", "wait"), ("fig13", "slowdown")):
        for base in made.scope.bases:
            series = [
                line
                for i, trace in enumerate(GPU_TRACES)
                if (line := _curve(made, trace, base, objective, i)) is not None
            ]
            if series:
                told = f"{METRIC_TOLD[objective]}, against {base_told(base)}"
                svg = lines(Axes(told, "epoch", "gap to the base, %"), series)
                caption = "Above 0: better than the base policy on the windows of training. Mean of the seeds."
                yield Figure(f"{figure}-{base}", f"{figure.capitalize()}: {told}", svg, caption)


def _curve(made: Made, trace: str, base: str, objective: str, colour: int) -> Series | None:
    logs = [
        found["log"]
        for seed in made.scope.all_seeds
        if (found := made.get(by.paper_lesson(made.scope, trace, base, objective, seed))) is not None
    ]
    if not logs:
        return None
    length = min(len(log) for log in logs)
    epochs = [entry["epoch"] for entry in logs[0][1:length]]
    rewards = np.mean([[100 * entry["reward"] for entry in log[1:length]] for log in logs], axis=0)
    return Series(made.origin(trace).title, epochs, rewards.tolist(), colour)


def _distributions(made: Made) -> Iterator[Figure]:
    """Draw the windows' means under each base and its network: Figs. 12, 14 and 15."""
    for figure, metric in (("fig12", "wait"), ("fig14", "slowdown"), ("fig15", "jct")):
        for trace in GPU_TRACES:
            found = made.get(paper_run(made.scope, trace, by.HEADLINE))
            if found is None:
                continue
            rows = []
            for i, base in enumerate(made.scope.bases):
                lesson = by.paper_lesson(made.scope, trace, base, made.scope.trained_for(metric), 0)
                rows.append(SpreadRow(base_told(base), by_window(found, Entry(base).label, metric).tolist(), i))
                rows.append(
                    SpreadRow(f"RL-{base_told(base)}", by_window(found, Entry(lesson).group, metric).tolist(), i)
                )
            title = f"{METRIC_TOLD[metric]} on {made.origin(trace).title}"
            unit = "" if metric == "slowdown" else ", s"
            svg = spreads(Axes(title, f"mean of a window{unit}", log_x=True), rows)
            caption = f"{found['windows']} windows of 1,024 jobs; box: middle half, line: median, diamond: mean."
            yield Figure(f"{figure}-{trace}", f"{figure.capitalize()}: {title}", svg, caption)


def _conclusion(cells: tuple[PaperCell, ...]) -> str:
    printed = [cell for cell in cells if cell.paper_gain is not None]
    ahead = [cell for cell in printed if cell.ahead(PAPER)]
    gains = [gain for cell in cells if PAPER in cell.ours and (gain := cell.ours[PAPER].gain) is not None]
    shown = sum(gain.low > 0 for gain in gains)
    traces_told = ", ".join(dict.fromkeys(TITLES[t] for t in GPU_TRACES))
    return (
        f"Of {len(printed)} cells for which the paper prints a number, ours is ahead in {len(ahead)} under its own "
        f"protocol. Over {traces_told}, all bases and metrics, {shown} of {len(gains)} gains are shown by an interval."
    )
