"""What Prometheus is told: every number is there, moves when it should, and is what the dashboard asks for."""

import json
import re
from dataclasses import replace
from importlib import resources

import pytest
from live_cases import NOW, MemoryCluster, job, running, settings, snapshot
from prometheus_client.parser import text_string_to_metric_families
from serve_cases import JOBS, service
from starlette.testclient import TestClient

from rltune.forecast import Forecast, JobForecast
from rltune.live.controller import Controller
from rltune.live.decide.gain import Gain
from rltune.live.journal.store import Journal
from rltune.serve.forecast_record import ForecastRecord

OF_PROMQL = {"le", "by", "ignoring"}


class Site:
    """A controller and a service over its journal; the cluster changes by hand."""

    def __init__(self, folder, jobs=JOBS, pipeline=None, **more):
        self.cluster = MemoryCluster(snapshot(jobs))
        how = settings(mode="shadow", pipeline=pipeline or {})
        self.controller = Controller(self.cluster, Journal.create(folder / "journal.db"), how)
        self.controller.cycle()
        self.client = TestClient(service(folder / "journal.db", **more))

    def goes_on(self, jobs, seconds=60.0):
        """Show other jobs a little later."""
        self.cluster.now = replace(snapshot(jobs), taken_s=self.cluster.now.taken_s + seconds)
        self.controller.cycle()

    def metrics(self):
        """Return the samples by name and labels, and the labels of each name."""
        found = {}
        for family in text_string_to_metric_families(self.client.get("/metrics").text):
            for sample in family.samples:
                found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
        return found


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path, wait_buckets_s=(100.0, 2000.0))


def test_waits_of_those_who_start_are_counted_once_in_the_users_buckets(site):
    before = site.metrics()
    assert not any(name == "rltune_wait_seconds_count" for name, _ in before)  # who ran already is not counted
    started = [running(2, "n1", 1, ran_s=-30.0, user="ann"), *(one for one in JOBS if one.id != 2)]
    site.goes_on(started)
    for _ in range(2):
        after = site.metrics()
        assert after["rltune_wait_seconds_count", (("partition", "gpu"),)] == 1
        assert after["rltune_wait_seconds_sum", (("partition", "gpu"),)] == pytest.approx(1000.0 - 2 + 30)
        buckets = {dict(labels)["le"]: v for (name, labels), v in after.items() if name == "rltune_wait_seconds_bucket"}
        assert buckets == {"100.0": 0, "2000.0": 1, "+Inf": 1}
    site.goes_on(started)
    assert site.metrics()["rltune_wait_seconds_count", (("partition", "gpu"),)] == 1


def test_decisions_are_counted_with_their_time(site):
    first = site.metrics()["rltune_decide_seconds_count", ()]
    site.goes_on(JOBS)
    site.goes_on(JOBS)
    after = site.metrics()
    assert after["rltune_decide_seconds_count", ()] == first + 2
    assert after["rltune_decide_seconds_sum", ()] > 0


def test_gpus_move_between_their_states(site):
    def states():
        return {dict(k)["state"]: v for (name, k), v in site.metrics().items() if name == "rltune_gpus"}

    assert states() == {"allocated": 7, "idle": 0, "fragmented": 1, "unavailable": 0}
    site.goes_on([one for one in JOBS if one.id != 100])
    assert states() == {"allocated": 3, "idle": 4, "fragmented": 1, "unavailable": 0}


def test_the_solver_is_counted(tmp_path):
    jobs = [running(100, "n0", 2), job(1, 4, 60), job(2, 2, 30), job(3, 4, 30)]
    site = Site(tmp_path, jobs, {"placement": "milp:8"})
    assert site.metrics()["rltune_solver_solves_total", ()] > 0
    for _ in range(2):
        site.goes_on(jobs)
    found = site.metrics()
    names = ("solves", "more_starts", "fallbacks")
    counts = {name: found[f"rltune_solver_{name}_total", ()] for name in names}
    work = site.client.app.state.watch.sight().decision.work
    assert counts["solves"] == 3 * work["milp_solved"] > 0
    assert counts["more_starts"] == 3 * work["milp_more_starts"]


