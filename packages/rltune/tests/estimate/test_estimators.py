"""What is known of a run time: each estimator by hand, its parameters, and that none knows the future."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rltune
from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.estimate import Given, History, Noisy, Oracle, User, ended_by, get_estimator
from rltune.jobs import Jobs

WIDE = Cluster.uniform(nodes=100, gpus=8)  # nobody waits
HOUR = 3600.0  # what is thought of a job before anything has ended


def estimates(jobs: Jobs, estimator, cluster: Cluster = WIDE, **settings) -> np.ndarray:
    return rltune.simulate(jobs, cluster, estimator=estimator, **settings).estimate_s


def blend(prior: float, trust: float, *levels: tuple[float, float]) -> float:
    """Blend (number, sum) of each level with `trust` jobs' worth of the level before."""
    for number, total in levels:
        prior = (total + trust * prior) / (number + trust)
    return prior


# oracle, user, given


def test_the_oracle_tells_the_truth():
    assert estimates(Jobs.from_arrays([0, 5], [7, 3], 1), "oracle").tolist() == [7.0, 3.0]


def test_users_are_believed_and_silence_is_the_largest_limit():
    jobs = Jobs.from_arrays([0, 1, 2], [5, 5, 5], 1, limit_s=[60, np.nan, 900])
    assert estimates(jobs, "user").tolist() == [60.0, 900.0, 900.0]


def test_users_who_never_say_anything():
    with pytest.raises(InputError, match="needs limit_s, and no job of this trace has one; try 'history' or 'noisy'"):
        estimates(Jobs.from_arrays([0], [5], 1), "user")


def test_no_jobs_at_all():
    empty = Jobs.from_arrays([], [], [])
    for estimator in (Oracle(), User(), Noisy(), History(), History().after(empty), Given(np.zeros(0))):
        assert len(estimator.estimate(empty, 0).values_s) == 0


def test_given_estimates_follow_their_jobs():
    """The jobs are not in order of submit time; every estimate stays with its job, whatever the type of the array."""
    jobs = Jobs.from_arrays([9, 0, 5], [1, 2, 3], 1)
    schedule = rltune.simulate(jobs, WIDE, estimator=np.array([10, 20, 30]))
    assert schedule.estimate_s.tolist() == [10.0, 20.0, 30.0]
    assert schedule.settings.estimator == "given"
    assert estimates(jobs, Given(np.array([10.0, 20.0, 30.0]))).tolist() == [10.0, 20.0, 30.0]


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([1.0], "1 estimates are given for 2 jobs"),
        ([1.0, np.nan], "negative or not a finite number"),
        ([1.0, np.inf], "negative or not a finite number"),
        ([1.0, -2.0], "negative or not a finite number"),
    ],
)
def test_given_estimates_that_cannot_be(values, complaint):
    with pytest.raises(InputError, match=complaint):
        estimates(Jobs.from_arrays([0, 1], [1, 1], 1), np.array(values))


# noisy

MANY = Jobs.from_arrays(np.arange(20001.0), 100.0, 1)


@pytest.mark.parametrize("sigma", [0.3, 1.2])
def test_noise_has_median_one_and_its_sigma(sigma):
    """20001 errors: the median's standard error is 1.25 sigma / 141 in the logarithm, sigma's is sigma / 200."""
    error = np.log(Noisy(sigma).estimate(MANY, 0).values_s / 100.0)
    assert np.median(error) == pytest.approx(0.0, abs=4 * 1.25 * sigma / 141)
    assert error.std() == pytest.approx(sigma, rel=4 / 200)


def test_noise_is_seeded():
    """The same seed errs alike, another one otherwise; without noise it is the oracle."""
    some = MANY.window(0, 50)
    first = estimates(some, "noisy", seed=1)
    assert (first == estimates(some, "noisy", seed=1)).all()
    assert (first != estimates(some, "noisy", seed=2)).all()
    assert (estimates(some, "noisy:0", seed=1) == some.duration_s).all()


def test_noise_is_in_the_name_of_the_result():
    assert rltune.simulate(MANY.window(0, 2), WIDE, estimator="noisy:0.5").settings.estimator == "noisy:0.5"


@pytest.mark.parametrize("text", ["noisy:x", "noisy:-1", "noisy:nan", "noisy:1000"])
def test_noise_that_cannot_be(text):
    with pytest.raises(InputError, match="sigma should be a number from 0 to 100"):
        get_estimator(text)


# history


