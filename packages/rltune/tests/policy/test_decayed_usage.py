"""Fair share against a slow, plain computation: every spell of every job decayed by itself."""

import math

import numpy as np
import pytest
from policy.stepping import machine, scores_by_row

from rltune.cluster import Cluster
from rltune.jobs import Jobs
from rltune.kernel.backfill.scheduling_pass import make_pass
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.state import arrays as core
from rltune.kernel.state.fair_share import REFERENCE
from rltune.policy.multifactor import Multifactor

CLUSTER = Cluster.uniform(nodes=4, gpus=8)
DAY_S = 86400.0
OFF = {"age": 0.0, "job_size": 0.0, "partition": 0.0, "qos": 0.0}


def months_of_jobs(seed: int) -> Jobs:
    """Let 20 users of 5 accounts, and some of none, submit in bursts over four months, with a pause of weeks."""
    draw = np.random.default_rng(seed)
    n = 400
    submit_s = np.sort(draw.uniform(0.0, 120 * DAY_S, n) // (2 * DAY_S) * 2 * DAY_S + 1e9)
    submit_s[n // 2 :] += 40 * DAY_S
    return Jobs.from_arrays(
        submit_s,
        draw.exponential(DAY_S, n),
        draw.integers(1, 17, n),
        user=[f"u{i}" for i in draw.integers(0, 20, n)],
        account=[None if i == 0 else f"a{i}" for i in draw.integers(0, 6, n)],
    )


def decayed(jobs: Jobs, life, now_s: float, half_life_s: float) -> np.ndarray:
    """Return each job's GPU-seconds up to now, every second decayed by its age."""
    rate = math.log(2.0) / half_life_s
    usage = np.zeros(len(jobs))
    for job, (start_s, end_s) in enumerate(zip(life.start.tolist(), life.end.tolist(), strict=True)):
        if start_s < now_s:  # not if it is NaN: has not started
            left = math.exp(-rate * (now_s - min(end_s, now_s)))
            usage[job] = jobs.gpus[job] * left * -math.expm1(-rate * (min(end_s, now_s) - start_s)) / rate
    return usage


def expected_factor(jobs: Jobs, usage: np.ndarray, job: int) -> float:
    """Return 2^(-U / S) by the formulas of docs/reference/policies.md, all shares being 1."""
    users, accounts = jobs.user.codes, jobs.account.codes
    if usage.sum() == 0.0:
        return 1.0
    alone = len(set(users[accounts < 0].tolist()))
    beside = len(set(accounts[accounts >= 0].tolist())) + alone
    own = usage[(users == users[job]) & (accounts == accounts[job])].sum() / usage.sum()
    if accounts[job] < 0:
        return 2.0 ** (-own * beside)
    siblings = accounts == accounts[job]
    share = 1.0 / len(set(users[siblings].tolist()))
    effective = own + (usage[siblings].sum() / usage.sum() - own) * share
    return 2.0 ** (-effective / (share / beside))


@pytest.mark.parametrize(("half_life_s", "rebased"), [(7 * DAY_S, False), (0.5 * DAY_S, True), (3600.0, True)])
def test_usage_decays_as_computed_spell_by_spell(half_life_s, rebased):
    """Whatever the half-life, also where the reference moment moves, every factor is right to nine digits."""
    jobs = months_of_jobs(seed=3)
    m = machine(jobs, CLUSTER, Multifactor(fairshare=1.0, half_life_s=half_life_s, **OFF), backfill="easy")
    reference_s = m.state.growth[REFERENCE]
    compared = 0
    while advance(m.w, m.s, m.options):
        usage = decayed(jobs, m.state.life, float(m.state.now[0]), half_life_s)
        for job, score in scores_by_row(m).items():
            assert -score == pytest.approx(expected_factor(jobs, usage, job), rel=1e-9)
            compared += 1
        make_pass(m.w, m.s, m.options)
    assert compared > 400
    assert (m.state.growth[REFERENCE] > reference_s) == rebased
    assert m.state.n[core.ENDED] == len(jobs)
