"""Slurm's multifactor priority by hand: each factor alone, then together."""

import pytest
from policy.stepping import priorities_at

import rltune
from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.policy import get_policy
from rltune.policy.multifactor import Multifactor

CLUSTER = Cluster.uniform(nodes=1, gpus=4)
NONE = {"age": 0.0, "fairshare": 0.0, "job_size": 0.0, "partition": 0.0, "qos": 0.0}
DAY = 86400.0


def only(**given) -> Multifactor:
    """Switch every factor off but those given."""
    return Multifactor(**(NONE | given))


# age


def test_age_grows_to_its_cap():
    """With a maximum age of 100 s: 80 of 100 s waited are 800 of 1000, 150 s are the cap."""
    jobs = Jobs.from_arrays([0, 10, 40, 90, 160], [1000, 1, 1, 1, 1], 4)
    policy = only(age=1000.0, max_age_s=100.0)
    assert priorities_at(90.0, jobs, CLUSTER, policy) == pytest.approx({1: 800.0, 2: 500.0, 3: 0.0})
    assert priorities_at(160.0, jobs, CLUSTER, policy) == pytest.approx({1: 1000.0, 2: 1000.0, 3: 700.0, 4: 0.0})


# fair share: user a takes 4 GPUs from 0 to 100, user c from 100 to 200. With a half-life of 100 s, a's usage counts
# half at 200: of all usage a has 1/3 and c has 2/3.


def used(**columns) -> Jobs:
    """Let two jobs use the machine, and others wait at 200."""
    waiting = len(columns["user"]) - 2
    return Jobs.from_arrays([0, 1, *[200] * waiting], [100, 100, *[1] * waiting], 4, **columns)


def fair(policy: Multifactor, **columns) -> dict[int, float]:
    return priorities_at(200.0, used(**columns), CLUSTER, policy)


def test_usage_halves_in_a_half_life_and_is_shared_equally():
    """Shares 1/2: 2^(-(1/3) / (1/2)) = 2^(-2/3) for a, 2^(-4/3) for c."""
    policy = only(fairshare=1.0, half_life_s=100.0)
    assert fair(policy, user=["a", "c", "a", "c"]) == pytest.approx({2: 2 ** (-2 / 3), 3: 2 ** (-4 / 3)})


def test_a_long_half_life_forgets_little():
    """With a half-life of a million seconds both used the same: 2^(-(1/2) / (1/2)) = 1/2 each, almost."""
    policy = only(fairshare=1.0, half_life_s=1e6)
    assert fair(policy, user=["a", "c", "a", "c"]) == pytest.approx({2: 0.5, 3: 0.5}, rel=1e-4)


def test_who_has_used_nothing_has_factor_one():
    """A third user: shares 1/3, so 2^(-(1/3) 3) = 1/2, 2^(-(2/3) 3) = 1/4, and 1."""
    policy = only(fairshare=1.0, half_life_s=100.0)
    assert fair(policy, user=["a", "c", "a", "c", "d"]) == pytest.approx({2: 0.5, 3: 0.25, 4: 1.0})


def test_nobody_has_used_anything():
    """Before the first job has run everybody has factor 1."""
    jobs = Jobs.from_arrays([0, 0], [10, 10], 4, user=["a", "b"])
    assert priorities_at(0.0, jobs, CLUSTER, only(fairshare=1.0)) == {0: 1.0, 1: 1.0}


def test_usage_counts_while_a_job_runs():
    """At 50 a's job is still running and all usage is a's: 2^(-1 / (1/2)) = 1/4."""
    jobs = Jobs.from_arrays([0, 50, 50], [100, 1, 1], 4, user=["a", "a", "b"])
    assert priorities_at(50.0, jobs, CLUSTER, only(fairshare=1.0)) == pytest.approx({1: 0.25, 2: 1.0})


def test_usage_is_in_gpu_seconds():
    """3 GPUs against 1 for the same time: 3/4 and 1/4 of all usage, 2^(-3/2) and 2^(-1/2)."""
    jobs = Jobs.from_arrays([0, 0, 50, 50], [100, 100, 1, 1], [3, 1, 4, 4], user=["a", "b", "a", "b"])
    scores = priorities_at(50.0, jobs, CLUSTER, only(fairshare=1.0))
    assert scores == pytest.approx({2: 2**-1.5, 3: 2**-0.5})


def test_shares_of_users():
    """a has 3 shares of 4, c has 1: 2^(-(1/3) / (3/4)) = 2^(-4/9) and 2^(-(2/3) / (1/4)) = 2^(-8/3)."""
    policy = only(fairshare=1.0, half_life_s=100.0, user_shares={"a": 3.0})
    assert fair(policy, user=["a", "c", "a", "c"]) == pytest.approx({2: 2 ** (-4 / 9), 3: 2 ** (-8 / 3)})