def jobs_of(*rows: tuple) -> Jobs:
    """Make jobs of (submit, duration, GPUs, VC, user, name)."""
    submit, duration, gpus, vc, user, name = zip(*rows, strict=True)
    return Jobs.from_arrays(submit, duration, gpus, vc=vc, user=user, name=name)


PAST = [(0, 100, 1, "v", "a", "x"), (0, 300, 1, "v", "b", "y"), (0, 800, 2, "w", "a", "x")]


@pytest.mark.parametrize(
    ("row", "levels"),
    [
        ((1, "v", "a", "x"), [(3, 1200), (2, 400), (2, 400), (1, 100), (1, 100)]),  # all five levels
        ((1, "v", "a", "new"), [(3, 1200), (2, 400), (2, 400), (1, 100)]),
        ((1, "v", "new", "x"), [(3, 1200), (2, 400), (2, 400)]),
        ((1, "w", "a", "x"), [(3, 1200), (2, 400)]),  # known of the VC, but with another size
        ((4, "v", "a", "x"), [(3, 1200)]),
        ((2, None, None, None), [(3, 1200), (1, 800)]),
        ((2, "w", None, "x"), [(3, 1200), (1, 800), (1, 800)]),
    ],
)
@pytest.mark.parametrize("trust", [16.0, 2.0])
def test_history_blends_from_coarse_to_fine(row, levels, trust):
    """Without limits: all, size, VC, user, name. A mean weighs as its jobs, against `trust` of the level before."""
    made = estimates(jobs_of(*PAST, (1000, 5, *row)), History(trust=trust))
    assert made[:3].tolist() == [HOUR] * 3
    assert made[3] == pytest.approx(blend(HOUR, trust, *levels))


def test_who_asks_for_the_same_time_is_alike():
    """Asked one hour: 100 s; asked a day: 900 s. A user's jobs count for it with the same limit only, or with none."""
    limit = [HOUR, 86400, np.nan, HOUR, HOUR, 86400, np.nan]
    user = ["a", "b", "a", "a", "new", "a", "a"]
    jobs = Jobs.from_arrays([0, 0, 0, 1000, 1000, 1000, 1000], [100, 900, 500, 1, 1, 1, 1], 1, limit_s=limit, user=user)
    made = estimates(jobs, History(trust=2.0))
    all_and_size = [(3, 1500), (3, 1500)]
    assert made[3] == pytest.approx(blend(HOUR, 2.0, *all_and_size, (1, 100), (1, 100)))
    assert made[4] == pytest.approx(blend(HOUR, 2.0, *all_and_size, (1, 100)))
    assert made[5] == pytest.approx(blend(86400, 2.0, *all_and_size, (1, 900)))
    assert made[6] == pytest.approx(blend(HOUR, 2.0, *all_and_size, (1, 500)))


def test_history_by_hand():
    """Trust 2, ended 100 s and 300 s of one size: (400 + 7200) / 4 = 1900, then (400 + 3800) / 4 = 1050."""
    jobs = Jobs.from_arrays([0, 0, 500], [100, 300, 1], 1)
    assert estimates(jobs, History(trust=2.0)).tolist() == [HOUR, HOUR, 1050.0]


def test_before_any_history_the_users_limit_is_believed():
    jobs = Jobs.from_arrays([0, 0], [5, 5], 1, limit_s=[60, np.nan])
    assert estimates(jobs, "history").tolist() == [60.0, HOUR]


def test_what_runs_or_waits_is_not_known():
    """On one GPU the second job, of 5 s, runs from 100 to 105: at 99 nothing is known, at 104 only the first."""
    jobs = Jobs.from_arrays([0, 1, 99, 104, 105], [100, 5, 1, 1, 1], 1)
    made = estimates(jobs, History(trust=2.0), Cluster.uniform(nodes=1, gpus=1))
    assert made[:3].tolist() == [HOUR] * 3
    assert made[3] == pytest.approx(blend(HOUR, 2.0, (1, 100), (1, 100)))
    assert made[4] == pytest.approx(blend(HOUR, 2.0, (2, 105), (2, 105)))


@given(st.lists(st.floats(0, 1000), min_size=6, max_size=6), st.integers(1, 5))
def test_no_estimate_depends_on_what_has_not_ended(durations, row):
    """Jobs come every 100 s; the estimate of one may change only with durations that ended by then."""
    submit = np.arange(6) * 100.0
    jobs = Jobs.from_arrays(submit, durations, 1, user=["u"] * 6, name=["x"] * 6)
    unknown = submit + jobs.duration_s > submit[row]
    other = jobs.with_columns(duration_s=np.where(unknown, jobs.duration_s + 12345.0, jobs.duration_s))
    assert estimates(jobs, "history")[row] == estimates(other, "history")[row]


