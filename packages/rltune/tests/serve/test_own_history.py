"""Policies compared on what the controller has seen: nobody who still waits or runs is forgotten."""

from dataclasses import replace

import numpy as np
import pytest
from serve_cases import service
from starlette.testclient import TestClient

from rltune import Cluster, Jobs, simulate
from rltune.errors import InputError
from rltune.live.control_settings import ControlSettings, PipelineSettings
from rltune.live.controller import Controller
from rltune.live.gain_watch import GainWatch
from rltune.live.journal.store import Journal
from rltune.live.replay_cycle import recall
from rltune.serve.own_history import FEWEST, RULES, OwnHistory
from rltune.serve.played_cluster import PlayedCluster
from rltune.serve.policy_tables import told_ratio
from rltune.serve.sight import Watch
from rltune.shadow import shadow_report, shadow_text
from rltune.text import percent
from rltune.trials.intervals import Interval


class HandClock:
    """A clock that stands still until it is put on."""

    def __init__(self, now):
        self.now = now

    def now_s(self):
        return self.now

    elapsed_s = now_s


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A day of a crowded cluster that a controller looks at from its middle on."""
    rng, n = np.random.default_rng(0), 600
    duration = rng.lognormal(6.8, 1.0, n)
    jobs = Jobs.from_arrays(
        submit_s=np.sort(rng.uniform(0, 86_400, n)),
        duration_s=duration,
        limit_s=1.5 * duration,
        gpus=rng.choice([1, 2, 4, 8], n),
        user=rng.integers(0, 9, n),
    )
    schedule = simulate(jobs, Cluster.uniform(4, 8, "p100"), policy="fcfs", backfill="whole-nodes", estimator="user")
    path = tmp_path_factory.mktemp("watched") / "journal.db"
    begin, clock = 40_000.0, HandClock(1.7e9)
    cluster = PlayedCluster(schedule, clock, begin, remembered_s=4000.0)
    how = ControlSettings(pipeline=PipelineSettings(policy="saf", estimator="user"))
    controller = Controller(cluster, Journal.create(path), how, clock)
    for _ in range(14):
        controller.cycle()
        clock.now += 2000.0
    seen_until = begin + 13 * 2000.0
    return path, schedule, begin, seen_until


def test_the_queue_is_in_the_comparison_and_first_come_waits_as_was_recorded(watched):
    path, schedule, begin, until = watched
    history = OwnHistory(Watch(path))
    assert history.newest().working
    made = history.wait()
    assert made.error == ""
    came = (schedule.jobs.submit_s > begin) & (schedule.jobs.submit_s <= until)
    waiting = came & (schedule.start_s > until)
    assert waiting.sum() > 20  # who would be left out if only ended jobs counted
    report = made.report
    assert report.jobs == came.sum()
    waits = np.minimum(schedule.start_s, until)[came] - schedule.jobs.submit_s[came]
    assert report.observed.mean == pytest.approx(waits.mean(), rel=1e-6)
    assert report.slurm.mean == pytest.approx(waits.mean(), rel=0.25)  # but for run times of those not over yet
    assert {one.name for one in made.orders} == {"Slurm's order", *RULES}
    assert [one.name for one in made.orders if one.ours] == ["saf"]


def test_whether_the_policy_is_better_has_one_answer(watched):
    """The page, the report and the controller's own event replay the same jobs from the same state by one function."""
    path = watched[0]
    history = OwnHistory(Watch(path))
    history.newest()
    made = history.wait()
    journal = Journal.read(path)
    report, was = shadow_report(journal), recall(journal, 0)
    assert (made.order("saf").ratio, made.report.slurm) == (report.ratio, report.slurm)
    gain = GainWatch(journal, was.settings, was.pinned).gain(was.situation.bare, dict(was.known.estimates))
    assert gain.jobs == report.jobs
    assert gain.slurm_wait_s == pytest.approx(report.slurm.mean)
    assert gain.our_wait_s == pytest.approx(report.ours.mean)
    assert gain.share == pytest.approx(1 - report.ratio.estimate)
    less = f"{percent(abs(gain.share))} {'less' if gain.share > 0 else 'more'}"
    with TestClient(service(path)) as client:
        client.get("/policies")
        client.app.state.history.wait()
        assert less in client.get("/policies").text
    assert str(gain).endswith(less)


def test_the_page_shows_the_comparison_when_it_is_made(watched):
    with TestClient(service(watched[0])) as client:
        assert "are being replayed" in client.get("/policies").text
        client.app.state.history.wait()
        text = client.get("/policies").text
        assert "fcfs" in text
        assert "as observed" in text
        assert "had not ended" in text


@pytest.mark.parametrize(("older_s", "told"), [(0.0, ""), (7200.0, "2.0 h ago by the cluster")])
def test_a_comparison_that_is_old_says_as_of_when(watched, older_s, told):
    """It is made again only when a tenth more jobs have ended: meanwhile the page is about an earlier time."""
    with TestClient(service(watched[0])) as client:
        client.get("/policies")
        history = client.app.state.history
        made = history.wait()
        history._shown = replace(made, report=replace(made.report, end_s=made.report.end_s - older_s))
        text = client.get("/policies").text
        assert ("As of " in text) == bool(told)
        assert told in text
        assert "who waited then already is replayed, but in no row" in text


def test_a_mistake_of_the_comparison_is_told_and_never_shown_as_a_result(watched, monkeypatch):
    """What a journal lacks is told in its words; what nobody foresaw goes to the log as well."""
    for error, told in ((InputError("no node is left"), "no node is left"), (ZeroDivisionError("x"), "the log")):

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr("rltune.serve.own_history.shadow_report", fail)
        monkeypatch.setattr("threading.excepthook", lambda *_: None)
        history = OwnHistory(Watch(watched[0]))
        history.newest()
        made = history.wait()
        assert made.report is None
        assert told in made.error


def test_too_few_jobs_are_not_compared(tmp_path):
    from serve_cases import journal_of

    with TestClient(service(journal_of(tmp_path))) as client:
        assert f"Policies are compared from {FEWEST} on" in client.get("/policies").text


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (Interval(0.8, 0.7, 0.9), "20.0 % less (10.0 % less to 30.0 % less)"),
        (Interval(1.2, 1.1, 1.3), "20.0 % more (10.0 % more to 30.0 % more)"),
        (Interval(0.9, 0.7, 1.1), "not shown to differ: 10.0 % less (30.0 % less to 10.0 % more)"),
    ],
)
def test_an_interval_is_told_the_same_way_round_everywhere(made, told):
    """From the smaller change to the larger, or from less to more, as the report of a time in shadow has it."""
    assert told_ratio(made) == told
    assert shadow_text.told_span(made) in told