def test_dampening_divides_the_exponent():
    """With a dampening factor of 2: 2^(-1/3) and 2^(-2/3)."""
    policy = only(fairshare=1.0, half_life_s=100.0, dampening=2.0)
    assert fair(policy, user=["a", "c", "a", "c"]) == pytest.approx({2: 2 ** (-1 / 3), 3: 2 ** (-2 / 3)})


def test_accounts_share_their_usage_out():
    """Account x has users a and b, account y has c; each account may use half, a and b a quarter each.

    a used 1/3 itself, as its whole account: 2^(-(1/3) / (1/4)) = 2^(-4/3). b used nothing, but half of what a used
    counts for it: 0 + (1/3 - 0) / 2 = 1/6, so 2^(-2/3). c: 2^(-(2/3) / (1/2)) = 2^(-4/3).
    """
    policy = only(fairshare=1.0, half_life_s=100.0)
    priorities = fair(policy, user=["a", "c", "a", "b", "c"], account=["x", "y", "x", "x", "y"])
    assert priorities == pytest.approx({2: 2 ** (-4 / 3), 3: 2 ** (-2 / 3), 4: 2 ** (-4 / 3)})


def test_shares_of_accounts():
    """x has 3 shares of 4: a may use 3/8, 2^(-(1/3) / (3/8)) = 2^(-8/9); c may use 1/4, 2^(-8/3)."""
    policy = only(fairshare=1.0, half_life_s=100.0, account_shares={"x": 3.0})
    priorities = fair(policy, user=["a", "c", "a", "b", "c"], account=["x", "y", "x", "x", "y"])
    assert priorities == pytest.approx({2: 2 ** (-8 / 9), 3: 2 ** (-4 / 9), 4: 2 ** (-8 / 3)})


def test_a_user_of_two_accounts_is_two():
    """What a used through x counts for its jobs of x only; in y it shares with c: 0 + (2/3) / 2 = 1/3 of a quarter.

    x is a's alone: 2^(-(1/3) / (1/2)) = 2^(-2/3). a in y: 2^(-(1/3) / (1/4)) = 2^(-4/3).
    c: 2^(-(2/3) / (1/4)) = 2^(-8/3).
    """
    policy = only(fairshare=1.0, half_life_s=100.0)
    priorities = fair(policy, user=["a", "c", "a", "a", "c"], account=["x", "y", "x", "y", "y"])
    assert priorities == pytest.approx({2: 2 ** (-2 / 3), 3: 2 ** (-4 / 3), 4: 2 ** (-8 / 3)})


def test_a_user_without_account_stands_beside_the_accounts():
    """c has no account: like account x it may use half. a: 2^(-(1/3) / (1/2)), c: 2^(-(2/3) / (1/2))."""
    policy = only(fairshare=1.0, half_life_s=100.0)
    priorities = fair(policy, user=["a", "c", "a", "c"], account=["x", None, "x", None])
    assert priorities == pytest.approx({2: 2 ** (-2 / 3), 3: 2 ** (-4 / 3)})


def test_a_job_of_nobody_has_factor_one():
    """Without user and account there is nothing to count."""
    policy = only(fairshare=1.0, half_life_s=100.0)
    assert fair(policy, user=["a", "c", None])[2] == 1.0


def test_fair_share_changes_the_order():
    """User a has just used the machine: b's job of the same time goes first, and then a's older one."""
    jobs = Jobs.from_arrays([0, 5, 6], [100, 10, 10], 4, user=["a", "a", "b"])
    assert rltune.simulate(jobs, CLUSTER, policy=only(fairshare=1000.0), estimator="oracle").start_s.tolist() == [
        0,
        110,
        100,
    ]
    assert rltune.simulate(jobs, CLUSTER, policy=only(age=1000.0), estimator="oracle").start_s.tolist() == [0, 100, 110]


# size, partition, QOS


@pytest.mark.parametrize(("small", "expected"), [(False, {1: 250, 2: 1000}), (True, {1: 750, 2: 0})])
def test_size_is_the_share_of_the_machine(small, expected):
    """1 of 4 GPUs is 1/4; favouring small jobs it is (4 - 1) / 4, as in Slurm's source."""
    jobs = Jobs.from_arrays([0, 1, 1], [10, 1, 1], [4, 1, 4])
    assert priorities_at(1.0, jobs, CLUSTER, only(job_size=1000.0, favor_small=small)) == pytest.approx(expected)


def test_size_changes_the_order():
    """The job of 4 GPUs overtakes that of 3, unless small ones are favoured."""
    jobs = Jobs.from_arrays([0, 1, 2], [10, 5, 5], [4, 3, 4])
    assert rltune.simulate(jobs, CLUSTER, policy=only(job_size=1.0), estimator="oracle").start_s.tolist() == [0, 15, 10]
    small = only(job_size=1.0, favor_small=True)
    assert rltune.simulate(jobs, CLUSTER, policy=small, estimator="oracle").start_s.tolist() == [0, 10, 15]


