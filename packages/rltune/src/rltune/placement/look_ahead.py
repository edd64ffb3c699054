"""A run whose passes ask the solver where it could help: look, solve, start what it chose, then the ordinary pass."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from rltune.kernel.backfill.queue_front import ALL_START, CONTESTED, NOTHING_FITS, OWED_FIRST, judge, start_on, top_jobs
from rltune.kernel.backfill.scheduling_pass import make_pass
from rltune.kernel.score.rules import GIVEN, queue_end_in_view, score_queue
from rltune.kernel.state import arrays as core
from rltune.kernel.state.handles import Arrays
from rltune.kernel.state.score_heap import fill_order
from rltune.placement.adaptive_k import Adaptive, Depth, Fixed
from rltune.placement.greedy import Values, started
from rltune.placement.highs import Answer, Effort, Solver, without_solver
from rltune.placement.one_node_more import any_cut_fits, turns_with_cuts
from rltune.placement.program import Program, build_program
from rltune.placement.promise import early, kept_early
from rltune.placement.realise import Start, realise
from rltune.placement.solver_view import Camera
from rltune.placement.solver_work import Work

OVERTAKING = (core.FIT_FIRST, core.EASY)
SLOTS = 4
MOST_COLUMNS = 150  # of a program; the last jobs are left out of a larger one, which could take a second
INF = float("inf")


class LookAhead:
    """The solver's part of a run. `always`: solve even where it is known to gain nothing now (for benchmarks).

    `seconds` limits the time of all solves of one pass, by the timer, for live use. A solve that it cuts short counts
    for nothing, and best fit (or a greedy cut) stands in; `work.given_up` holds the numbers of such solves. The same
    state with the same `given_up` and no timer gives the same pass again, so a journal that keeps them can be replayed.
    """

    def __init__(
        self,
        arrays: Arrays,
        options: core.Options,
        k: int | Depth = 0,
        effort: Effort | None = None,
        *,
        seconds: float = INF,
        given_up: Collection[int] = (),
        always: bool = False,
        aggregate: bool = True,
        timer: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._state, self._w, self._s, self._options = arrays.state, arrays.w, arrays.s, options
        self._depth = _depth(k)
        self._camera = Camera(arrays.world)
        self._rack_of = arrays.state.node.rack.tolist()
        self._always, self._aggregate = always, aggregate
        self._seconds, self._given_up = seconds, frozenset(given_up)
        self._timer, self._deadline = timer, INF
        self.solver = Solver(effort)
        self.work = Work()

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics of the run."""
        return self.work.to_dict()

    def make_pass(self, options: core.Options | None = None) -> None:
        """Make one pass, under other options if given. If Python scores the queue, its scores are there already."""
        self._options = options or self._options
        begin = self._timer()
        self._deadline = begin + self._seconds
        n = self._state.n
        if n[core.Q_HEAD] == n[core.Q_TAIL]:
            self.work.skipped_nothing_waits += 1
        elif self._options.policy == GIVEN:
            self._start_keeping_scores()
        else:
            self.look(self._options)
            self.cut(self._options)
        make_pass(self._w, self._s, self._options)
        self.work.error = self.solver.error
        self.work.ms.append((self._timer() - begin) * 1e3)

    def _start_keeping_scores(self) -> None:
        """Put the scores that Python gave beside their jobs again: rows move when jobs leave the queue."""
        queue, n = self._state.queue, self._state.n
        before = slice(n[core.Q_HEAD], n[core.Q_TAIL])
        score = dict(zip(queue.job[before].tolist(), queue.score[before].tolist(), strict=True))
        for start in (self.look, self.cut):
            start(self._options)
            after = slice(n[core.Q_HEAD], n[core.Q_TAIL])
            queue.score[after] = [score[job] for job in queue.job[after].tolist()]

    def cut(self, options: core.Options) -> None:
        """Where jobs may overtake, let those that do not fit whole start on one node more."""
        self._options = options
        if self._options.backfill in OVERTAKING and any_cut_fits(self._w, self._s):
            self.work.cut_behind += turns_with_cuts(self._w, self._s, self._options, self._rows_in_order())

    def _rows_in_order(self) -> core.I8:
        """Return the places of the queue, best first."""
        first, end = int(self._state.n[core.Q_HEAD]), queue_end_in_view(self._s, self._options.in_view)
        rows = np.arange(first, end)
        if not self._options.dynamic:
            return rows
        score_queue(self._w, self._s, self._options, end, False)
        fill_order(self._s, end, rows)
        return rows

    def look(self, options: core.Options, note: Callable[[int, core.I8], None] = lambda _pool, _jobs: None) -> None:
        """Solve for each pool where jobs compete, and start what should.

        Before anything starts, `note` is told the pools and the jobs of each that are looked at, first one first.
        """
        self._options = options
        k = self._depth.k(float(self._state.now[0]), int(self._state.n[core.ARRIVED]))
        self.work.k_total += k
        jobs, counts = top_jobs(self._w, self._s, self._options, k)
        for pool in np.flatnonzero(counts).tolist():
            note(pool, jobs[pool, : counts[pool]].copy())
        skipped = ALL_START
        solved = False
        for pool in np.flatnonzero(counts).tolist():
            mine = jobs[pool, : counts[pool]].copy()
            verdict, fitting = judge(self._w, self._s, self._options, mine, len(mine))
            if verdict == CONTESTED or (self._always and verdict == ALL_START):
                solved = True
                self._solve(mine, pool, fitting, k)
            elif verdict == OWED_FIRST:
                self.work.skipped_owed += 1
            elif verdict == NOTHING_FITS:
                skipped = NOTHING_FITS
        if not solved:
            self.work.skipped_nothing_fits += skipped == NOTHING_FITS
            self.work.skipped_all_start += skipped == ALL_START

    def _solve(self, jobs: core.I8, pool: int, fitting: int, k: int) -> None:
        begin = self._timer()
        starts = self._choose(jobs, pool, fitting, aggregate=self._aggregate)
        for start in starts:
            if start_on(self._w, self._s, start.job, start.shape, np.array(start.nodes, dtype=np.int64)):
                self.work.started_by_solver += 1
                self.work.started_wider += start.shape != self._camera.narrow(start.job)
        self.work.solve_ms.append((self._timer() - begin) * 1e3)
        if self._seconds < INF:
            self._depth.observe(k, self.work.solve_ms[-1])

    def _choose(self, jobs: core.I8, pool: int, fitting: int, *, aggregate: bool) -> list[Start]:
        """Return what should start; nothing, if best fit starts as many and leaves the others as early."""
        model = self._model(jobs, pool, fitting, aggregate=aggregate)
        if model.settled and not self._always:
            self.work.skipped_one_way += 1
            return []
        answer = self._answer(model)
        more = started(model, answer.values) - max(fitting, started(model, answer.greedy))
        if more < 0 or _same_now(model, answer) or (more == 0 and _early_gain(model, answer) <= 0):
            return []
        starts, broken = realise(model, answer.values, self._rack_of)
        if broken >= 0:
            self.work.unpacked += 1
            return self._choose(jobs, pool, fitting, aggregate=False) if aggregate else []
        if more == 0 and not self._keeps_its_promise(model, answer, starts):
            self.work.unkept += 1
            return []
        self.work.better_than_greedy += 1
        self.work.more_starts += more
        return starts

    def _model(self, jobs: core.I8, pool: int, fitting: int, *, aggregate: bool) -> Program:
        """Make the program; the last jobs are left out of one that is too large."""
        snapshot = self._camera.take(self._w, self._s, self._state, jobs, pool, SLOTS, fitting, aggregate=aggregate)
        model = build_program(snapshot)
        if len(model.cost) <= MOST_COLUMNS:
            return model
        few = len(jobs) * MOST_COLUMNS // len(model.cost)
        return build_program(snapshot.first(max(2, snapshot.sure + 1, few)))

    def _answer(self, model: Program) -> Answer:
        """Ask the solver, unless there is no time for it."""
        number = self.work.solved
        left_s = self._deadline - self._timer()
        late = number in self._given_up or left_s <= 0
        answer = without_solver(model) if late else self.solver.answer(model, left_s)
        self.work.solved += 1
        self.work.optimal += answer.optimal
        if not answer.in_time:
            self.work.given_up.append(number)
        return answer

    def _keeps_its_promise(self, model: Program, answer: Answer, starts: list[Start]) -> bool:
        """Return whether others start earlier than by best fit also when their nodes are looked for one by one."""
        usual, broken = realise(model, answer.greedy, self._rack_of)
        theirs = early(model, answer.greedy) if broken >= 0 else kept_early(model, answer.greedy, usual)
        return kept_early(model, answer.values, starts) > theirs


def _depth(k: int | Depth) -> Depth:
    if isinstance(k, int):
        return Fixed(k) if k else Adaptive()
    return k


def _now(model: Program, values: Values) -> list[int]:
    return [values[i] for o in model.options if o.slot == 0 for columns in o.puts for i in columns]


def _same_now(model: Program, answer: Answer) -> bool:
    """Return whether the answer starts the same jobs on the same classes as best fit does."""
    return _now(model, answer.values) == _now(model, answer.greedy)


def _early_gain(model: Program, answer: Answer) -> int:
    return early(model, answer.values) - early(model, answer.greedy)
