import numpy as np
import pytest
from starlette.testclient import TestClient

from rltune import Cluster, Jobs, simulate
from rltune.live.see.snapshot import PENDING
from rltune.serve.app import ServeSettings, make_app
from rltune.serve.demonstration import demonstration
from rltune.serve.played_cluster import PlayedCluster
from rltune.serve.sight import Watch


class StillClock:
    def __init__(self, now):
        self.now = now

    def now_s(self):
        return self.now


@pytest.fixture(scope="module")
def schedule():
    jobs = Jobs.from_arrays(
        submit_s=[0.0, 10.0, 20.0, 30.0], duration_s=[100.0, 50.0, 50.0, 10.0], gpus=[4, 4, 2, 4], user=list("abba")
    )
    return simulate(jobs, Cluster.uniform(1, 4, "p100"), estimator="oracle")


def test_what_is_played_is_what_the_schedule_holds_at_every_moment(schedule):
    clock = StillClock(1000.0)
    cluster = PlayedCluster(schedule, clock, begin_s=0.0)
    for at in (0.0, 15.0, 99.0, 100.0, 160.0, 500.0):
        clock.now = 1000.0 + at
        seen = cluster.observe()
        waiting = {job.id - 1 for job in seen.jobs if job.state == PENDING}
        running = {job.id - 1 for job in seen.jobs if job.on_nodes}
        came = schedule.jobs.submit_s <= at
        assert waiting == set(np.flatnonzero(came & (schedule.start_s > at)))
        assert running == set(np.flatnonzero((schedule.start_s <= at) & (schedule.end_s > at)))
        assert seen.nodes[0].gpus_used == schedule.jobs.gpus[list(running)].sum()


def test_the_demonstration_shows_a_queue_at_once_and_leaves_nothing_behind():
    with demonstration(speed=600.0, jobs=300) as demo:
        with TestClient(make_app(Watch(demo.journal), ServeSettings(demo=True))) as client:
            assert client.get("/").status_code == 200
            assert "simulated cluster" in client.get("/").text
            status = client.get("/api/v1/status").json()
            assert status["running"] > 0
            assert sum(gpus["total"] for gpus in status["gpus"]) == 192
        folder = demo.journal.parent
    assert not folder.exists()