def test_the_gain_of_the_newest_replay_is_told(site):
    told = Gain(50, slurm_wait_s=200.0, our_wait_s=150.0, observed_wait_s=210.0)
    assert Gain.share_told(str(told)) == pytest.approx(told.share)
    assert Gain.share_told("something else") is None
    site.controller.journal.add_event("gain", str(told), NOW)
    site.goes_on(JOBS)
    assert site.metrics()["rltune_gain_share", ()] == pytest.approx(0.25)
    assert str(told) in {event["text"] for event in site.client.get("/api/v1/events").json()}
    assert "<b>gain</b>" not in site.client.get("/controller").text  # pages have one answer, which has an interval


def _forecast(*jobs):
    return Forecast(NOW, tuple(JobForecast(name, *times, times[1]) for name, *times in jobs), 40, "fcfs + easy")


def test_a_forecast_counts_by_where_in_its_interval_the_job_started(site):
    site.metrics()
    record = site.client.app.state.follower.record
    record.note(
        _forecast(("1", NOW + 10, NOW + 80, NOW + 100), ("2", NOW + 10, NOW + 65, NOW + 70), ("3", NOW, NOW, NOW))
    )
    starts = {1: -90.0, 2: -90.0}  # 90 s after the first look
    site.goes_on([running(n, "n1", 1, ran_s=starts[n]) if n in starts else one for one in JOBS for n in [one.id]])
    found = site.metrics()
    where = {dict(k)["where"]: v for (name, k), v in found.items() if name == "rltune_forecast_starts_total"}
    assert where == {"inside": 1, "before": 0, "after": 1}
    assert found["rltune_forecast_covered_share", ()] == 0.5
    assert found["rltune_forecast_median_error_seconds", ()] == pytest.approx(17.5)  # of 10 and 25
    assert set(record.open) == {"3"}


def test_a_job_that_leaves_without_starting_is_no_start():
    record = ForecastRecord()
    record.note(_forecast(("1", NOW, NOW + 5, NOW + 9)))
    record.look([])
    assert (record.starts, record.covered, record.median_error_s, record.open) == (0, None, None, {})


def test_who_was_to_start_at_once_makes_the_others_look_no_better():
    record = ForecastRecord()
    record.note(_forecast(("1", NOW, NOW, NOW + 9), ("2", NOW + 600, NOW + 900, NOW + 1200)))
    record.look([running(1, "n0", 1, ran_s=0.0), running(2, "n1", 1, ran_s=0.0)])
    assert (record.starts, record.covered, record.median_error_s) == (1, 0.0, 900.0)
    assert dict(record.at_once) == {"inside": 1}


def test_a_service_that_follows_makes_forecasts_of_its_own(tmp_path):
    site = Site(tmp_path)
    follower = site.client.app.state.follower
    follower.look()
    follower.forecast_if_due()
    assert {"1", "3"} <= set(follower.record.open)


def test_the_dashboard_asks_only_for_metrics_and_labels_that_there_are(site):
    site.metrics()
    site.goes_on([running(2, "n1", 1, ran_s=-30.0), *(one for one in JOBS if one.id != 2)])
    labels = {}
    for name, having in site.metrics():
        labels.setdefault(name, set()).update(key for key, _ in having)
    told = json.loads((resources.files("rltune") / "deploy" / "grafana-dashboard.json").read_text())
    panels = told["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) >= 14
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    for target in (target for panel in panels for target in panel["targets"]):
        names = re.findall(r"rltune_\w+", target["expr"])
        assert names
        asked = {word for found in re.findall(r"by \(([^)]*)\)", target["expr"]) for word in re.findall(r"\w+", found)}
        asked |= set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        for name in names:
            assert name in labels, name
            assert asked <= labels[name], name
