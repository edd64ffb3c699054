"""Futures are drawn from what is known, alike for the same seed, and their quantiles are in order."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import read_pipeline
from rltune.engine.run import run_pipeline
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.forecast import Forecast, forecast
from rltune.forecast.arrivals import FARTHEST, Arrivals, level_spread
from rltune.forecast.before_submitting import NAME, WORTH_S, compare_requests, parse_request, with_request
from rltune.forecast.calibrate_forecast import TriedMoment, calibrate, calibration_of, correction
from rltune.forecast.drawn_futures import DrawnFutures
from rltune.forecast.rolls import drawn_quantiles
from rltune.forecast.run_time_draws import RunTimes, _whose
from rltune.forecast.start_forecast import JobForecast, StartCalibration
from rltune.jobs import Jobs
from rltune.present.moment import roll
from rltune.present.of_run import replay

HOUR = 3600.0


def history(n=80, seed=0):
    """Make jobs that crowd two nodes of 4 GPUs, with limits above their run times."""
    rng = np.random.default_rng(seed)
    duration = rng.lognormal(6, 0.7, n)
    return Jobs.from_arrays(
        submit_s=np.sort(rng.uniform(0, 120.0 * n, n)),
        duration_s=duration,
        gpus=rng.choice([1, 2, 4], n),
        limit_s=duration * rng.uniform(1.0, 5.0, n),
        user=[f"u{i % 3}" for i in range(n)],
    )


@pytest.fixture(scope="module")
def present():
    """Take the middle of the history."""
    jobs = history()
    on = Cluster.uniform(2, 4, "V100")
    return replay(jobs, on, read_pipeline("saf + easy"), get_estimator("user"), float(jobs.submit_s[55]))


def test_a_forecast_repeats_and_is_in_order(present):
    """The same seed gives the same numbers on one worker and on two; p10 <= p50 <= p90, none before now."""
    one, two = (forecast(present, rolls=6, workers=workers) for workers in (1, 2))
    assert one.to_dict() == two.to_dict()
    assert one.jobs
    for job in one.jobs:
        assert present.now_s <= job.p10_s <= job.p50_s <= job.p90_s
    assert json.dumps(one.to_dict(), allow_nan=False)
    assert set(one.by_job) == set(present.waiting_names)


def test_without_chance_the_rolls_are_the_deterministic_one(present):
    """With run times as estimated and nobody coming, what is rolled is the roll."""
    assert np.array_equal(roll(present), roll(present))
    assert forecast(present, rolls=2, arrivals=False).notes[-1] == "nobody is taken to come after now"


def test_drawn_run_times_are_conditional(present):
    """Nobody who runs is drawn to have ended by now, and nobody runs past the limit at which he is killed."""
    known = RunTimes.of(present)
    rng = np.random.default_rng(0)
    drawn = np.array([known.draw(rng) for _ in range(50)])
    assert (drawn > known.attained_s).all()
    assert (drawn <= np.maximum(known.limit_s, known.attained_s + 1.0) + 1e-9).all()
    assert (np.diff(known.lasting, axis=1) <= 0).all()


def test_who_has_passed_a_limit_does_not_end_at_once():
    """A limit that did not end a job bounds nothing: it runs on for about as long as it has run, not for a second."""
    jobs = Jobs.from_arrays(submit_s=[0.0, 1.0], duration_s=[2e6, 100.0], gpus=[4, 4], limit_s=[86_400.0, 200.0])
    here = replay(jobs, Cluster.uniform(1, 4), read_pipeline("fcfs"), get_estimator("user"), 1e6)
    known = RunTimes.of(here)
    row = int(here.seats.rows[0])
    drawn = np.array([known.draw(np.random.default_rng(i))[row] for i in range(200)])
    assert np.median(drawn - known.attained_s[row]) > 86_400.0


def test_draws_have_the_distribution_of_jobs_alike():
    """Where a thousand jobs alike are known, medians agree, from the start and after a while."""
    rng = np.random.default_rng(3)
    n = 1000
    jobs = Jobs.from_arrays(submit_s=np.arange(n) * 10.0, duration_s=rng.exponential(1000.0, n), gpus=1)
    last = Jobs.from_arrays(submit_s=[2e5, 2e5 + 1], duration_s=[50_000.0, 50_000.0], gpus=[1, 4])
    on = Cluster.uniform(1, 4)
    here = replay(jobs.followed_by(last), on, read_pipeline("fcfs"), get_estimator("history"), 2e5 + 2000.0)
    known = RunTimes.of(here)
    drawn = np.array([known.draw(rng) for _ in range(2000)])
    running = int(here.seats.rows[0])
    assert np.median(drawn[:, running] - known.attained_s[running]) == pytest.approx(1000 * np.log(2), rel=0.25)


def test_arrivals_are_history_shifted_by_whole_blocks(present):
    """They come after now, as often as before, and each is a job of the history."""
    coming = Arrivals.of(present)
    later = coming.draw(np.random.default_rng(1), 4 * coming.block_s, np.full(len(present.jobs), 7.0))
    assert (later.jobs.submit_s > present.now_s).all()
    assert (np.diff(later.jobs.submit_s) >= 0).all()
    assert set(later.jobs.duration_s) <= {7.0, *present.history.duration_s}
    assert len(later.jobs) == len(later.estimate_s)


def test_a_level_is_as_far_from_1_as_history_shows():
    """Days alike leave little room, days that grow much; a day without work does not make it endless."""
    calm, growing = np.full(14, 3600.0), 3600.0 * 2.0 ** np.arange(14)
    assert level_spread(calm) < level_spread(calm * np.tile([1.0, 1.5], 7)) < level_spread(growing)
    assert level_spread(calm) == pytest.approx(0.2 * np.sqrt(2 / 15 / 2))
    assert level_spread(np.append(calm, 0.0)) < 2.5


def test_a_future_has_a_level_of_arrivals(present):
    """More jobs come in some futures and fewer in others, and as many as in history in the middle one."""
    known = Arrivals.of(present)
    durations = RunTimes.of(present).draw(np.random.default_rng(0))

    def counts(spread):
        made = replace(known, level_sd=spread)
        return [len(made.draw(np.random.default_rng(k), 40 * known.block_s, durations).jobs) for k in range(40)]

    calm, wild = counts(0.0), counts(0.5)
    assert np.std(np.log(wild)) > 3 * np.std(np.log(calm))
    assert max(wild) <= max(calm) * np.exp(0.5 * FARTHEST) * 1.2
    assert np.median(np.log(wild)) == pytest.approx(np.median(np.log(calm)), abs=0.25)


def test_a_future_has_a_level_of_run_times(monkeypatch):
    """Jobs of one future lie together further from those of others than single draws would."""
    jobs = history(400)
    on = Cluster.uniform(2, 4, "V100")
    known = RunTimes.of(replay(jobs, on, read_pipeline("saf + easy"), get_estimator("user"), float(jobs.submit_s[300])))
    known = replace(known, whose=np.arange(len(known.whose)), limit_s=np.full(len(known.limit_s), np.inf))

    def spread():
        return np.std([np.log(known.draw(np.random.default_rng(k)) - known.attained_s).mean() for k in range(60)])

    drawn = spread()
    monkeypatch.setattr("rltune.forecast.run_time_draws.LEVEL_SD", 0.0)
    assert drawn > 1.2 * spread()


def test_jobs_of_a_burst_are_drawn_alike_where_no_user_is_known(present):
    """One size and partition, minutes apart: one burst. Another size, or an hour without any: another."""
    jobs = Jobs.from_arrays(submit_s=[0, 60, 120, 4000, 4060], duration_s=[9.0] * 5, gpus=[1, 1, 2, 1, 1])
    a, b, c, d, e = _whose(jobs)
    assert a == b != c
    assert c != d == e != a
    known = present.recorded
    assert (_whose(known) == known.user.codes).all()


def test_a_request_is_answered_before_it_is_submitted(present):
    """The request waits behind the others; the soonest of its like is named."""
    request = parse_request("gpus=4,type=V100,time=10m,user=u1")
    asked = with_request(present, request)
    assert asked.names[-1] == NAME
    assert asked.waiting[-1] == len(present.jobs)
    told = compare_requests(present, request, rolls=3)
    assert told.offers[0].request == request
    assert told.soonest.start.p50_s <= min(one.start.p50_s for one in told.offers) + WORTH_S
    assert str(told).startswith("Soonest: ")
    with pytest.raises(InputError, match="gpus= is missing"):
        parse_request("time=4h")
    with pytest.raises(InputError, match="gpu"):
        parse_request("gpu=4")


def test_a_correction_makes_quantiles_what_they_are_called():
    """Draws that are half as wide as the truth are widened until about eight in ten truths are inside."""
    rng = np.random.default_rng(5)
    trials = []
    for i in range(80):
        middle = rng.uniform(6, 9, 100)
        starts = np.exp(middle + rng.normal(0, 0.5, (100, 100)))
        truth = np.exp(middle + rng.normal(0, 1.0, 100))
        trials.append(TriedMoment(1e6 * i, 1e6 * i + starts, 1e6 * i + np.exp(middle), 1e6 * i + truth))
    made = calibration_of(trials)
    assert made.covered < 0.6
    assert made.covered_corrected > made.covered + 0.1  # in the beginning little is believed
    sure = correction(trials * 10)
    assert 0.75 <= np.mean([trial.errors(sure).inside.mean() for trial in trials]) <= 0.82
    assert "80 % interval" in str(made)


def test_a_job_counts_by_its_forecast_and_not_by_its_truth():
    """Where truths end, a p90 behind the end says nothing, and one that is not known by its p90 was late."""
    starts = np.tile(np.array([100.0, 100.0, 100.0, 9000.0]), (5, 1))
    truth = np.array([100.0, 400.0, np.inf, 9000.0])
    told = TriedMoment(0.0, starts, starts[0], truth, known_s=1000.0).errors(StartCalibration())
    assert told.inside.tolist() == [True, False, False]
    assert told.median_s == pytest.approx([0.0, 300.0, 900.0])
    assert len(TriedMoment(0.0, starts, starts[0], truth).known_by(50.0).errors(StartCalibration()).inside) == 0


def test_jobs_that_still_run_count_in_what_is_known():
    """Half of the jobs have ended soon and half still run: history alone would be of the short ones."""
    n = 60
    jobs = Jobs.from_arrays(
        submit_s=[*np.arange(n) * 10.0, 5000.0],
        duration_s=[*np.where(np.arange(n) % 2, 60.0, 40_000.0), 1.0],
        gpus=[1] * (n + 1),
        user=["ann"] * (n + 1),
    )
    here = replay(jobs, Cluster.uniform(15, 4), read_pipeline("fcfs"), get_estimator("history"), 4000.0)
    known = RunTimes.of(here)
    longer = known.lasting[0, np.searchsorted([0.0, *(2.0**k for k in range(12))], 1024.0)]
    assert len(here.history) == n // 2
    assert longer > 0.35


def test_one_job_alone_is_forecast_as_among_all(present):
    """A roll that stops at the start of the one that is asked for tells the same of it, nobody coming."""
    every = forecast(present, rolls=5, arrivals=False)
    for name in present.waiting_names[:3]:
        alone = forecast(present, rolls=5, arrivals=False, job=name)
        assert [one.job for one in alone.jobs] == [name]
        assert alone.by_job[name] == every.by_job[name]


def test_calibration_on_a_history():
    """Earlier moments are tried, and what is told of them is complete."""
    jobs = history()
    on = Cluster.uniform(2, 4, "V100")
    made = calibrate(
        jobs, on, read_pipeline("fcfs + easy"), get_estimator("user"), float(jobs.submit_s[70]), 3, rolls=4
    )
    assert 0 < made.moments <= 3
    assert 0 <= made.covered <= 1
    assert made.wider > 0
    assert str(StartCalibration()).startswith("not calibrated")


def test_quantiles_of_drawn_futures_hold_as_many_further_ones_as_they_say():
    """Whatever is drawn from: 80 % of further draws lie between p10 and p90, also of few draws."""
    rng = np.random.default_rng(0)
    for draws in (9, 30, 100):
        low, high = drawn_quantiles(rng.lognormal(size=(draws, 40_000)), (0.1, 0.9))
        further = rng.lognormal(size=40_000)
        assert ((low <= further) & (further <= high)).mean() == pytest.approx(0.8, abs=0.02)
    never = np.array([[1.0], [2.0], [3.0], [np.inf]])
    assert drawn_quantiles(never, (0.2, 0.6, 0.7, 0.9)).T.tolist() == [[1.0, 3.0, np.inf, np.inf]]
    assert drawn_quantiles(np.full((5, 1), np.inf), (0.5,)).tolist() == [[np.inf]]
    left = drawn_quantiles(np.array([[5.0, 5.0], [1.0, 1.0], [3.0, np.inf], [4.0, 4.0]]), (0.5,), np.array([1, 2]))
    assert left.tolist() == [[4.0, np.inf]]  # of 3, 4, 5, and of 5 and never


def test_at_a_later_time_futures_that_did_not_come_are_left_out(present):
    """The starts of who still waits are those of the futures that are left; who has none left is told apart."""
    drawn, now_s = DrawnFutures.draw(present, 20), present.now_s
    assert drawn.forecast() == drawn.as_of(now_s, present.waiting_names)
    assert drawn.forecast().drawn_s == now_s
    first, last = present.waiting_names[0], present.waiting_names[-1]
    starts = drawn.starts[:, present.waiting_row(last)]
    later_s = float(np.median(starts)) + 1.0
    told = drawn.as_of(later_s, [last])
    assert set(told.by_job) | set(told.outlasted) == {last}
    left = np.sort(starts[starts >= later_s])
    assert 2 <= len(left) < 20
    one = told.by_job[last]
    assert told.now_s == later_s <= one.p10_s <= one.p50_s <= one.p90_s
    assert one.p50_s == pytest.approx(np.median(left), abs=60.0 + 0.1 * np.ptp(left))  # read in the logarithm
    assert one.rolled_s >= later_s
    assert one.futures == len(left)
    assert one.has_interval == (len(left) >= 9)
    nearly = drawn.as_of(float(np.sort(starts)[-3]), [last])
    assert (nearly.by_job[last].futures, nearly.by_job[last].has_interval) == (3, False)
    assert "for 1 of 1 job fewer than 9 of the futures that were drawn can still come" in str(nearly)
    over = drawn.as_of(float(starts.max()) + 1.0, [last])
    assert (over.jobs, over.outlasted) == ((), (last,))
    assert f"Any moment: {last}" in str(over.only(last))
    assert Forecast.of_plain(over.to_dict()).outlasted == (last,)
    assert first not in told.by_job  # it no longer waits


def test_drawing_ends_when_there_is_enough(present):
    """Whole handfuls are drawn until somebody has enough; the first is always drawn."""
    few = DrawnFutures.draw(present, 20, lambda made: len(made) < 8)
    assert len(few) == 8
    assert np.array_equal(few.starts, DrawnFutures.draw(present, 20).starts[:8])
    assert len(DrawnFutures.draw(present, 2, lambda _: False).starts) == 2


def test_one_job_is_told_what_it_is_told_among_all(present):
    """The same futures are drawn for it, whoever is asked about."""
    every = forecast(present, rolls=6)
    for name in (present.waiting_names[0], present.waiting_names[-1]):
        assert forecast(present, rolls=6, job=name).by_job == {name: every.by_job[name]}


def test_a_roll_outside_the_interval_is_explained_and_columns_have_one_unit():
    """Estimates that are far too long put the deterministic roll behind p90."""
    jobs = history()
    on, late = Cluster.uniform(2, 4, "V100"), jobs.with_columns(limit_s=jobs.limit_s * 50)
    here = replay(late, on, read_pipeline("fcfs + easy"), get_estimator("user"), float(jobs.submit_s[60]))
    told = forecast(here, rolls=12)
    text = str(told)
    after = sum(one.p90_s < one.rolled_s for one in told.jobs)
    assert after
    assert f"the deterministic roll is after p90 for {after} of {len(told.jobs)} jobs: in it all run as long as" in text
    assert text.splitlines()[0].endswith(", d-hh:mm from now")
    cells = [cell for line in text.splitlines()[2 : 2 + len(told.jobs)] for cell in line.split()[1:]]
    assert all(re.fullmatch(r"(\d+-)?\d+:\d\d", cell) for cell in cells)


def test_a_p90_beyond_the_length_of_the_history_is_named():
    """Who is hidden in a long list is named too, up to five; infinite is further off than any history."""
    far = tuple(JobForecast(f"{i}", 10.0, 20.0, np.inf if i else 2000.0, 15.0) for i in range(7))
    near = JobForecast("near", 10.0, 20.0, 900.0, 15.0)
    told = Forecast(0.0, (near, *far), 100, "fcfs", history_s=1000.0)
    lines = [line for line in told.lines(most=1) if "than the history is long" in line]
    assert len(lines) == 1
    begin = "Note: for 7 of 8 jobs p90 is further off than the history is long, 16.7 min (0, 1, 2, 3, 4 and 2 more): "
    assert lines[0].startswith(begin)
    again = Forecast.of_plain(json.loads(json.dumps(told.to_dict())))
    assert lines[0] in again.lines()
    assert "than the history" not in str(Forecast(0.0, (near,), 100, "fcfs", history_s=1000.0))
    assert "than the history" not in str(Forecast(0.0, far, 100, "fcfs"))


def test_a_forecast_knows_how_long_its_history_is(present):
    assert forecast(present, rolls=2).history_s == present.now_s - present.history.submit_s.min()


def test_a_calibration_says_how_many_moments_nobody_waited_at():
    """Twelve were asked for, three had a queue."""
    made = StartCalibration(moments=3, jobs=40, covered=0.8, tried=12)
    assert str(made).startswith("of 40 starts at 3 earlier moments (at 9 more nobody waited), ")


@pytest.mark.parametrize(("text", "told"), [("gpus=1,time=0", "asks for no time"), ("gpus=1,time=0s", "asks for no")])
def test_a_request_for_no_time_is_refused(text, told):
    with pytest.raises(InputError, match=told):
        parse_request(text)


def test_a_name_that_nobody_bears_is_told(present):
    """It may be new, or misspelt."""
    notes = compare_requests(present, parse_request("gpus=1,user=u11"), rolls=2).notes
    assert "no job that is known here has user u11 (did you mean u1?): it is taken to be new" in notes
    assert not any("known here" in note for note in compare_requests(present, parse_request("gpus=1,user=u1"), 2).notes)


@pytest.mark.parametrize(("longer", "told"), [(1.0, False), (20.0, True)])
def test_a_replay_that_is_unlike_the_record_says_so(longer, told):
    """What is recorded is what a replay did, or 20 times as long waits; who waits still has waited up to now."""
    jobs, on = history(), Cluster.uniform(2, 4, "V100")
    run = run_pipeline(jobs, on, read_pipeline("fcfs + easy"), get_estimator("oracle"))
    seen = jobs.with_columns(recorded_start_s=jobs.submit_s + longer * run.wait_s)
    here = replay(seen, on, read_pipeline("fcfs + easy"), get_estimator("oracle"), float(jobs.submit_s[60]))
    said = any(note.startswith("The level of waiting is not the site's: even under fcfs + easy") for note in here.notes)
    assert said == told, here.notes
    assert any(
        "No starts are recorded" in note
        for note in replay(jobs, on, here.pipeline, get_estimator("oracle"), here.now_s).notes
    )
