"""Policies compared on what the controller has seen: nobody who still waits or runs is forgotten."""

import numpy as np
import pytest
from serve_cases import service
from starlette.testclient import TestClient

from rltune import Cluster, Jobs, simulate
from rltune.live.control_settings import ControlSettings, PipelineSettings
from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.serve.own_history import FEWEST, OwnHistory
from rltune.serve.played_cluster import PlayedCluster
from rltune.serve.sight import Watch


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
    jobs = Jobs.from_arrays(
        submit_s=np.sort(rng.uniform(0, 86_400, n)),
        duration_s=rng.lognormal(6.8, 1.0, n),
        gpus=rng.choice([1, 2, 4, 8], n),
        user=rng.integers(0, 9, n),
    )
    schedule = simulate(jobs, Cluster.uniform(4, 8, "p100"), policy="fcfs", backfill="easy", estimator="oracle")
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
    run = made.comparison.runs[made.comparison.baseline]
    measured = run.schedule.jobs.submit_s >= made.first_s
    assert measured.sum() == came.sum()
    started = came & (schedule.start_s <= until)
    theirs = schedule.wait_s[started].mean()
    recorded = run.schedule.jobs.recorded_start_s - run.schedule.jobs.submit_s
    ours = run.schedule.wait_s[measured & (run.schedule.jobs.recorded_start_s < made.last_s)].mean()
    assert np.median(recorded[measured]) > 0
    assert ours == pytest.approx(theirs, rel=0.25)  # the same policy, but for what is estimated of running jobs
    assert {s.label for s in made.comparison.standings} >= {"fcfs + easy", "saf + easy", made.now}


def test_the_page_shows_the_comparison_when_it_is_made(watched):
    with TestClient(service(watched[0])) as client:
        assert "are being replayed" in client.get("/policies").text
        client.app.state.history.wait()
        text = client.get("/policies").text
        assert "fcfs + easy" in text
        assert "recorded in the history" in text
        assert "still wait or run" in text


def test_too_few_jobs_are_not_compared(tmp_path):
    from serve_cases import journal_of

    with TestClient(service(journal_of(tmp_path))) as client:
        assert f"Policies are compared from {FEWEST} on" in client.get("/policies").text
