"""Table 9: FIFO, SchedInspector, RLScheduler and RLTune on three traces, and how long scheduling takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rltune.engine.run import run_pipeline
from rltune.estimate import get_estimator
from rltune.reproduce import protocols as by
from rltune.reproduce.cells import HONEST, PAPER, PRODUCT, Ours, PaperCell, Plain, Section
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.experiments.per_base import METRIC_TOLD, product_ours
from rltune.reproduce.held_out import Entry, HeldOutRun
from rltune.reproduce.paper import gains, number
from rltune.reproduce.relative_gain import mean, steady_gain, window_gain
from rltune.reproduce.step import Result, Step, Workbench
from rltune.reproduce.workloads import GPU_TRACES
from rltune.trials.measures import METRICS

if TYPE_CHECKING:
    from rltune.reproduce.lesson import Lesson
    from rltune.reproduce.run_size import RunSize
    from rltune.reproduce.steady import SteadyRun

BASE = "fcfs"
FEATURES = {"schedinspector": "schedinspector", "rlscheduler": "rlscheduler", "rltune": "sampled"}
TITLES = {"fcfs": "FIFO", "schedinspector": "SchedInspector", "rlscheduler": "RLScheduler", "rltune": "RLTune"}
KEY_TRACE = {"philly": "philly", "helios": "helios", "pai": "alibaba"}
KEY_METRIC = {"slowdown": "bsld", "wait": "wait", "jct": "jct", "utilisation": "util"}
HONEST_RIVALS = ("rlscheduler", "rltune")  # an inspector of FIFO has nothing to refuse under EASY
FAITHFUL: dict[str, Any] = {"hidden": (32, 16, 8), "commit": True}
BATCHES, BATCH = 10, 256


@dataclass(frozen=True)
class Timing(Step):
    """Seconds to schedule ten batches of 256 jobs, compiled code warm."""

    kind: ClassVar[str] = "timing"

    workload: str
    entries: tuple[Entry, ...]

    @property
    def told(self) -> str:
        """Return what is timed."""
        return f"time {BATCHES} batches of {BATCH} jobs of {self.workload}"

    @property
    def needs(self) -> tuple[Step, ...]:
        """Return the trainings."""
        return tuple(e.policy for e in self.entries if not isinstance(e.policy, str))

    def values(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {"workload": self.workload, "entries": [entry.label for entry in self.entries]}

    def make(self, bench: Workbench) -> Result:
        """Time each entry on the same batches, taking turns; the least of three is kept."""
        work = bench.workload(self.workload)
        starts = np.linspace(0, len(work.jobs) - BATCH, BATCHES).astype(int)
        batches = [work.jobs.window(int(start), BATCH) for start in starts]
        pipelines = {entry.group: entry.pipeline(bench, "global", 0) for entry in self.entries}
        guess = get_estimator(by.NOISY)
        taken: dict[str, list[float]] = {group: [] for group in pipelines}
        for _ in range(4):  # the first is not kept: it may compile
            for group, pipeline in pipelines.items():
                began = perf_counter()
                for jobs in batches:
                    run_pipeline(jobs, work.cluster, pipeline, guess)
                taken[group].append(perf_counter() - began)
        return {group: min(seconds[1:]) for group, seconds in taken.items()}


def lesson(scope: RunSize, trace: str, who: str, seed: int) -> Lesson:
    """Return one training under the paper's protocol; all three are trained alike, against FIFO."""
    faithful = FAITHFUL if who == "rlscheduler" else {}
    return by.paper_lesson(scope, trace, BASE, "wait", seed, features=FEATURES[who], **faithful)


def on_our_machine(scope: RunSize, trace: str, seed: int) -> Lesson:
    """Return RLScheduler with two layers, on the machine that the others run on."""
    return by.paper_lesson(scope, trace, BASE, "wait", seed, features=FEATURES["rlscheduler"])


def entry(trained: Lesson) -> Entry:
    """Return who is run: RLScheduler on its own machine."""
    return Entry(trained, commit=trained.commit)


def honest(scope: RunSize, trace: str, who: str, seed: int) -> Lesson:
    """Return one training under honest conditions."""
    return by.honest_lesson(scope, trace, BASE, "wait", seed, features=FEATURES[who])


def windows(scope: RunSize, trace: str) -> HeldOutRun:
    """Return all of the table on one trace."""
    lessons = [lesson(scope, trace, who, seed) for who, seed in product(FEATURES, scope.all_seeds)]
    lessons += [on_our_machine(scope, trace, seed) for seed in scope.all_seeds]
    entries = (*map(Entry, ("fcfs", "sjf", "saf")), *map(entry, lessons))
    return HeldOutRun(trace, entries, by.NOISY, "global", every=scope.every)


def steady(scope: RunSize, trace: str) -> SteadyRun:
    """Return the same in steady state under EASY."""
    lessons = [honest(scope, trace, who, seed) for who in HONEST_RIVALS for seed in scope.all_seeds]
    return by.honest_run(trace, lessons)


def timing(scope: RunSize, trace: str) -> Timing:
    """Return the timing of one trace."""
    return Timing(trace, (Entry(BASE), *(entry(lesson(scope, trace, who, 0)) for who in FEATURES)))


