"""What is worked out beside the cycle from jobs that have ended: how the canary does, and what acting wins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rltune.kernel.score.slowdown import bounded_slowdown
from rltune.live.act.canary import EndedJob, Verdict, judge_canary
from rltune.live.control_settings import ControlSettings
from rltune.live.decide.gain import Gain, estimate_gain
from rltune.live.decide.pinned import Pinned
from rltune.live.decide.replayed_queue import ReplayedQueue, Seen
from rltune.live.decide.scope import left_to_slurm, out_of_scope
from rltune.live.decide.slurm_planning import slurms_backfill
from rltune.live.journal.ended import Ended
from rltune.live.journal.store import Journal
from rltune.live.see.holdings import Holdings
from rltune.live.see.snapshot import Snapshot

_COMPARED = 5000  # ended jobs at most
_BETWEEN_LOOKS = 2  # times as many jobs


@dataclass
class GainWatch:
    """Reads the journal from time to time."""

    journal: Journal
    settings: ControlSettings
    pinned: Pinned
    _next_look: int = 0  # jobs of the canary that must have ended; looking at every job would find something by chance

    def canary(self) -> Verdict | None:
        """Compare the jobs acted on with the others in scope; None if too few have ended.

        A share of jobs is compared with the others of the same time, a partition with itself before.
        """
        canary = self.settings.canary
        ended = [one for one in self.journal.ended(_COMPARED) if self._is_comparable(one)]
        acted = [one for one in ended if one.acted]
        first = min((one.job.submit_s for one in acted), default=0.0)
        others = [one for one in ended if not one.acted and (one.job.submit_s < first) == bool(canary.partition)]
        if len(acted) < self._next_look:
            return None
        test, same_time = self.settings.advanced.canary, not canary.partition
        verdict = judge_canary(_compared(acted), _compared(others), test, same_time=same_time)
        if verdict is not None:
            self._next_look = _BETWEEN_LOOKS * len(acted)
        return verdict

    def _is_comparable(self, one: Ended) -> bool:
        partition = self.settings.canary.partition
        return not out_of_scope(one.job, self.settings.scope) and (not partition or partition in one.job.partitions)

    def gain(self, snapshot: Snapshot, estimates: dict[int, float]) -> Gain | None:
        """Replay what was seen, in Slurm's order and in ours."""
        if not snapshot.nodes:
            return None
        most = self.settings.advanced.gain.jobs
        return estimate_gain(queue_of(self.journal, snapshot, estimates, self.settings, self.pinned, most))


def queue_of(
    journal: Journal,
    snapshot: Snapshot,
    estimates: Mapping[int, float],
    settings: ControlSettings,
    pinned: Pinned,
    most: int,
    since_s: float = -math.inf,
) -> ReplayedQueue:
    """Return the jobs that a journal has seen, to be replayed: at most so many that have ended, from a time on."""
    ended = journal.ended(most)
    looks = journal.rows("SELECT min(taken_s), max(waiting) FROM cycle WHERE taken_s >= ?", since_s)[0]
    first_s = snapshot.taken_s if looks[0] is None else float(looks[0])
    if len(ended) == most:  # who ended before the oldest of these is not known, but was there
        first_s = max(first_s, ended[-1].job.end_s)
    return ReplayedQueue.of(
        seen_jobs(ended, snapshot, estimates),
        snapshot,
        pinned,
        begin_s=first_s,
        cycle_s=settings.cycle_s,
        backfill=slurms_backfill(int(looks[1] or 0)),
    )


def seen_jobs(ended: Iterable[Ended], snapshot: Snapshot, estimates: Mapping[int, float]) -> list[Seen]:
    """Return the jobs that have ended, and those that run or wait in a snapshot with what is expected of them.

    Who is held, waits for others or for a time is no part of it: in no order would it have started.
    """
    seen = [Seen(e.job, e.job.end_s - e.job.start_s, e.priority) for e in ended]
    seen += [
        Seen(job, max(estimates[job.id], snapshot.taken_s - job.start_s if job.on_nodes else 0.0), job.priority)
        for job in snapshot.jobs
        if not job.ended and job.id in estimates and not (job.pending and left_to_slurm(job, snapshot, Holdings()))
    ]
    return sorted(seen, key=lambda s: (s.job.submit_s, s.job.id))


def _compared(ended: list[Ended]) -> list[EndedJob]:
    return [EndedJob(one.job.submit_s, _slowdown(one)) for one in ended]


def _slowdown(one: Ended) -> float:
    job = one.job
    return float(bounded_slowdown(job.end_s - job.ready_s, job.end_s - job.start_s))
