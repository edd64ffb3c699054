"""Futures are drawn once for all who ask meanwhile, and nobody waits for those of others."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from live_cases import NOW, MemoryCluster, job, running, settings, snapshot
from serve_cases import journal_of, service
from starlette.testclient import TestClient

from rltune.errors import InputError
from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.serve import answers
from rltune.serve.demonstration import demonstration
from rltune.serve.guard_rails import RequestLimits
from rltune.serve.kept_forecast import REST, KeptForecast

MANY = RequestLimits(per_s=1e6, burst=10**6)


def test_who_asks_while_futures_are_drawn_gets_those():
    begun, go = threading.Event(), threading.Event()
    made = []

    def draw(_):
        begun.set()
        go.wait(60)
        made.append(object())
        return made[-1]

    kept = KeptForecast(draw)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(kept.drawn) for _ in range(8)]
        assert begun.wait(60)
        while sum(one.running() for one in asked) < 8:
            time.sleep(0.01)
        with pytest.raises(TimeoutError):
            kept.drawn(patience_s=0.01)
        assert kept.is_drawing
        go.set()
        assert [one.result(60) for one in asked] == made * 8
    assert len(made) == 1
    assert not kept.is_drawing
    assert kept.newest is made[0]


def test_the_first_few_futures_are_there_before_all_are_and_others_only_when_they_are_whole():
    """Who is out of patience gets few, rather than none; many that are older stay until all newer ones are there."""
    seen = []

    def draw(publish):
        for made in (f"few {len(seen)}", f"more {len(seen)}"):
            publish(made)
            seen.append(kept.newest)
        return f"all {len(seen)}"

    kept = KeptForecast(draw)
    assert kept.drawn() == "all 2"
    assert kept.drawn() == "all 4"
    assert seen == ["few 0", "more 0", "all 2", "all 2"]


def test_after_a_drawing_there_is_a_rest_in_proportion():
    now = [100.0]

    def draw(_):
        now[0] += 7.0
        return object()

    kept = KeptForecast(draw, timer=lambda: now[0])
    assert not kept.rests
    kept.drawn()
    now[0] += REST * 7.0 - 0.1
    assert kept.rests
    now[0] += 0.2
    assert not kept.rests


def test_a_drawing_that_fails_is_told_to_who_waits_and_the_next_begins_anew():
    answers_of_it = iter([InputError("this cycle cannot be explained"), None])

    def draw(_):
        one = next(answers_of_it)
        if one is not None:
            raise one

    kept = KeptForecast(draw)
    with pytest.raises(InputError, match="cannot be explained"):
        kept.drawn()
    assert kept.drawn() is None


def test_a_job_that_came_after_the_drawing_is_drawn_for_when_it_is_asked_about(tmp_path, monkeypatch):
    """All others are told from the futures that are there, as of the newest cycle."""
    path = tmp_path / "journal.db"
    runs = running(100, "n0", 4, ran_s=10), running(101, "n1", 4, ran_s=10)
    controller = Controller(MemoryCluster(snapshot((*runs, job(1, 4)))), Journal.create(path), settings(mode="shadow"))
    controller.cycle()
    drawings = []
    drawn = answers.DrawnFutures.draw

    def draw(*args, **more):
        drawings.append(args)
        return drawn(*args, **more)

    monkeypatch.setattr(answers.DrawnFutures, "draw", draw)
    monkeypatch.setattr(KeptForecast, "rests", property(lambda self: self.newest is not None))
    with TestClient(service(path, limits=MANY)) as client:
        first = client.get("/api/v1/forecast").json()
        assert first["drawn_s"] == first["now_s"] == NOW
        controller.backend.now = snapshot((*runs, job(1, 4), job(2, 4)), at=NOW + 60)
        controller.cycle()
        later = client.get("/api/v1/forecast").json()
        assert (later["drawn_s"], later["now_s"]) == (NOW, NOW + 60)
        assert [one["job"] for one in later["jobs"]] == ["1"]
        assert all(one["p10_s"] >= NOW + 60 for one in later["jobs"])
        assert len(drawings) == 1
        asked = client.get("/api/v1/forecast?job=2").json()
        assert [one["job"] for one in asked["jobs"]] == ["2"]
        assert asked["drawn_s"] == NOW + 60
        assert len(drawings) == 2
        assert client.get("/api/v1/forecast?job=77").status_code == 404


def test_no_forecast_in_time_is_said_with_when_to_ask_again(tmp_path, monkeypatch):
    go = threading.Event()
    monkeypatch.setattr(answers.DrawnFutures, "draw", lambda *_: go.wait(60))
    monkeypatch.setattr(answers.Answers.forecast, "__defaults__", ("", 0.05))
    with TestClient(service(journal_of(tmp_path), limits=MANY)) as client:
        told = client.get("/api/v1/forecast")
        go.set()
    assert told.status_code == 503
    assert "retry-after" in told.headers


def test_the_demonstration_forecasts_for_several_who_ask_at_once_and_never_into_the_past():
    """Of the demonstration itself, with what makes its forecasts beside those who ask."""
    with demonstration(speed=60.0) as demo, TestClient(service(demo.journal, limits=MANY, follow=True)) as client:
        with ThreadPoolExecutor(6) as pool:
            told = [one.result(120) for one in [pool.submit(client.get, "/api/v1/forecast") for _ in range(6)]]
        assert [one.status_code for one in told] == [200] * 6
        assert len({one.json()["drawn_s"] for one in told}) <= 2
        for made in (one.json() for one in told):
            assert made["jobs"] or made["outlasted"]
            assert made["drawn_s"] <= made["now_s"]
            assert all(one["p10_s"] >= made["now_s"] for one in made["jobs"])
        status = client.get("/api/v1/status").json()
        assert client.get("/api/v1/forecast").json()["now_s"] >= status["taken_s"]
