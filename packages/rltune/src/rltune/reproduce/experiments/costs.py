"""Section 5.7: how long training, a decision, the solver and a burst of 10,000 arrivals take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import run_pipeline
from rltune.estimate import get_estimator
from rltune.reproduce import protocols as by
from rltune.reproduce.cells import Plain, Section
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.paper import number
from rltune.reproduce.step import Result, Step, Workbench
from rltune.reproduce.workloads import GPU_TRACES

if TYPE_CHECKING:
    from rltune.reproduce.lesson import Lesson
    from rltune.reproduce.run_size import RunSize

TRACE, MODEL = "philly", "learned:philly"
QUEUES = (128, 256, 512, 1024)
ARRIVALS = 10_000
SOLVED_JOBS = 2_000
PAPER_WINDOWS = 100 * 100  # the paper's training: 100 epochs of 100 batches


@dataclass(frozen=True)
class Latency(Step):
    """Time the decisions over a burst of arrivals, at several sizes of the queue that the network sees."""

    kind: ClassVar[str] = "latency"

    workload: str
    arrivals: int
    solved_jobs: int

    @property
    def told(self) -> str:
        """Return what is timed."""
        return f"time decisions over {self.arrivals:,} arrivals at once"

    @property
    def cost_s(self) -> float:
        """Return roughly how long it takes on one quiet core."""
        return 60.0

    def make(self, bench: Workbench) -> Result:
        """Run the burst at every queue size, and windows with the solver."""
        work = bench.workload(self.workload)
        burst = work.jobs.window(0, self.arrivals)
        burst = burst.with_columns(submit_s=np.zeros(len(burst)))
        guess = get_estimator(by.NOISY)
        run_pipeline(burst.window(0, 500), work.cluster, parse_pipeline(MODEL, view=QUEUES[0]), guess)  # compiles
        queues: dict[str, dict[str, float]] = {}
        for view in QUEUES:
            began = perf_counter()
            made = run_pipeline(burst, work.cluster, parse_pipeline(MODEL, view=view), guess)
            seconds = perf_counter() - began
            scored = float(made.work.get("scored", 0)) or float(len(burst))
            queues[str(view)] = {"seconds": seconds, "decisions": float(made.ran.sum()), "scored": scored}
        return {"queues": queues, "arrivals": len(burst), **self._solver(bench)}

    def _solver(self, bench: Workbench) -> Result:
        work = bench.workload(self.workload)
        jobs = work.jobs.window(len(work.jobs) // 2, self.solved_jobs)
        pipeline = parse_pipeline(MODEL, "none", "milp:8")
        made = run_pipeline(jobs, work.cluster, pipeline, get_estimator(by.NOISY), timer=perf_counter)
        named = ("milp_pass_ms_p50", "milp_solve_ms_p50", "milp_solve_ms_p99", "milp_skip_rate")
        return {"solver": {name: float(made.work[name]) for name in named}}


def latency(scope: RunSize) -> Latency:
    """Return the timing step."""
    return Latency(TRACE, ARRIVALS, SOLVED_JOBS if scope.name != "quick" else 500)


def lessons(scope: RunSize) -> list[Lesson]:
    """Return the trainings whose time is told."""
    return [by.paper_lesson(scope, trace, "fcfs", "wait", 0) for trace in GPU_TRACES]


class Costs(Experiment):
    """What deciding and training cost."""

    names = ("costs",)
    title = "What training and deciding cost"
    where = "section 5.7"

    def steps(self, scope: RunSize) -> tuple[Step, ...]:
        """Return the timing, and one training of each trace."""
        return (*lessons(scope), latency(scope))

    def section(self, made: Made) -> Section:
        """Return tables with the paper's figures beside ours."""
        found = made.get(latency(made.scope))
        tables = [*_training(made), *(_deciding(found) if found else ())]
        return Section(
            self.names[0],
            self.title,
            self.where,
            tables=tuple(tables),
            differs=(
                (
                    "The paper's decision latency under 10,000 arrivals is not defined. Ours is the time of a whole "
                    "run in "
                    "which 10,000 jobs are submitted at once: all decisions at that view, and the simulator around "
                    "them."
                ),
                "Wall-clock times depend on the machine and on what else it does.",
            ),
            concludes=_conclusion(found),
        )


def _training(made: Made) -> Iterator[Plain]:
    rows = []
    for lesson in lessons(made.scope):
        if (found := made.get(lesson)) is None:
            continue
        seconds = made.bench.seconds(lesson)
        windows = max(1, found["epochs"] * lesson.windows)
        hours = seconds * PAPER_WINDOWS / windows / 3600
        rows.append(
            (
                made.origin(lesson.workload).title,
                f"{seconds:.0f} s for {windows:,} windows of 256 jobs",
                f"{hours:.2f} h",
                "3 to 8 h",
            )
        )
    if rows:
        heads = ("training", "as it was run", "as long as the paper's 10,000 windows", "paper")
        yield Plain(heads, tuple(rows), "On one core; the set-up is counted.")


def _deciding(found: Result) -> Iterator[Plain]:
    times = {int(view): of for view, of in found["queues"].items()}
    rows = []
    for view, of in times.items():
        printed = number(f"section5.7.queue{view}").value
        per = 1e3 * of["seconds"] / of["decisions"]
        rows.append((f"{view:,}", f"{printed:g}", f"{of['seconds']:.2f}", f"{per:.3f}"))
    yield Plain(
        ("queue seen", "paper, s", "all decisions, s", "a decision, ms"),
        tuple(rows),
        f"{found['arrivals']:,} arrivals at once. A decision: one job started. The paper has 0.7 ms for inference.",
    )
    solver = found["solver"]
    cells = (
        f"{number('section5.7.solver').value:g}",
        *(f"{solver[name]:.2f}" for name in ("milp_pass_ms_p50", "milp_solve_ms_p50", "milp_solve_ms_p99")),
    )
    heads = ("solver", "paper, ms", "a pass, median, ms", "a solve, median, ms", "a solve, p99, ms")
    yield Plain(heads, (("milp:8", *cells),), f"{100 * solver['milp_skip_rate']:.0f} % of the passes need no solve.")


def _conclusion(found: Result | None) -> str:
    if found is None:
        return ""
    seconds = [of["seconds"] for of in found["queues"].values()]
    growth = [b / a for a, b in pairwise(seconds)]
    low, high = (number(f"section5.7.growth.{end}").value for end in ("least", "most"))
    ours = f"{min(growth):.2f} to {max(growth):.2f}"
    return f"As the queue doubles the time grows by {ours} (paper: {low:g} to {high:g})."