def test_partition_is_relative_to_the_highest():
    """10 and 5 of 10; a partition not named has Slurm's default of 1."""
    jobs = Jobs.from_arrays([0, 1, 1, 1], [10, 1, 1, 1], 4, vc=["gold", "gold", "iron", "tin"])
    policy = only(partition=1000.0, partition_priority={"gold": 10.0, "iron": 5.0})
    assert priorities_at(1.0, jobs, CLUSTER, policy) == pytest.approx({1: 1000.0, 2: 500.0, 3: 100.0})
    assert rltune.simulate(jobs, CLUSTER, policy=policy, estimator="oracle").start_s.tolist() == [0, 10, 11, 12]


def test_qos_is_relative_to_the_highest():
    """4 and 1 of 4; no QOS, and one not named, have Slurm's default of 0."""
    jobs = Jobs.from_arrays([0, 1, 1, 1, 1], [10, 1, 1, 1, 1], 4, qos=["low", "low", "high", None, "odd"])
    policy = only(qos=1000.0, qos_priority={"high": 4.0, "low": 1.0})
    assert priorities_at(1.0, jobs, CLUSTER, policy) == pytest.approx({1: 250.0, 2: 1000.0, 3: 0.0, 4: 0.0})
    assert rltune.simulate(jobs, CLUSTER, policy=policy, estimator="oracle").start_s.tolist() == [0, 11, 10, 12, 13]


def test_the_sum_of_all():
    """At 50 job 1 has waited 40 of 100 s: 100 x 0.4 + 200 x 1/4 + 300 x 1/2 + 400 x 1/2 + 500 x 1/4.

    All usage is user a's, who may use a half: 2^(-2) = 1/4. 2 of 4 GPUs; partition 1 of 2; QOS 1 of 4.
    """
    jobs = Jobs.from_arrays(
        *([0, 10, 50], [100, 1, 1], [4, 2, 4]),
        user=["a", "a", "b"],
        vc=["p", "p", "q"],
        qos=["low", "low", "high"],
    )
    policy = Multifactor(
        *("all", 100.0, 200.0, 300.0, 400.0, 500.0),
        max_age_s=100.0,
        partition_priority={"p": 1.0, "q": 2.0},
        qos_priority={"low": 1.0, "high": 4.0},
    )
    expected = {1: 40.0 + 50.0 + 150.0 + 200.0 + 125.0, 2: 0.0 + 200.0 + 300.0 + 400.0 + 500.0}
    assert priorities_at(50.0, jobs, CLUSTER, policy) == pytest.approx(expected)


def test_defaults_are_slurms():
    """PriorityMaxAge and PriorityDecayHalfLife are 7 days, FairShareDampeningFactor is 1."""
    policy = get_policy("multifactor")
    assert (policy.max_age_s, policy.half_life_s, policy.dampening) == (7 * DAY, 7 * DAY, 1.0)
    assert not policy.favor_small


# the paper's variant


def test_the_papers_variant_by_hand():
    """All weights 1000; the request takes the place of the size: of 7 days at most, the shorter the better.

    Job 1 asks 3.5 days of 7 and has waited half a day of 7: 1000 (1/14 + 1 + 1/2 + 1 + 0).
    Job 2 asks 7 days, job 3 asks 14: 1000 (0 + 1 + 0 + 1 + 0). No users, so fair share is 1; there is one queue.
    """
    day = DAY
    jobs = Jobs.from_arrays([0, 0, day / 2, day / 2], [day, 3.5 * day, 7 * day, 14 * day], 4)
    expected = {1: 1000 * (1 / 14 + 2.5), 2: 2000.0, 3: 2000.0}
    assert priorities_at(day / 2, jobs, CLUSTER, "multifactor-paper") == pytest.approx(expected)


def test_the_papers_variant_ignores_size_and_heeds_the_request():
    """The shorter request goes first, whatever its size."""
    jobs = Jobs.from_arrays([0, 1, 1], [10, 9000, 5000], [4, 4, 3])
    assert rltune.simulate(jobs, CLUSTER, policy="multifactor-paper", estimator="oracle").start_s.tolist() == [
        0,
        5010,
        10,
    ]
    assert rltune.simulate(jobs, CLUSTER, policy="multifactor", estimator="oracle").start_s.tolist() == [0, 10, 9010]


# what cannot be


@pytest.mark.parametrize("constant", ["max_age_s", "half_life_s", "dampening", "time_scale_s"])
def test_constants_must_be_positive(constant):
    with pytest.raises(InputError, match=f"{constant} should be above 0, not 0"):
        Multifactor(**{constant: 0.0})


@pytest.mark.parametrize("table", ["user_shares", "account_shares"])
def test_shares_must_be_positive(table):
    with pytest.raises(InputError, match=f"{table} of 'a' should be above 0, not -1"):
        Multifactor(**{table: {"a": -1.0}})
