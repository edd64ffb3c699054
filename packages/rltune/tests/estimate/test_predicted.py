"""Predicted run times: from what had ended, and from nothing else; looked at again as a run goes on."""

import sys

import numpy as np
import pytest
from policy.stepping import ranks

import rltune
from rltune import trace
from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.estimate.estimators import LEVELS, History, RunSeen, join_jobs, likeness
from rltune.estimate.kind_memory import ASK, END, START, SUBMIT, TOLD, Happenings, KindMemory
from rltune.estimate.kinds import bursts, kinds_of, split_name
from rltune.estimate.predicted import FEWEST, THIN, EndedJobs, Fit, Predicted, PredictionCourse, Prophet
from rltune.estimate.run_time_spread import OVERRUN, KeptShares, RunTimeSpread, seen_weights, wide_spread
from rltune.jobs import Jobs
from rltune.policy.qssf_boost import QssfBoost
from rltune.trials.warm_start import Knowledge

WIDE = Cluster.uniform(nodes=500, gpus=8)
NAMES = ["short", "long"]
LENGTH_S = np.array([100.0, 5000.0])


def history(n: int = 600, seed: int = 0, from_s: float = 0.0) -> Jobs:
    """Make jobs every 60 s whose length goes by user and name, within a tenth."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n)
    duration = LENGTH_S[kind] * rng.uniform(0.9, 1.1, n)
    label = [NAMES[k] for k in kind]
    return Jobs.from_arrays(
        *(from_s + np.arange(n) * 60.0, duration, rng.integers(1, 5, n)), user=label, name=label, vc=["v"] * n
    )


BEFORE = history()
START_S = 40_000.0
LATER = history(40, seed=1, from_s=START_S)
IS_LONG = LATER.user.codes == LATER.user.names.index("long")


@pytest.fixture(params=[False, True], ids=["trees", "plain"])
def warm(request) -> Predicted:
    if not request.param:
        pytest.importorskip("lightgbm", exc_type=(ImportError, OSError))
    return Predicted(plain=request.param).after(BEFORE)


def test_it_learns_the_users_habits(warm):
    """It tells 100 s from 5000 s by the user, although the tables number users apart."""
    made = warm.estimate(LATER, 0).values_s
    assert made[IS_LONG] == pytest.approx(5000.0, rel=0.25)
    assert made[~IS_LONG] == pytest.approx(100.0, rel=0.25)


def test_the_same_seed_gives_the_same_estimates(warm):
    first, again = (warm.estimate(LATER, 7).values_s for _ in range(2))
    assert (first == again).all()


def test_changing_the_future_changes_no_estimate(warm):
    """Whatever had not ended when a job is submitted, in the history or in the run, may have any duration.

    Jobs of the run are cut at a time; those that had not ended by then get other run times, and nothing that was told
    before changes.
    """
    one = Cluster.uniform(nodes=6, gpus=4)
    jobs = history(120, seed=2, from_s=START_S)
    first = rltune.simulate(jobs, one, policy="saf", backfill="easy", estimator=warm)
    cut_s = float(np.quantile(jobs.submit_s, 0.6))
    later = first.end_s > cut_s
    assert 0.2 < later.mean() < 0.9
    other = jobs.with_columns(duration_s=np.where(later, 7.0 + (jobs.duration_s * 3) % 1999, jobs.duration_s))
    # a job that runs at the cut must not end before it now
    running = later & (first.start_s < cut_s)
    shown_s = np.maximum(other.duration_s, cut_s - first.start_s + 1.0)
    other = other.with_columns(duration_s=np.where(running, shown_s, other.duration_s))
    second = rltune.simulate(other, one, policy="saf", backfill="easy", estimator=warm)
    known = jobs.submit_s <= cut_s
    np.testing.assert_array_equal(first.estimate_s[known], second.estimate_s[known])
    assert (first.estimate_s[~known] != second.estimate_s[~known]).any()


def test_what_had_not_ended_before_the_run_is_not_learnt_from(warm):
    ended = BEFORE.submit_s + BEFORE.duration_s <= 20_000.0
    unknown = BEFORE.with_columns(duration_s=np.where(ended, BEFORE.duration_s, 9e7))
    jobs = LATER.with_columns(submit_s=LATER.submit_s - 20_000.0)
    assert 0.1 < ended.mean() < 0.99
    made, expected = (Predicted(b, plain=warm.plain).estimate(jobs, 0).values_s for b in (unknown, BEFORE))
    known = ended & (BEFORE.submit_s <= 20_000.0)
    assert known.sum() >= FEWEST
    np.testing.assert_array_equal(made, expected)


def test_along_a_trace_it_predicts_what_a_history_of_its_own_would(warm):
    """Windows of a trace share what is found along it, and are predicted as from the jobs before them."""
    both = trace_of(BEFORE, LATER)
    window = both.window(600, 40)
    recalled = Knowledge(both, 0).made(Predicted(plain=warm.plain), 600, window)
    alone = Predicted(both.window(0, 600), plain=warm.plain).estimate(window, 0)
    np.testing.assert_allclose(recalled.estimates.values_s, alone.values_s)


def trace_of(first: Jobs, then: Jobs) -> Jobs:
    labels = {c: getattr(first, c).to_list() + getattr(then, c).to_list() for c in ("user", "name", "vc")}
    numbers = [np.concatenate([getattr(first, c), getattr(then, c)]) for c in ("submit_s", "duration_s", "gpus")]
    return Jobs.from_arrays(*numbers, **labels)


def seen_coming(jobs: int) -> RunSeen:
    """Return a look at which so many jobs come and nothing has happened."""
    none, never = np.zeros(0, dtype=np.int64), np.zeros(0)
    return RunSeen(
        now_s=START_S,
        started=none,
        started_s=never,
        ended=none,
        ended_s=never,
        ended_run_s=never,
        coming=np.arange(jobs),
        waiting=none,
        running=none,
        attained_s=never,
    )


def test_jobs_that_come_out_of_the_tables_order_keep_their_own_predictions(warm):
    """A run that goes on from a moment has first those that ran: each must be told what is its own."""
    first, n = len(BEFORE), len(LATER)
    course = PredictionCourse(trace_of(BEFORE, LATER), known=first, plain=warm.plain)
    prophet = Prophet(course, first, np.arange(first, first + n))
    order = np.random.default_rng(2).permutation(n)
    straight = prophet.begin().look(seen_coming(n)).coming_s
    assert len(set(np.round(straight))) > 5
    assert np.array_equal(prophet.in_order(order).begin().look(seen_coming(n)).coming_s, straight[order])


def test_a_waiting_job_is_predicted_anew_when_its_siblings_end():
    """A new user's jobs are thought long until the first two have ended; then those that wait are known to be short.

    On one GPU the short ones overtake a job of a user known for 5000 s that came before most of them.
    """
    pytest.importorskip("lightgbm", exc_type=(ImportError, OSError))
    one = Cluster.uniform(nodes=1, gpus=1)
    n = 12
    user = ["new"] * 4 + ["long"] + ["new"] * (n - 5)
    jobs = Jobs.from_arrays(START_S + np.arange(n) * 1.0, 7.0, 1, user=user, name=user, vc=["v"] * n)
    schedule = rltune.simulate(jobs, one, policy="saf", backfill="easy", estimator=Predicted(BEFORE))
    assert schedule.start_s[4] == schedule.start_s.max()


def test_a_cold_start_knows_limits_and_then_what_ends():
    jobs = Jobs.from_arrays(np.arange(80) * 100.0, 30.0, 1, limit_s=7200.0, user=["u"] * 80, name=["n"] * 80)
    made = rltune.simulate(jobs, WIDE, estimator="predicted").estimate_s
    assert made[0] > 5_000
    assert made[-1] < 200


def test_a_user_without_lightgbm_gets_the_plain_regression(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    made = Predicted(BEFORE).estimate(LATER, 0).values_s
    np.testing.assert_array_equal(made, Predicted(BEFORE, plain=True).estimate(LATER, 0).values_s)


def test_the_old_name_works_and_says_so(tmp_path):
    path = tmp_path / "before.csv"
    trace.write(BEFORE, path)
    with pytest.warns(FutureWarning, match="write predicted for boost"):
        old = rltune.simulate(LATER, WIDE, estimator=f"boost:{path}")
    assert old.settings.estimator == "predicted"
    np.testing.assert_array_equal(old.estimate_s, rltune.simulate(LATER, WIDE, estimator=Predicted(BEFORE)).estimate_s)


# kinds, memory, spread


def test_names_are_split_into_words_and_numbers():
    assert split_name("Train_lr1e-4_ep20") == ("train_lr#_ep#", (0.0001, 20.0))
    assert split_name("plain") == ("plain", ())


def test_bursts_are_told_from_what_came_before():
    """Three close ones, one after a long gap, another kind in between, and two of one array that lie apart."""
    alike = np.array([0, 0, 1, 0, 0, 2, 2])
    submit_s = np.array([0.0, 200.0, 210.0, 400.0, 5_000.0, 6_000.0, 9_000.0])
    array = np.array([-1, -1, -1, -1, -1, 8, 8], dtype=np.int32)
    found = bursts(alike, submit_s, array)
    assert found[0] == found[1] == found[3]
    assert found[5] == found[6]
    assert len({found[0], found[2], found[4], found[5]}) == 4


def test_memory_by_hand():
    """One user: jobs of 100 s and 400 s end, a third has run for 50 s; asked at 1000 s."""
    jobs = Jobs.from_arrays([0, 10, 900, 1000], [100, 400, 9e5, 1], 1, user=["u"] * 4)
    kinds = kinds_of(jobs)
    rows = np.array([0, 1, 2])
    start = np.array([0.0, 10.0, 950.0, np.nan])
    happened = Happenings.of(
        (START, rows, start[:3]),
        (SUBMIT, rows, jobs.submit_s[:3]),
        (END, rows[:2], np.array([100.0, 410.0])),
        (ASK, np.array([3]), np.array([1000.0])),
    )
    told = KindMemory(kinds).note(happened, np.log(jobs.duration_s), start)
    level = kinds.levels.index("user")
    by_name = dict(zip(TOLD, told[0, level * len(TOLD) :], strict=False))
    assert by_name["number ended"] == pytest.approx(np.log1p(2))
    assert by_name["mean of the ended"] == pytest.approx(np.log(200))
    assert by_name["mean of the last two"] == pytest.approx(np.log(250))
    assert by_name["the last"] == pytest.approx(np.log(400))
    assert by_name["time since one ended"] == pytest.approx(np.log1p(590))
    assert by_name["time since the last was submitted"] == pytest.approx(np.log1p(100))
    assert by_name["number running"] == 1
    assert by_name["how long those have run"] == pytest.approx(np.log1p(50))
    assert by_name["number waiting"] == 0
    assert by_name["mean seconds of the ended"] == pytest.approx(np.log(250))


def test_what_is_usual_is_what_history_says():
    """As of the start of a run, the means of kinds are those that `history` begins with."""
    course = PredictionCourse(join_jobs(BEFORE, LATER), known=len(BEFORE))
    rows = np.arange(len(BEFORE), len(BEFORE) + len(LATER))
    told = course.memory_before(len(BEFORE)).note(
        Happenings.of((ASK, rows, course.submit_s[rows])), course.log_run, course.start_s
    )
    table = np.concatenate([course.kinds.own[rows], told], axis=1)
    known = likeness(LATER, LEVELS, trust=History().trust, before=BEFORE)
    by_history = np.full(len(LATER), 3_600.0)
    for level in range(known.keys.shape[1]):
        number, total = known.known[known.keys[:, level]].T
        has = known.keys[:, level] >= 0
        by_history = np.where(has, (total + 16 * by_history) / (number + 16), by_history)
    assert np.exp(course.usual_log_s(rows, table)) == pytest.approx(by_history)


def test_long_jobs_that_ended_stand_for_those_that_still_run():
    """Jobs of 10 s and 1,000 s by halves start every second: of the newest 1,000 only the short ones have ended."""
    age_s = np.arange(2_000.0)
    run_s = np.where(np.arange(2_000) % 2, 1_000.0, 10.0)
    seen = run_s <= age_s
    weight = seen_weights(run_s[seen], age_s)
    assert run_s[seen].mean() < 400
    assert np.average(run_s[seen], weights=weight) == pytest.approx(505.0, rel=0.01)


@pytest.mark.parametrize("days", [4, 8, 20])
def test_jobs_that_still_run_are_made_up_for_once(days):
    """Who started lately is left out, or who ended stands for more: both for the same jobs would take all for long."""
    rng = np.random.default_rng(0)
    span_s, many = days * 86_400.0, 50_000
    age_s, run_s = rng.uniform(0, span_s, many), np.minimum(rng.exponential(86_400.0, many), 3 * 86_400.0)
    over = run_s <= age_s
    ended = EndedJobs(np.flatnonzero(over), np.zeros((over.sum(), 1)), run_s[over], age_s[over])
    kept, early_s = ended.settled(age_s)
    assert len(kept.rows) < len(ended.rows)
    assert np.average(kept.run_s, weights=seen_weights(kept.run_s, early_s)) == pytest.approx(run_s.mean(), rel=0.03)


def test_who_is_long_now_and_then_is_believed_to_be_longer_than_who_is_steady():
    """Of the logarithm the steady one is the longer: 600 s, against mostly 60 s and every fifth time 20,000 s."""
    many = 3_000
    steady = np.arange(many) % 2 == 0
    long_s = np.random.default_rng(5).random(many) < 0.2
    run_s = np.where(steady, 600.0, np.where(long_s, 20_000.0, 60.0))
    users = np.where(steady, "steady", "now and then").tolist()
    jobs = Jobs.from_arrays(np.arange(many) * 300.0, run_s, 1, user=users)
    before, last = jobs.window(0, many - 2), jobs.window(many - 2, 2)
    believed = Predicted(before).estimate(last, 0).values_s
    median = Predicted(before, order_by=0.5).estimate(last, 0).values_s
    assert believed[1] > 1.3 * believed[0]
    assert median[1] < median[0]
    assert believed[0] + believed[1] == pytest.approx(600 + 0.8 * 60 + 0.2 * 20_000, rel=0.25)


def test_of_a_size_that_hardly_ever_came_what_is_usual_is_believed():
    """The regression says 400 s and history 10,000 s: after no job of the size the latter, after many the former."""

    class TwentyAlways:
        def predict(self, table):
            return np.full(len(table), 20.0)

    fit = Fit(None, wide_spread(), TwentyAlways())
    ended = np.array([0.0, THIN, 1e6])
    believed_s = np.exp(fit.believed_log_s(np.zeros((3, 1)), np.log(np.full(3, 10_000.0)), ended))
    assert believed_s == pytest.approx([10_000.0, 2_000.0, 400.0], rel=0.01)


def test_spread_has_the_mean_the_quantiles_and_the_remainder_of_what_it_saw():
    """1,000 run times of a log-normal whose logarithm was predicted as 5: the mean is not the exponential of that."""
    run = np.exp(np.random.default_rng(0).normal(5.0, 1.0, 1_000))
    spread = RunTimeSpread.of(np.full(1_000, 5.0), np.log(run), np.ones(1_000))
    five = np.array([5.0])
    assert spread.mean_s(five)[0] == pytest.approx(run.mean(), rel=0.03)
    assert spread.quantile_s(five, 0.9)[0] == pytest.approx(np.quantile(run, 0.9), rel=0.03)
    assert spread.mean_beyond_s(five, np.array([300.0]))[0] == pytest.approx(run[run > 300].mean(), rel=0.05)
    assert spread.mean_beyond_s(five, np.array([1e6]))[0] == pytest.approx(OVERRUN * 1e6)


def test_shares_move_until_quantiles_hold_as_many_as_said():
    """Told by errors that are too small, 80 % intervals hold far fewer; moved by what comes true they hold 80 %."""
    rng = np.random.default_rng(0)
    run = np.exp(rng.normal(5.0, 1.0, 6_000))
    seen = np.exp(rng.normal(5.0, 0.7, 1_000))
    spread = RunTimeSpread.of(np.full(1_000, 5.0), np.log(seen), np.ones(1_000))
    shares = KeptShares(np.array([0.1, 0.9]))
    held = []
    for some in np.split(run, 200):
        told = np.stack([spread.quantile_s(np.full(len(some), 5.0), float(share)) for share in shares.now], axis=1)
        held.append(((told[:, 0] < some) & (some <= told[:, 1])).mean())
        shares.note(some, told)
    assert np.mean(held[:3]) < 0.7
    assert np.mean(held[100:]) == pytest.approx(0.8, abs=0.02)
    assert shares.now[0] < 0.1
    assert shares.now[1] > 0.9


def test_a_course_knows_nothing_beyond_its_known_rows():
    course = PredictionCourse(BEFORE, known=300)
    assert np.isnan(course.run_s[300:]).all()
    assert np.isnan(course.start_s[300:]).all()


# as a policy


def test_qssf_boost_ranks_by_the_prediction_and_corrects_it():
    """Whatever the run's estimator: first as predicted, then half by the user's last job of that name and size."""
    jobs = Jobs.from_arrays([START_S, START_S + 1000], [7, 7], 2, user=["long"] * 2, name=["long"] * 2, vc=["v"] * 2)
    thought = Predicted(BEFORE).estimate(jobs, 0).values_s
    known = ranks(jobs, WIDE, QssfBoost(before=BEFORE), estimator="oracle")
    assert known == pytest.approx([thought[0], (7.0 + thought[1]) / 2], rel=1e-5)


def test_qssf_boost_orders_the_queue(tmp_path):
    """On one GPU a short user's job overtakes an earlier one of a long user, by the name of a history file."""
    path = tmp_path / "before.csv"
    trace.write(BEFORE, path)
    user = ["long", "long", "short"]
    jobs = Jobs.from_arrays(START_S + np.arange(3), [10, 10, 10], 1, user=user, name=user, vc=["v"] * 3)
    one = Cluster.uniform(nodes=1, gpus=1)
    by_history = rltune.simulate(jobs, one, policy=f"qssf-boost:{path}", estimator="oracle")
    assert (by_history.start_s - START_S).tolist() == [0, 20, 10]


def test_qssf_boost_without_history():
    with pytest.raises(InputError, match="qssf-boost learns from earlier history"):
        rltune.simulate(LATER, WIDE, policy="qssf-boost", estimator="oracle")
