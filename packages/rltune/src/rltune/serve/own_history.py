"""Policies compared on the jobs that this cluster has run, as the journal knows them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import read_pipeline
from rltune.engine.pipeline import Pipeline
from rltune.evaluation import Comparison, Steady, compare
from rltune.jobs import Jobs
from rltune.labels import Labels
from rltune.live.decide.gain import admission_of, lay_out_partitions
from rltune.live.decide.run_times import limit_of
from rltune.live.journal.ended import Ended, table
from rltune.live.replay_cycle import recall
from rltune.live.see.snapshot import LiveJob, Snapshot
from rltune.serve.sight import Sight, Watch

RULES = ("fcfs + easy", "sjf + easy", "saf + easy", "wfp3 + easy", "multifactor + easy")
FEWEST = 100  # ended jobs
MOST = 5000  # the newest
_GROWN = 1.1  # times as many ended jobs as were compared
_LATEST = 0.99  # of the time, so that something is measured
_LEAST_S = 60.0  # between two comparisons, by this machine's clock


@dataclass(frozen=True)
class ComparedHistory:
    """What there is to show: a comparison, or why there is none yet."""

    ended: int
    comparison: Comparison | None = None
    now: str = ""  # the label of the pipeline that the controller has
    first_s: float = 0.0  # since when the controller has looked,
    last_s: float = 0.0  # and until when
    still: int = 0  # of the jobs wait or run, with run times that are estimates
    error: str = ""
    working: bool = False


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

    def wait(self) -> ComparedHistory:
        """Wait for the comparison that goes on, if one does."""
        if self._thread is not None:
            self._thread.join()
        return self._shown

    def _is_idle(self) -> bool:
        going_on = self._thread is not None and self._thread.is_alive()
        return not going_on and self._clock() - self._begun_s >= _LEAST_S

    def _compare(self, ended: int) -> None:
        try:
            self._shown = replace(self._made(), ended=ended)
        except Exception as error:  # noqa: BLE001  a thread has nobody to raise to: the page says it
            self._shown = ComparedHistory(ended, error=str(error) or type(error).__name__)

    def _made(self) -> ComparedHistory:
        with self._watch.own_journal() as journal:
            was, ended = recall(journal, 0), journal.ended(MOST)
            first_look_s = float(journal.rows("SELECT min(taken_s) FROM cycle")[0][0])
        sight = self._watch.sight()
        alive = [_as_ended(job, sight) for job in sight.snapshot.jobs if not job.ended]
        jobs = table([_with_limit(one, sight.snapshot).row() for one in (*reversed(ended), *alive)])
        placed, cluster = _on_partitions(jobs, sight.snapshot)
        ours = replace(was.pinned.pipeline, cycle_s=0.0)
        rules = [read_pipeline(text) for text in RULES]
        lined_up: list[Pipeline | str] = [*(one for one in rules if one.label != ours.label), ours]
        made = compare(
            placed,
            cluster,
            [],
            pipelines=lined_up,
            windows=_since(first_look_s, jobs),
            estimator=was.pinned.estimator,
            baseline=RULES[0],
        )
        return ComparedHistory(0, made, ours.label, first_look_s, sight.taken_s, still=len(alive))


def _as_ended(job: LiveJob, sight: Sight) -> Ended:
    """Take a job that waits or runs to end as estimated; left out, it would count as one that never was."""
    start_s = sight.taken_s if math.isnan(job.start_s) else job.start_s
    run_s = max(sight.estimates.get(job.id, 0.0), sight.taken_s - start_s, 1.0)
    return Ended(replace(job, start_s=start_s, end_s=start_s + run_s))


def _with_limit(one: Ended, snapshot: Snapshot) -> Ended:
    """Give a job that asked for no time what its partition allows, as the controller takes it to have."""
    return replace(one, job=replace(one.job, limit_s=limit_of(one.job, snapshot)))


def _since(first_look_s: float, jobs: Jobs) -> Steady:
    """Measure what was submitted since the first look, from the jobs that ran and waited then."""
    first, last = float(jobs.submit_s[0]), float(jobs.submit_s[-1])
    share = (first_look_s - first) / (last - first) if last > first else 0.0
    return Steady(warmup=min(max(share, 0.0), _LATEST))


def _on_partitions(jobs: Jobs, snapshot: Snapshot) -> tuple[Jobs, Cluster]:
    """Return the jobs and today's nodes, both by the sets of partitions that jobs name."""
    named = [tuple(name.split(",")) if name else () for name in jobs.vc.names]
    layout = lay_out_partitions(named, snapshot)
    admitted = [admission_of(partitions, layout) for partitions in named]
    vc = Labels.of([admitted[code] if code >= 0 else None for code in jobs.vc.codes.tolist()], len(jobs))
    return jobs.with_columns(vc=vc), layout.cluster
