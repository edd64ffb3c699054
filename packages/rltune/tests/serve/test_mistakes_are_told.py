"""What goes wrong behind a page is told, in the log or on the page, and the next look is made all the same."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from live_cases import NOW, MemoryCluster, job, settings, snapshot
from serve_cases import journal_of, service
from starlette.testclient import TestClient

from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.metrics.distribution import Distribution
from rltune.serve import follower, sight
from rltune.serve.follower import Follower
from rltune.serve.guard_rails import RequestLimits
from rltune.serve.own_history import ComparedHistory, OrderTried
from rltune.serve.pages import _of_the_past
from rltune.serve.sight import Sight, Watch
from rltune.serve.tokens import Caller, Role
from rltune.serve.whatif_runs import WhatIfRuns
from rltune.trials.intervals import Interval

MANY = RequestLimits(per_s=1e6, burst=10**6)


@pytest.fixture
def path(tmp_path):
    return journal_of(tmp_path, cycles=2)


def one_more_cycle(path):
    journal = Journal.create(path)
    Controller(MemoryCluster(snapshot([job(1)], at=NOW + 900)), journal, settings(mode="shadow")).cycle()
    journal.close()


def test_what_is_told_without_a_cycle_is_on_the_overview(path):
    """Its content is kept for a cycle, and the controller may have ended."""
    with TestClient(service(path, limits=MANY)) as client:
        assert "out of reach" not in client.get("/").text
        journal = Journal.create(path)
        journal.add_event("unreachable", "Slurm is out of reach", NOW + 500)
        journal.close()
        assert "Slurm is out of reach" in client.get("/").text
        assert "Slurm is out of reach" in client.get("/controller").text


def test_a_follower_goes_on_after_a_mistake_and_logs_it_once(path, monkeypatch, caplog):
    """Pages must not show the last cycle for ever, and the log not fill with the same sentence."""
    watch, tried, enough = Watch(path), [], threading.Event()

    def refresh(_):
        tried.append(len(tried))
        enough.set() if len(tried) > 5 else None
        raise RuntimeError("no look")

    monkeypatch.setattr(follower, "_LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(watch, "refresh", refresh)
    made = Follower(watch, SimpleNamespace(), (60.0,))
    thread = threading.Thread(target=made.run)
    thread.start()
    assert enough.wait(60)
    made.stop()
    thread.join(60)
    assert [record.exc_info[1].args for record in caplog.records] == [("no look",)]
    assert made._cycle == 2


def test_a_cycle_that_cannot_be_taken_apart_is_no_reason_to_show_an_old_one(path, monkeypatch):
    """Who asks is told; with the next cycle all is well again."""
    watch = Watch(path)
    watch.refresh()
    one_more_cycle(path)
    with monkeypatch.context() as broken:
        broken.setattr(sight, "unpack_snapshot", lambda _: 1 / 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                watch.refresh()
            with pytest.raises(ZeroDivisionError):
                watch.sight()
    watch.refresh()
    assert watch.sight().cycle.id == 3


def test_what_is_prepared_for_pages_does_not_keep_the_cycle_from_them(path):
    watch = Watch(path)
    watch.refresh()
    one_more_cycle(path)
    with pytest.raises(ZeroDivisionError):
        watch.refresh(lambda _: 1 / 0)
    assert watch.newest() == watch.sight().cycle.id == 3


def test_a_job_that_the_core_was_not_asked_about_has_a_reason_that_says_so(path, monkeypatch):
    class Forgets(sight.Explainer):
        def all_reasons(self):
            return dict(list(super().all_reasons().items())[1:])

    monkeypatch.setattr(sight, "Explainer", Forgets)
    with Watch(path).journal() as journal:
        reasons = Sight.of(journal).explained.reasons
    assert sum("not in the queue that was explained" in one.text for one in reasons.values()) == 1


def test_what_is_made_of_an_old_cycle_is_returned_though_newer_ones_push_it_out(path, monkeypatch):
    """Another thread may do so as soon as it is kept."""
    watch = Watch(path)

    class PushedOut:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            watch._kept = {}

    monkeypatch.setattr(watch, "_making", PushedOut())
    assert watch.once_a_cycle("x", watch.sight(), lambda: "made") == "made"


def test_a_what_if_that_fails_says_why_in_the_log(caplog):
    def fails(*_, **__):
        raise RuntimeError("no core")

    runs, caller = WhatIfRuns(SimpleNamespace(what_if=fails)), Caller("me", Role.OPERATOR)
    number = runs.begin(["load=+20%"], caller)
    runs._pool.shutdown(wait=True)
    assert "log" in runs.find(number, caller).error
    assert [record.exc_info[1].args for record in caplog.records] == [("no core",)]


def test_what_cannot_be_told_of_the_past_is_not_begun():
    """Where nobody waited in Slurm's order there is no ratio, and a sentence would have no end."""

    def told(ratio):
        order = OrderTried("saf", Distribution.of(np.ones(3)), ratio)
        history = SimpleNamespace(at_hand=lambda: ComparedHistory(200, orders=(order,)))
        request = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(history=history)))
        return list(_of_the_past(request, "pipeline=saf + none"))

    assert told(Interval(np.nan, np.nan, np.nan)) == []
    (line,) = told(Interval(0.8, 0.7, 0.9))
    assert line.endswith("in the order of saf, filled as Slurm does, is 20.0 % less (10.0 % less to 30.0 % less)")


def test_forecasts_of_jobs_that_were_to_start_at_once_are_told_alone(path):
    app = service(path, limits=MANY)
    with TestClient(app) as client:
        assert "none was judged yet" in client.get("/controller").text
        app.state.follower.record.at_once["inside"] += 3
        page = client.get("/controller").text
        assert "none was judged yet" not in page
        assert "Of 3 that were to start at once, 100 % started inside their 80 % interval" in page


def test_a_job_that_slurm_shows_no_more_does_not_go_on_waiting(tmp_path):
    path = tmp_path / "journal.db"
    controller = Controller(MemoryCluster(snapshot(())), Journal.create(path), settings(mode="shadow"))
    for at_s, jobs in ((NOW, [job(8, submit_s=NOW - 50)]), (NOW + 9000, [])):
        controller.backend.now = snapshot(jobs, at=at_s)
        controller.cycle()
    with TestClient(service(path, limits=MANY)) as client:
        assert client.get("/api/v1/jobs/8").json()["job"]["wait_s"] is None
