"""A run whose passes ask the solver where it could help: look, solve, start what it chose, then the ordinary pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from rltune.core import state as core
from rltune.core.decide import decide
from rltune.core.scores import GIVEN
from rltune.core.topk import ALL_START, CONTESTED, NOTHING_FITS, judge, start_on, top_jobs
from rltune.placement.adapt import Adaptive, Depth, Fixed
from rltune.placement.greedy import started
from rltune.placement.milp import Effort, Solver
from rltune.placement.model import build
from rltune.placement.realise import Start, realise
from rltune.placement.view import Camera

SLOTS = 4
MOST_COLUMNS = 150  # of a program; the last jobs are left out of a larger one, which could take a second


@dataclass
class Work:
    """What the solver did in a run; milliseconds are for the reader, no decision depends on them."""

    skipped_nothing_waits: int = 0
    skipped_nothing_fits: int = 0
    skipped_all_start: int = 0
    skipped_one_way: int = 0
    solved: int = 0
    optimal: int = 0
    better_than_greedy: int = 0
    started_by_solver: int = 0
    started_wider: int = 0  # of those, on one node more than needed
    more_starts: int = 0  # jobs that greedy placement would not have started in that pass
    unpacked: int = 0  # answers that could not be packed on the nodes, solved again with the nodes apart
    k_total: int = 0
    ms: list[float] = field(default_factory=list)  # of each pass, skipped or not
    solve_ms: list[float] = field(default_factory=list)  # of each pool solved: snapshot, model, solver, nodes

    def to_dict(self) -> dict[str, Any]:
        """Give plain values, with percentiles in place of the lists."""
        plain = {f"milp_{k}": v for k, v in vars(self).items() if not isinstance(v, list) and k != "k_total"}
        passes = len(self.ms)
        looked = passes - self.skipped_nothing_waits
        plain["milp_k_mean"] = self.k_total / looked if looked else 0.0
        plain["milp_skip_rate"] = 1.0 - len(self.solve_ms) / passes if passes else 1.0
        for name, values in (("pass", self.ms), ("solve", self.solve_ms)):
            for p in (50, 99):
                plain[f"milp_{name}_ms_p{p}"] = float(np.percentile(values, p)) if values else 0.0
        plain["milp_ms_total"] = float(np.sum(self.ms))
        return plain


class LookAhead:
    """The solver's part of a run. `always`: solve even where it is known to gain nothing now (for benchmarks)."""

    def __init__(
        self,
        world: core.World,
        state: core.State,
        w: core.World,
        s: core.State,
        options: core.Options,
        k: int = 0,
        effort: Effort | None = None,
        *,
        always: bool = False,
        aggregate: bool = True,
    ) -> None:
        self._state, self._w, self._s, self._options = state, w, s, options
        self._depth: Depth = Fixed(k) if k else Adaptive()
        self._camera = Camera(world)
        self._rack_of = state.node.rack.tolist()
        self._always, self._aggregate = always, aggregate
        self.solver = Solver(effort)
        self.work = Work()

    def to_dict(self) -> dict[str, Any]:
        """Give the metrics of the run."""
        return {**self.work.to_dict(), **({"milp_error": self.solver.error} if self.solver.error else {})}

    def make_pass(self) -> None:
        """Make one pass. If a Python policy scores the queue, its scores are there already."""
        begin = perf_counter()
        n = self._state.n
        if n[core.Q_HEAD] == n[core.Q_TAIL]:
            self.work.skipped_nothing_waits += 1
        elif self._options.policy == GIVEN:
            self._look_keeping_scores()
        else:
            self._look()
        decide(self._w, self._s, self._options)
        self.work.ms.append((perf_counter() - begin) * 1e3)

    def _look_keeping_scores(self) -> None:
        """Look, then put the scores that Python gave beside their jobs again: rows move when jobs leave the queue."""
        queue, n = self._state.queue, self._state.n
        before = slice(n[core.Q_HEAD], n[core.Q_TAIL])
        score = dict(zip(queue.job[before].tolist(), queue.score[before].tolist(), strict=True))
        self._look()
        after = slice(n[core.Q_HEAD], n[core.Q_TAIL])
        queue.score[after] = [score[job] for job in queue.job[after].tolist()]

    def _look(self) -> None:
        """Solve for each pool where jobs compete, and start what should."""
        k = self._depth.k(float(self._state.now[0]), int(self._state.n[core.ARRIVED]))
        self.work.k_total += k
        jobs, counts = top_jobs(self._w, self._s, self._options, k)
        skipped = ALL_START
        solved = False
        for pool in np.flatnonzero(counts).tolist():
            mine = jobs[pool, : counts[pool]].copy()
            verdict, fitting = judge(self._w, self._s, self._options, mine, len(mine))
            if verdict == CONTESTED or (self._always and verdict == ALL_START):
                solved = True
                self._solve(mine, pool, fitting)
            elif verdict == NOTHING_FITS:
                skipped = NOTHING_FITS
        if not solved:
            self.work.skipped_nothing_fits += skipped == NOTHING_FITS
            self.work.skipped_all_start += skipped == ALL_START

    def _solve(self, jobs: core.I8, pool: int, fitting: int) -> None:
        begin = perf_counter()
        starts = self._choose(jobs, pool, fitting, aggregate=self._aggregate)
        for start in starts:
            if start_on(self._w, self._s, start.job, start.shape, np.array(start.nodes, dtype=np.int64)):
                self.work.started_by_solver += 1
                self.work.started_wider += start.shape != self._camera.narrow(start.job)
        self.work.solve_ms.append((perf_counter() - begin) * 1e3)

    def _choose(self, jobs: core.I8, pool: int, fitting: int, *, aggregate: bool) -> list[Start]:
        """Give what should start; nothing, if greedy placement is as good."""
        camera = self._camera
        snapshot = camera.take(self._w, self._s, self._state, jobs, pool, SLOTS, fitting, aggregate=aggregate)
        model = build(snapshot)
        if len(model.cost) > MOST_COLUMNS:
            few = len(jobs) * MOST_COLUMNS // len(model.cost)
            model = build(snapshot.first(max(2, snapshot.sure + 1, few)))
        if model.one_way and not self._always:
            self.work.skipped_one_way += 1
            return []
        answer = self.solver.answer(model)
        self.work.solved += 1
        self.work.optimal += answer.optimal
        now = started(model, answer.values)
        if now < fitting or answer.worth <= answer.greedy_worth:
            return []
        starts, broken = realise(model, answer.values, self._rack_of)
        if broken >= 0:
            self.work.unpacked += 1
            return self._choose(jobs, pool, fitting, aggregate=False) if aggregate else []
        self.work.better_than_greedy += 1
        self.work.more_starts += now - fitting
        return starts
