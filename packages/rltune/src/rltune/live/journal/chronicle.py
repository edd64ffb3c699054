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
    _waited: dict[int, int] = field(default_factory=dict)  # job: Slurm's own priority
    _acted: dict[int, float] = field(default_factory=dict)  # job, or array: since when it has something of ours
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
            self._waited[job.id] = job.priority
            if not holdings.of(job):
                self._acted.pop(job.id, None)
        self.act(holdings, snapshot.taken_s)
        new = [job for job in snapshot.jobs if ran(job) and (job.id, job.start_s) not in self._done]
        ended = [Ended(job, self._waited.get(job.id, job.priority), self._was_acted_on(job)) for job in new]
        self._done = {(job.id, job.start_s) for job in snapshot.jobs if job.ended}
        known = snapshot.job_by_id.keys() | {job.array_id for job in snapshot.jobs}
        self._waited = {job: priority for job, priority in self._waited.items() if job in known}
        self._acted = {job: at_s for job, at_s in self._acted.items() if job in known}
        return ended

    def act(self, holdings: Holdings, at_s: float) -> None:
        """Remember whose jobs have something of ours: one may start and end before the next look."""
        for job in holdings.by_job:
            self._acted.setdefault(job, at_s)

    def _was_acted_on(self, job: LiveJob) -> bool:
        """Return whether a job, or the array it has left, was ours when it started; starts are told by the second."""
        return any(self._acted.get(known, math.inf) - 1 < job.start_s for known in (job.id, job.array_id))


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
    # since when it is owed moves with its estimate, cycle by cycle: that alone is not told again
    return (
        f"{part.reason} {part.kept} {'owed' if owed else ''}",
        f"waits: {part.reason}; {place}{when}{untouched_because}",
    )


def _not_waiting(job: LiveJob) -> tuple[str, str]:
    if job.on_nodes:
        waited = job.start_s - job.submit_s
        return f"runs {job.start_s}", f"runs on {','.join(job.node_names)}, started after {waited:.0f} s"
    if not job.ended:
        return job.state, f"is {job.state.lower()}"
    ran_s = job.end_s - job.start_s
    how = "before it ran" if math.isnan(ran_s) else f"after {ran_s:.0f} s of running"
    return f"ended {job.end_s}", f"ended: {job.state.lower()}, {how}"


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ")
