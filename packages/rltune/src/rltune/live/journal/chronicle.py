"""What is worth telling of a job: when it is first seen, when its reason changes, when it starts, when it ends."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from rltune.live.decide.decision import Decision, Waiting
from rltune.live.journal.ended import Ended, ran
from rltune.live.journal.store import Note
from rltune.live.see.holdings import Holdings
from rltune.live.see.snapshot import LiveJob, Snapshot


@dataclass
class Chronicle:
    """Remembers what was told last, so that a queue that stands still fills no pages."""

    _told: dict[int, str] = field(default_factory=dict)
    _waited: dict[int, tuple[int, bool]] = field(default_factory=dict)  # Slurm's own priority, whether acted on
    _done: set[tuple[int, float]] = field(default_factory=set)

    def notes(self, snapshot: Snapshot, decision: Decision) -> Iterator[Note]:
        """Return what is new of each job."""
        turns = {victim.job: turn for turn in decision.displacements for victim in turn.victims}
        for job in snapshot.jobs:
            part = decision.by_job.get(job.id)
            key, text = _waiting(part) if part else _not_waiting(job)
            if turn := turns.get(job.id):
                key, text = f"gives way to {turn.claimant}", f"should give way: {turn}"
            if self._told.get(job.id) != key:
                self._told[job.id] = key
                yield Note(job.id, text)
        self._told = {job: key for job, key in self._told.items() if job in snapshot.job_by_id}

    def ended(self, snapshot: Snapshot, holdings: Holdings) -> list[Ended]:
        """Return the jobs that were not known to have ended; the snapshot is as it would be without us."""
        for job in snapshot.pending:
            self._waited[job.id] = (job.priority, bool(holdings.of(job)))
        new = [job for job in snapshot.jobs if ran(job) and (job.id, job.start_s) not in self._done]
        self._done = {(job.id, job.start_s) for job in snapshot.jobs if job.ended}
        self._waited = {job: known for job, known in self._waited.items() if job in snapshot.job_by_id}
        return [Ended(job, *self._waited.get(job.id, (job.priority, False))) for job in new]


def _waiting(part: Waiting) -> tuple[str, str]:
    """Return what must change to be told again, and what is then told."""
    if not part.competes:
        return part.reason, f"is left to Slurm: {part.reason}"
    owed = "" if part.owed_since_s is None else f"owed its start since {_time(part.owed_since_s)}; "
    place = f"{owed}rank {part.rank + 1} (Slurm's {part.slurm_rank + 1}), score {part.score:.6g}"
    if part.starts:
        where = ",".join(part.nodes)
        return f"starts {where}", f"should start now on {where}: {place}"
    when = "" if math.isnan(part.reserved_s) else f", expected {_time(part.reserved_s)}"
    untouched_because = f"; not touched: {part.kept}" if part.kept else ""
    return f"{part.reason} {part.kept} {owed}", f"waits: {part.reason}; {place}{when}{untouched_because}"


def _not_waiting(job: LiveJob) -> tuple[str, str]:
    if job.on_nodes:
        waited = job.start_s - job.submit_s
        return f"runs {job.start_s}", f"runs on {','.join(job.node_names)}, started after {waited:.0f} s"
    if not job.ended:
        return job.state, f"is {job.state.lower()}"
    return f"ended {job.end_s}", f"ended: {job.state.lower()}, after {job.end_s - job.start_s:.0f} s of running"


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ")
