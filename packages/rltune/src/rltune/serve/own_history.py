"""Orders compared on the jobs that this cluster has run: the replay of `rltune journal report`, with more orders."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from rltune.engine.parse_pipeline import read_pipeline
from rltune.errors import InputError
from rltune.live.decide.replayed_queue import SLURMS, ReplayedQueue
from rltune.live.gain_watch import queue_of
from rltune.live.replay_cycle import recall
from rltune.metrics.distribution import Distribution
from rltune.serve.sight import Watch
from rltune.shadow import ShadowReport, shadow_report
from rltune.trials.intervals import Interval, over_jobs, ratio

RULES = ("fcfs", "sjf", "saf", "wfp3", "multifactor")
FEWEST = 100  # ended jobs
CONFIDENCE = 0.95
_GROWN = 1.1  # times as many ended jobs as were compared
_LEAST_S = 60.0  # between two comparisons, by this machine's clock


@dataclass(frozen=True)
class OrderTried:
    """One order, and how long the same jobs waited in it."""

    name: str
    waits: Distribution
    ratio: Interval | None = None  # of the mean wait over that in Slurm's order; None: it is that
    ours: bool = False  # the controller has it


@dataclass(frozen=True)
class ComparedHistory:
    """What there is to show: a comparison, or why there is none yet."""

    ended: int
    report: ShadowReport | None = None
    orders: tuple[OrderTried, ...] = field(default=(), repr=False)
    error: str = ""
    working: bool = False

    def order(self, policy: str) -> OrderTried | None:
        """Return what is known of a policy's order."""
        return next((one for one in self.orders if one.name == policy and one.ratio is not None), None)


class OwnHistory:
    """Compares in a thread of its own when somebody looks, again when the history has grown."""

    def __init__(self, watch: Watch, clock: Callable[[], float] = time.monotonic) -> None:
        self._watch, self._clock = watch, clock
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._shown = ComparedHistory(0)
        self._begun_s = -_LEAST_S

    def newest(self) -> ComparedHistory:
        """Return the newest comparison; begin another if there is more to compare."""
        with self._watch.journal() as journal:
            ended = int(journal.rows("SELECT count(*) FROM ended")[0][0])
        with self._lock:
            if ended >= FEWEST and ended >= _GROWN * self._shown.ended and self._is_idle():
                self._begun_s = self._clock()
                self._thread = threading.Thread(target=self._compare, args=(ended,), name="compare", daemon=True)
                self._thread.start()
            working = self._thread is not None and self._thread.is_alive()
            return replace(self._shown, working=working, ended=self._shown.ended or ended)

    def at_hand(self) -> ComparedHistory:
        """Return the newest comparison; begin none."""
        return self._shown

    def wait(self) -> ComparedHistory:
        """Wait for the comparison that goes on, if one does."""
        if self._thread is not None:
            self._thread.join()
        return self._shown

    def _is_idle(self) -> bool:
        going_on = self._thread is not None and self._thread.is_alive()
        return not going_on and self._clock() - self._begun_s >= _LEAST_S

    def _compare(self, ended: int) -> None:
        """Compare; a mistake of the journal's is told on the page, and one of ours in the log as well."""
        failed = "it failed; the log of the service says why"
        try:
            self._shown = replace(self._made(), ended=ended)
            failed = ""
        except InputError as error:
            failed = str(error)
        finally:
            if failed:
                self._shown = ComparedHistory(ended, error=failed)

    def _made(self) -> ComparedHistory:
        with self._watch.own_journal() as journal:
            report = shadow_report(journal, stories=0)
            was = recall(journal, 0)
            most = was.settings.advanced.journal.history_jobs
            estimates = dict(was.known.estimates or {})
            queue = queue_of(journal, was.situation.bare, estimates, was.settings, was.pinned, most)
        orders = _orders(queue, report, was.settings.pipeline.policy)
        return ComparedHistory(0, report, orders)


def _orders(queue: ReplayedQueue, report: ShadowReport, own: str) -> tuple[OrderTried, ...]:
    """Return every order, Slurm's and the controller's as the report has them; shortest mean wait first."""
    made = [
        OrderTried(SLURMS, report.slurm),
        OrderTried(own, report.ours, report.ratio, ours=True),
    ]
    slurm_s = queue.waits_s(queue.slurms)
    for name in RULES:
        if name == own:
            continue
        waits = queue.waits_s(queue.rule(read_pipeline(name)))
        kept = queue.counts & np.isfinite(slurm_s) & np.isfinite(waits)
        against = over_jobs(waits[kept], slurm_s[kept], queue.ready_s[kept], ratio, confidence=CONFIDENCE)
        made.append(OrderTried(name, Distribution.of(waits[kept]), against))
    return tuple(sorted(made, key=lambda one: one.waits.mean))