def test_speed_is_not_taken_for_length():
    """On nodes of twice the speed a job of 100 s runs 50 s: 100 s is what is learnt."""
    fast = Cluster.uniform(nodes=9, gpus=1, gpu_type="T")
    fast = type(fast)(fast.groups, speed={"T": 2.0})
    jobs = Jobs.from_arrays([0, 50], [100, 1], 1)
    assert estimates(jobs, History(trust=2.0), fast)[1] == pytest.approx(blend(HOUR, 2.0, (1, 100), (1, 100)))


# history, warm


def test_a_warm_start_knows_what_an_earlier_run_has_seen():
    """The first rows as history teach what they would have taught in the run."""
    rows = [*PAST, (10, 50, 1, "v", None, "x"), (20, 70, 1, None, "a", "x")]
    jobs = jobs_of(*rows, (1000, 5, 1, "v", "a", "x"), (1000, 5, 2, "w", "a", None), (1100, 5, 1, None, "a", "x"))
    warm = History().after(jobs.window(0, 5))
    assert warm.name == "history-warm"
    assert estimates(jobs.window(5, 3), warm).tolist() == pytest.approx(estimates(jobs, "history")[5:].tolist())


def test_a_warm_start_goes_on_learning():
    """800 s from before and 200 s in the run: of the two, 500 s on average."""
    before = Jobs.from_arrays([0], [800], 1)
    jobs = Jobs.from_arrays([1000, 1200], [200, 1], 1)
    assert estimates(jobs, History(trust=1e-9).after(before)).tolist() == pytest.approx([800.0, 500.0])


def test_a_warm_start_leaves_out_what_had_not_ended():
    """At 1000 the second job had not ended, the third had started late and had not either; the fourth is of later."""
    before = Jobs.from_arrays([0, 0, 0, 2000], [100, 1001, 500, 1], 1, recorded_start_s=[np.nan, np.nan, 600, np.nan])
    assert ended_by(before, 1000.0).id.tolist() == [0]
    assert ended_by(before, 1100.0).id.tolist() == [0, 1, 2]  # in order of their ends
    jobs = Jobs.from_arrays([1000], [1], 1)
    other = before.with_columns(duration_s=np.array([100.0, 9e9, 9e9, 9e9]))
    assert estimates(jobs, History().after(before)) == estimates(jobs, History().after(other))


def test_a_warm_start_from_another_table_goes_by_names():
    """The codes of labels differ between the tables; names that only the earlier one has do no harm."""
    before = jobs_of((0, 100, 1, "w", "zoe", "x"), (0, 900, 1, "v", "a", "y"), (0, 500, 1, "v", "b", "x"))
    jobs = jobs_of((1000, 5, 1, "v", "b", "x"))
    levels = [(3, 1500), (3, 1500), (2, 1400), (1, 500), (1, 500)]
    assert estimates(jobs, History(trust=2.0).after(before))[0] == pytest.approx(blend(HOUR, 2.0, *levels))


# names and mistakes


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(InputError, match="no estimator 'guess'; there are: oracle, user, noisy"):
        get_estimator("guess")


def test_something_else_is_no_estimator():
    with pytest.raises(InputError, match="3 is no estimator"):
        get_estimator(3)


@pytest.mark.parametrize("trust", [0.0, -1.0, np.nan, np.inf])
def test_trust_must_be_positive(trust):
    with pytest.raises(InputError, match="trust should be a number above 0"):
        History(trust=trust)


@pytest.mark.parametrize("estimator", ["oracle", "user", "noisy", "history"])
def test_the_same_again(estimator):
    """Same inputs and seed, same estimates."""
    rng = np.random.default_rng(3)
    jobs = Jobs.from_arrays(
        rng.uniform(0, 900, 60), rng.uniform(1, 99, 60), rng.integers(1, 9, 60), limit_s=100.0, user=["a", "b"] * 30
    )
    small = Cluster.uniform(nodes=2, gpus=8)
    first, again = (rltune.simulate(jobs, small, "saf", "easy", estimator=estimator, seed=5) for _ in range(2))
    assert (first.estimate_s == again.estimate_s).all()
    assert (first.start_s == again.start_s).all()
