"""A time in shadow: what happened, what would have in the policy's order, for whom, and how the controller did.

The jobs of the journal are replayed twice on the same machine, in Slurm's order and in the policy's. The gain is the
ratio of the two; what a replay in Slurm's order comes to stands beside what was observed, so that a reader can see how
near it is. A wait counts from when a job could start. One that is not over is counted as far as it has come, in what
was observed and in both replays, so that no side is better off for not having started somebody
(live/decide/replayed_queue.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError
from rltune.jobs import Floats
from rltune.live.decide.gain import FEWEST
from rltune.live.decide.replayed_queue import Seen
from rltune.live.decide.run_times import like_history, limit_of
from rltune.live.gain_watch import queue_of
from rltune.live.journal.store import Journal
from rltune.live.journal.story import Line, story
from rltune.live.replay_cycle import recall
from rltune.live.see.snapshot import LiveJob
from rltune.metrics.distribution import Distribution
from rltune.metrics.recorded import far_apart
from rltune.shadow.watch_kept import WatchKept, watch_kept
from rltune.trials.intervals import Interval, difference, over_jobs, ratio
from rltune.trials.shares import Share, SmallGroup, shares_between, small_groups

CONFIDENCE = 0.95
MOST_STORIES = 3  # of jobs that gain, and as many that lose
WORTH_S = 60.0  # of a difference, or else it is no story
LINES_A_STORY = 6


@dataclass(frozen=True)
class StoryOfJob:
    """A job to which the order mattered: its waits, and what the journal says of it."""

    job: int
    user: str
    gpus: int
    observed_s: float
    slurm_s: float  # replayed in Slurm's order
    our_s: float
    lines: tuple[Line, ...]

    @property
    def gained_s(self) -> float:
        """Return by how much sooner it would have started."""
        return self.slurm_s - self.our_s


@dataclass(frozen=True)
class ReplayedJobs:
    """The jobs that count, one row each: when they could start, their GPUs and run times, and their waits."""

    ready_s: Floats
    gpus: NDArray[np.int64]
    run_s: Floats
    observed_s: Floats
    slurm_s: Floats
    our_s: Floats


@dataclass(frozen=True)
class ShadowReport:
    """What a journal tells of a time in shadow; waits are in seconds from when a job could start."""

    begin_s: float
    end_s: float
    policy: str
    jobs: int  # that became ready in this time and were replayed
    unended: int  # of these still ran or waited at its end
    left_out: int  # could not be replayed
    observed: Distribution
    slurm: Distribution  # replayed in Slurm's order
    ours: Distribution
    ratio: Interval  # of the mean waits, ours over Slurm's
    difference: Interval
    shares: tuple[Share, ...]  # mean waits by size, user and partition: Slurm's order, ours
    small: tuple[SmallGroup, ...]  # groups of too few jobs for a share
    stories: tuple[StoryOfJob, ...]
    watch: WatchKept
    rows: ReplayedJobs = field(repr=False)
    gpus: int  # of the cluster
    notes: tuple[str, ...] = ()

    @property
    def expected_s(self) -> float:
        """Return the mean wait to be expected: what was observed, times the ratio of the replays."""
        return self.observed.mean * self.ratio.estimate

    @property
    def is_near(self) -> bool:
        """Return whether the replay in Slurm's order comes near what was observed."""
        return not far_apart(self.slurm.mean, self.observed.mean)