class Rivals(Experiment):
    """RLTune beside the schedulers that learn."""

    names = ("table9",)
    title = "RLTune beside FIFO, SchedInspector and RLScheduler"
    where = "section 5.5: Table 9"

    def steps(self, scope: RunSize) -> tuple[Step, ...]:
        """Return windows, steady state, the product's choice, and timings."""
        made: list[Step] = [windows(scope, trace) for trace in GPU_TRACES]
        made += [timing(scope, trace) for trace in GPU_TRACES]
        made += [steady(scope, trace) for trace in GPU_TRACES]
        made += [by.product_windows(scope, trace, part) for trace in GPU_TRACES for part in ("validation", "test")]
        return tuple(made)

    def section(self, made: Made) -> Section:
        """Return the gains over FIFO of all three, and the levels."""
        cells = tuple(self._cells(made))
        return Section(
            self.names[0],
            self.title,
            self.where,
            cells=cells,
            tables=(*_levels(made), *_timings(made)),
            differs=(
                (
                    "All three are our own code, trained by the same PPO against FIFO for as many windows, with the "
                    "same "
                    "seeds, for wait. RLScheduler has three layers and its own "
                    "machine, which "
                    "keeps a job selected until it fits."
                ),
                (
                    "The paper's utilisation is 4 to 5 % on Philly and Helios and 0.1 % on Alibaba: a share of more "
                    "than "
                    "the slice that is run. Ours is of the slice."
                ),
                "Time: the paper's loop is Python, ours is compiled; both are for ten batches of 256 jobs.",
            ),
            concludes=_conclusion(cells),
        )

    def _cells(self, made: Made) -> Iterator[PaperCell]:
        for trace, who, metric in product(GPU_TRACES, FEATURES, KEY_METRIC):
            printed = next(g for g in gains("table9", BASE, who) if (g.trace, g.metric) == (trace, metric))
            key = f"table9.{who}.{KEY_TRACE[trace]}.{KEY_METRIC[metric]}"
            text = f"{printed.value:.3g} % ({number(f'table9.fifo.{KEY_TRACE[trace]}.{KEY_METRIC[metric]}').value:g} "
            text += f"-> {number(key).value:g})"
            row, column = f"{made.origin(trace).title}, {TITLES[who]}", f"{METRIC_TOLD[metric]} over FIFO"
            yield PaperCell(row, column, _ours(made, trace, who, metric), key, printed.value, text)


def _ours(made: Made, trace: str, who: str, metric: str) -> dict[str, Ours]:
    ours: dict[str, Ours] = {}
    if (found := made.get(windows(made.scope, trace))) is not None:
        trained = lesson(made.scope, trace, who, 0)
        gain = window_gain(found, entry(trained).group, Entry(BASE).label, metric)
        values = (METRICS[metric].write(mean(found, e.group, metric)) for e in (Entry(BASE), entry(trained)))
        ours[PAPER] = Ours(gain, note=f"{' -> '.join(values)}{_beside(made, found, trace, who, metric)}")
    if who in HONEST_RIVALS and (end := made.get(steady(made.scope, trace))) is not None:
        group, best = Entry(honest(made.scope, trace, who, 0), "easy").group, end["best_rule"][metric]
        beside = steady_gain(end, group, best, metric)
        note = f"over the best rule in hindsight ({best.partition(' + ')[0]}): {beside}"
        gain = steady_gain(end, group, Entry(BASE, "easy").label, metric)
        ours[HONEST] = Ours(gain, note=note, over_best=beside if who == "rltune" else None)
    if who == "rltune" and (chosen := product_ours(made, trace, BASE, metric)) is not None:
        ours[PRODUCT] = chosen
    return ours


def _beside(made: Made, found: Result, trace: str, who: str, metric: str) -> str:
    """Return what RLScheduler does on the machine that the others run on."""
    if who != "rlscheduler":
        return ""
    other = Entry(on_our_machine(made.scope, trace, 0)).group
    return f"; two layers on our machine: {window_gain(found, other, Entry(BASE).label, metric)}"


def _levels(made: Made) -> Iterator[Plain]:
    metrics = tuple(KEY_METRIC)
    heads = tuple(f"{METRIC_TOLD[m]}: paper / ours" for m in metrics)
    for trace in GPU_TRACES:
        found = made.get(windows(made.scope, trace))
        if found is None:
            continue
        rows = []
        for who in ("fcfs", *FEATURES):
            cells = []
            for metric in metrics:
                key = f"table9.{'fifo' if who == BASE else who}.{KEY_TRACE[trace]}.{KEY_METRIC[metric]}"
                of = Entry(BASE) if who == BASE else entry(lesson(made.scope, trace, who, 0))
                cells.append(f"{number(key).value:,g} / {_level(mean(found, of.group, metric), metric)}")
            rows.append((TITLES[who], *cells))
        yield Plain((made.origin(trace).title, *heads), tuple(rows), "Levels, for the record: windows differ.")


def _level(value: float, metric: str) -> str:
    return f"{100 * value:.1f} %" if metric == "utilisation" else f"{value:,.1f}"


def _timings(made: Made) -> Iterator[Plain]:
    rows = []
    for who in ("fcfs", *FEATURES):
        cells = []
        for trace in GPU_TRACES:
            found = made.get(timing(made.scope, trace))
            of = Entry(BASE) if who == BASE else entry(lesson(made.scope, trace, who, 0))
            cells.append("-" if found is None else f"{found[of.group]:.3f}")
        printed = number(f"table9.{'fifo' if who == BASE else who}.time").value
        rows.append((TITLES[who], f"{printed:g}", *cells))
    heads = ("scheduling ten batches of 256 jobs, s", "paper", *(made.origin(t).title for t in GPU_TRACES))
    yield Plain(heads, tuple(rows), "Seconds, compiled code warm; the least of three.")


def _conclusion(cells: tuple[PaperCell, ...]) -> str:
    ours = [cell for cell in cells if cell.row.endswith("RLTune") and cell.ahead(PAPER) is not None]
    ahead = sum(bool(cell.ahead(PAPER)) for cell in ours)
    return f"RLTune's gain over FIFO is ahead of the paper's in {ahead} of {len(ours)} cells." if ours else ""
