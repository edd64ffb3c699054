"""What can be counted only by watching cycle after cycle: waits of those who start, decisions, forecasts that held."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client import Counter as PrometheusCounter

from rltune.errors import InputError
from rltune.live.decide.gain import Gain
from rltune.live.journal.packing import unpack_decision
from rltune.live.journal.store import Journal
from rltune.serve.answers import Answers
from rltune.serve.forecast_record import AFTER, BEFORE, INSIDE, ForecastRecord
from rltune.serve.sight import Sight, Watch

_LOOK_EVERY_S = 1.0
FORECAST_EVERY_S = 600.0  # by the cluster's clock
_REST = 5.0  # times as long as a forecast took: the machine has more to do
_ENDING_S = 5.0  # for which a thread that ends is waited for
_MOST_CYCLES = 20  # that are read again after a pause
_DECIDE_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_FALLBACKS = ("milp_out_of_time", "milp_unpacked", "milp_unkept")  # the greedy answer was kept, or taken again


class Follower:
    """Looks at every new cycle once. A thread of its own does so while the service runs, and another forecasts.

    A forecast takes seconds, and what pages show must not grow old meanwhile.
    """

    def __init__(
        self,
        watch: Watch,
        answers: Answers,
        buckets_s: Sequence[float],
        *,
        forecasts: bool = False,
        prepare: Callable[[Sight], object] = lambda _: None,
    ) -> None:
        self._watch, self._answers, self._forecasts, self._prepare = watch, answers, forecasts, prepare
        self._cycle, self._taken_s, self._forecast_s = 0, 0.0, -math.inf
        self._event, self._rest_until, self._timer = 0, -math.inf, time.monotonic
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._logged: dict[str, str] = {}  # the last mistake of each step
        self._threads: list[threading.Thread] = []
        self.record = ForecastRecord()
        self.registry = CollectorRegistry()
        r = self.registry
        edges = (*sorted(buckets_s), math.inf)
        self._waits = Histogram(
            "rltune_wait_seconds", "Waits of the jobs that were seen to start", ["partition"], buckets=edges, registry=r
        )
        self._decide_s = Histogram("rltune_decide_seconds", "The decision of a cycle", buckets=_DECIDE_S, registry=r)
        self._solver = {
            name: PrometheusCounter(f"rltune_solver_{name}", about, registry=r)
            for name, about in (
                ("solves", "Placements that were solved"),
                ("more_starts", "Jobs that greedy placement would not have started in that pass"),
                ("fallbacks", "Solves that fell back to greedy placement, or had to be made again"),
            )
        }
        self._searched = PrometheusCounter("rltune_search_changed", "Orders that a search bettered", registry=r)
        self._gain = Gauge("rltune_gain_share", "Mean wait saved by our order, by replay of jobs seen", registry=r)
        self._starts = PrometheusCounter(
            "rltune_forecast_starts", "Starts, by where in their forecast 80 % interval", ["where"], registry=r
        )
        for where in (INSIDE, BEFORE, AFTER):
            self._starts.labels(where)
        self._covered = Gauge("rltune_forecast_covered_share", "Share of starts inside; 0.8 is meant", registry=r)
        self._error_s = Gauge("rltune_forecast_median_error_seconds", "Of the forecast p50, newest starts", registry=r)
        for gauge in (self._gain, self._covered, self._error_s):
            gauge.set(math.nan)  # nothing is known yet

    def run(self) -> None:
        """Look until stopped."""
        while not self._stop.wait(_LOOK_EVERY_S):
            self._go_on_after("refresh", lambda: self._watch.refresh(self._prepare))
            self._go_on_after("look", self.look)

    def run_forecasts(self) -> None:
        """Forecast from time to time until stopped."""
        while self._forecasts and not self._stop.wait(_LOOK_EVERY_S):
            self._go_on_after("forecast", self.forecast_if_due)

    def _go_on_after(self, name: str, step: Callable[[], None]) -> None:
        """Make a step; a mistake in it goes to the log, once while it is the same, and does not end the thread."""
        told = ""
        try:
            step()
        except Exception as error:  # else every page would show the last cycle for ever
            told = repr(error)
            if self._logged.get(name) != told and not self._stop.is_set():  # the journal closes at the end
                logging.getLogger(__name__).exception("the service goes on after a mistake (%s)", name)
        self._logged[name] = told

    def begin(self) -> None:
        """Run in threads of its own."""
        self._threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for name, run in (("follower", self.run), ("forecasts", self.run_forecasts))
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End `run`, and wait a moment for what goes on, which reads the journal."""
        self._stop.set()
        for thread in self._threads:
            thread.join(_ENDING_S)

    def look(self) -> None:
        """Count what is new. Whoever asks for metrics does so, too, so that they are never behind."""
        with self._lock:
            try:
                sight = self._watch.sight()
            except InputError:  # no cycle yet
                return
            if sight.cycle.id == self._cycle:
                return
            with self._watch.journal() as journal:
                self._count_decisions(journal, sight.cycle.id)
                self._read_gain(journal)
            self._count_starts(sight)
            self._judge_forecasts(sight)
            self._cycle, self._taken_s = sight.cycle.id, sight.taken_s

    def forecast_if_due(self) -> None:
        """Forecast if that is due, so that there is something to judge; not while a cycle cannot be explained."""
        began = self._timer()
        if self._taken_s - self._forecast_s < FORECAST_EVERY_S or began < self._rest_until:
            return
        self._forecast_s = self._taken_s
        try:
            made = self._answers.new_forecast()
        except InputError:
            made = None
        self._rest_until = began + _REST * (self._timer() - began)
        if made is not None:
            with self._lock:
                self.record.note(made)

    def _count_decisions(self, journal: Journal, newest: int) -> None:
        after = max(self._cycle, newest - _MOST_CYCLES if self._cycle else newest - 1)
        for decide_s, packed in journal.rows("SELECT decide_s, decision FROM cycle WHERE id > ? ORDER BY id", after):
            self._decide_s.observe(decide_s)
            work: Counter[str] = Counter(
                {name: value for name, value in unpack_decision(packed).work.items() if isinstance(value, int)}
            )
            self._solver["solves"].inc(work["milp_solved"])
            self._solver["more_starts"].inc(work["milp_more_starts"])
            self._solver["fallbacks"].inc(sum(work[name] for name in _FALLBACKS))
            self._searched.inc(work["search_changed"])

    def _read_gain(self, journal: Journal) -> None:
        for number, text in journal.rows("SELECT id, text FROM event WHERE id > ? AND kind = 'gain'", self._event):
            self._event = number
            share = Gain.share_told(text)
            if share is not None:
                self._gain.set(share)

    def _count_starts(self, sight: Sight) -> None:
        if not self._cycle:
            return  # who started before the first look was counted by an earlier service, or by none
        for job in sight.snapshot.jobs:
            if not job.pending and job.start_s > self._taken_s:
                self._waits.labels(",".join(job.partitions)).observe(max(0.0, job.start_s - job.came_s))

    def _judge_forecasts(self, sight: Sight) -> None:
        before = Counter(self.record.counts)
        self.record.look(sight.snapshot.jobs)
        for where, count in (self.record.counts - before).items():
            self._starts.labels(where).inc(count)
        if self.record.covered is not None and self.record.median_error_s is not None:
            self._covered.set(self.record.covered)
            self._error_s.set(self.record.median_error_s)