def shadow_report(journal: Journal, since_s: float = -np.inf, stories: int = MOST_STORIES) -> ShadowReport:
    """Sum a journal up, from a time on if told."""
    last = recall(journal, 0)
    snapshot, settings = last.situation.bare, last.settings
    estimates = dict(last.known.estimates or {})
    most = settings.advanced.journal.history_jobs
    queue = queue_of(journal, snapshot, estimates, settings, last.pinned, most, since_s)
    if queue.counts.sum() < FEWEST:
        few = f"{int(queue.counts.sum())} jobs came since its first cycle"
        raise InputError(f"{journal.path}: {few}; a report needs {FEWEST}")
    slurm_s, our_s = queue.waits_s(queue.slurms), queue.waits_s(queue.ours)
    kept = np.flatnonzero(queue.counts & np.isfinite(slurm_s) & np.isfinite(our_s))
    if len(kept) < FEWEST:
        raise InputError(f"{journal.path}: only {len(kept)} of its jobs could be replayed on the nodes that it shows")
    seen = queue.seen
    rows = ReplayedJobs(
        queue.ready_s[kept],
        np.array([seen[row].job.gpus for row in kept.tolist()], dtype=np.int64),
        np.array([seen[row].duration_s for row in kept.tolist()]),
        *(waits[kept] for waits in (queue.observed_s, slurm_s, our_s)),
    )
    table = like_history([one.job for one in seen], np.array([limit_of(one.job, snapshot) for one in seen]), 0.0)
    return ShadowReport(
        begin_s=queue.begin_s,
        end_s=snapshot.taken_s,
        policy=settings.pipeline.policy,
        jobs=len(kept),
        unended=sum(not seen[row].job.ended for row in kept.tolist()),
        left_out=int(queue.counts.sum()) - len(kept),
        observed=Distribution.of(rows.observed_s),
        slurm=Distribution.of(rows.slurm_s),
        ours=Distribution.of(rows.our_s),
        ratio=over_jobs(rows.our_s, rows.slurm_s, rows.ready_s, ratio, confidence=CONFIDENCE),
        difference=over_jobs(rows.our_s, rows.slurm_s, rows.ready_s, difference, confidence=CONFIDENCE),
        shares=shares_between(table, slurm_s, our_s, kept),
        small=small_groups(table, kept),
        stories=_stories(journal, [seen[row] for row in kept.tolist()], rows, stories),
        watch=watch_kept(journal, queue.begin_s),
        rows=rows,
        gpus=sum(node.gpus for node in snapshot.nodes),
        notes=_notes(journal, queue.begin_s, queue.backfill),
    )


def _stories(journal: Journal, seen: Sequence[Seen], waits: ReplayedJobs, most: int) -> tuple[StoryOfJob, ...]:
    """Return the jobs that gain and lose most, each with the first lines that the journal has on it."""
    gained = waits.slurm_s - waits.our_s
    apart = [far_apart(*pair) for pair in zip(waits.slurm_s.tolist(), waits.observed_s.tolist(), strict=True)]
    gained[np.array(apart)] = 0.0  # where the replay is far from what was seen, the story would be the replay's
    order = np.argsort(-gained, kind="stable")
    ends = dict.fromkeys([*order[:most].tolist(), *order[len(order) - most :][::-1].tolist()])
    rows = [row for row in ends if abs(gained[row]) >= WORTH_S]
    return tuple(
        StoryOfJob(
            job=seen[row].job.id,
            user=seen[row].job.user,
            gpus=seen[row].job.gpus,
            observed_s=float(waits.observed_s[row]),
            slurm_s=float(waits.slurm_s[row]),
            our_s=float(waits.our_s[row]),
            lines=_lines(journal, seen[row].job),
        )
        for row in rows
    )


def _lines(journal: Journal, job: LiveJob) -> tuple[Line, ...]:
    try:
        told = story(journal, job.id, job)
    except InputError:  # its cycles were pruned
        return ()
    return tuple(told[:LINES_A_STORY])


def _notes(journal: Journal, begin_s: float, backfill: str) -> tuple[str, ...]:
    acting, cycles = journal.rows("SELECT coalesce(sum(acting), 0), count(*) FROM cycle WHERE taken_s >= ?", begin_s)[0]
    told = [f"both replays go on from what ran and waited at the first look, and backfill by {backfill}"]
    if acting:
        told.append(f"in {acting:,} of {cycles:,} cycles the controller acted, so what was seen is partly its doing")
    policies = journal.rows("SELECT count(DISTINCT policy) FROM run WHERE id IN (SELECT run FROM cycle)")[0][0]
    if policies > 1:
        told.append(f"the journal has {policies} policies; all of it is replayed under the last one")
    return tuple(told)
