"""Looks at a run: every few submissions the estimator is shown what has happened, and what it believes is put in.

Only what has happened is shown: a run time is told once its job has ended.
"""

from __future__ import annotations

import numpy as np

from rltune.estimate.estimators import LooksAgain, RunSeen
from rltune.jobs import Floats
from rltune.kernel.jit import kernel
from rltune.kernel.rollout.event_loop import stands_before
from rltune.kernel.score.rules import static_score
from rltune.kernel.state import arrays as core
from rltune.kernel.state.handles import Arrays

MOMENTS = 64  # after so many, there is a look at a run in which jobs wait even if nobody is submitted


@kernel
def _rescore(w: core.World, s: core.State, policy: int, jobs: core.I8) -> None:
    """Score jobs anew by a rule that does not look at the clock."""
    for job in jobs:
        s.life[job].key = static_score(w, job, policy, s.life[job].rank)


class LookingOn:
    """One run that is looked at."""

    def __init__(self, looks: LooksAgain, arrays: Arrays, options: core.Options) -> None:
        self._onlooker = looks.begin()
        self._arrays, self._options = arrays, options
        n = len(arrays.world.job)
        self._shown_start, self._shown_end = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
        self.due = 0  # the job before whose submission the next look comes
        self.told_s = np.zeros(n)  # what was believed of each job when it was submitted

    @property
    def is_due(self) -> bool:
        """Return whether the run has come to the next look."""
        return bool(stands_before(self._arrays.w, self._arrays.s, self.due))

    def look(self) -> None:
        """Show what has happened, and put in what is believed; if nobody comes or waits there is no need."""
        state, world = self._arrays.state, self._arrays.world
        first, coming, now_s = int(state.n[core.ARRIVED]), np.zeros(0, dtype=np.int64), float(state.now[0])
        if self.is_due:
            coming = np.arange(first, min(first + self._onlooker.every, len(world.job)))
            self.due = int(coming[-1]) + 1
            now_s = float(world.job.submit[first])
        elif state.n[core.Q_HEAD] == state.n[core.Q_TAIL]:
            return
        told = self._onlooker.look(self._shown(now_s, coming))
        state.life.estimate[told.coming] = told.coming_s
        self.told_s[told.coming] = told.coming_s
        if world.takes_turns:
            return  # spells have estimates of their own, made from the first
        self._believe_of_waiting(told.waiting, told.waiting_s)
        state.life.estimate[told.running] = told.running_s
        state.n[core.DISTURBED] += 1  # no reservation stands

    def _shown(self, now_s: float, coming: np.ndarray) -> RunSeen:
        state = self._arrays.state
        status = np.asarray(state.life.status)
        done = status == core.DONE
        started = np.flatnonzero((done | (status == core.RUNNING)) & ~self._shown_start)
        ended = np.flatnonzero(done & ~self._shown_end)
        self._shown_start[started] = self._shown_end[ended] = True
        running = np.flatnonzero(status == core.RUNNING)
        return RunSeen(
            now_s=now_s,
            started=started,
            started_s=self._first_start_s(started),
            ended=ended,
            ended_s=np.asarray(state.life.end[ended]),
            ended_run_s=np.asarray(self._arrays.world.job.duration[ended]),
            coming=coming,
            waiting=self._waiting(),
            running=running,
            attained_s=(now_s - state.life.start[running]) * state.life.speed[running],
        )

    def _first_start_s(self, jobs: np.ndarray) -> Floats:
        state = self._arrays.state
        starts = state.turn.first if self._arrays.world.takes_turns else state.life.start
        return np.asarray(starts[jobs])

    def _waiting(self) -> np.ndarray:
        n = self._arrays.state.n
        return np.asarray(self._arrays.state.queue.job[n[core.Q_HEAD] : n[core.Q_TAIL]]).copy()

    def _believe_of_waiting(self, jobs: np.ndarray, values_s: Floats) -> None:
        """Let waiting jobs have other estimates; the queue is in order of age, and is scored in every pass."""
        state = self._arrays.state
        state.life.estimate[jobs] = values_s
        if not self._options.rank_by_history:
            state.life.rank[jobs] = values_s
            _rescore(self._arrays.w, self._arrays.s, self._options.policy, np.asarray(jobs, dtype=np.int64))
        n = state.n
        queue = slice(int(n[core.Q_HEAD]), int(n[core.Q_TAIL]))
        state.queue.estimate[queue] = state.life.estimate[state.queue.job[queue]]
        state.demand.shortest[:] = 0.0  # of each shape: what was known of it is over
