"""Runs that stop on the way, to look at what the core knows there."""

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.kernel.backfill.scheduling_pass import make_pass
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.score.rules import score_queue
from rltune.kernel.state import arrays as core


def machine(jobs: Jobs, cluster: Cluster, policy, estimator="oracle", **settings) -> Machine:
    """Prepare a run of jobs in order of submit time."""
    return Machine.of(jobs, cluster, parse_pipeline(policy, **settings), get_estimator(estimator))


def scores_at(time_s: float, jobs: Jobs, cluster: Cluster, policy, estimator="oracle") -> dict[int, float]:
    """Give the scores of the waiting jobs, by row, when something happens at that time and before anything starts."""
    m = machine(jobs, cluster, policy, estimator)
    while advance(m.w, m.s, m.options):
        if m.state.now[0] == time_s:
            return scores_by_row(m)
        make_pass(m.w, m.s, m.options)
    raise AssertionError(f"nothing happens at {time_s}")


def scores_by_row(m: Machine) -> dict[int, float]:
    """Score the queue as of now, and give the scores of the waiting jobs by row."""
    score_queue(m.w, m.s, m.options, m.state.n[core.Q_TAIL], False)
    return _by_row(m.state)


def priorities_at(time_s: float, jobs: Jobs, cluster: Cluster, policy) -> dict[int, float]:
    """Give Slurm's priorities: higher is better."""
    return {row: -score for row, score in scores_at(time_s, jobs, cluster, policy).items()}


def ranks(jobs: Jobs, cluster: Cluster, policy, estimator="oracle") -> np.ndarray:
    """Run to the end, and give the run times that the scores were made with."""
    m = machine(jobs, cluster, policy, estimator)
    m.run()
    return m.state.life.rank.copy()


def _by_row(s: core.State) -> dict[int, float]:
    waiting = s.queue[s.n[core.Q_HEAD] : s.n[core.Q_TAIL]]
    return dict(zip(waiting.job.tolist(), waiting.score.tolist(), strict=True))
