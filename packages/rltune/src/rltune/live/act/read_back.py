"""Whether Slurm holds what was meant. What it holds is asked anew after every write; nothing here is remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from rltune.live.decide.decision import Decision
from rltune.live.decide.rank_bounds import longest_falling
from rltune.live.decide.ranking import by_slurm, tier_of
from rltune.live.see.backend import ChangeKind
from rltune.live.see.holdings import Hold, Holdings
from rltune.live.see.snapshot import LOWEST, LiveJob, PriorityParts, Snapshot


class Cause(StrEnum):
    """Why a job does not have what was meant for it."""

    REFUSED = "refused by Slurm"
    CLAMPED = "clamped by Slurm"
    ANOTHER_HAND = "changed by another hand"
    FACTORS = "moved by Slurm's own factors"
    STARTED = "started or ended meanwhile"
    UNSURE = "not known to have been written"


@dataclass(frozen=True)
class HeldPriorities:
    """What Slurm holds that was not meant."""

    wrong: Mapping[int, Cause] = field(default_factory=dict)  # by job
    misplaced: tuple[int, ...] = ()  # of the first places, those that stand elsewhere
    gone: tuple[int, ...] = ()  # refused, and no longer among those that wait for their turn: nothing to mend
    drift: int = 0  # by which Slurm's own factors have moved the first places apart since the look
    misnumbered: tuple[int, ...] = ()  # of the first places, those elsewhere even if no factor had moved: our mistake

    def __str__(self) -> str:
        causes = Counter(self.wrong.values())
        told = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
        jobs = ", ".join(map(str, (*self.wrong, *self.misplaced)[:5]))
        places = f"{len(self.misplaced)} of the first are not where they should be" if self.misplaced else ""
        return f"{'; '.join(filter(None, (places, told)))} (job {jobs})"

    @property
    def causes(self) -> dict[int, Cause]:
        """Return by job why it does not have what was meant for it, also where that is no trouble."""
        return {**dict.fromkeys(self.gone, Cause.STARTED), **self.wrong}

    def is_disorder(self, bearable: int) -> bool:
        """Return whether the order is wrong for another reason than that Slurm's own factors moved a little.

        Jobs of nearly the same height change places as these move, and the next cycle mends it: nothing is amiss.
        """
        moved = self.drift <= bearable and all(cause is Cause.FACTORS for cause in self.wrong.values())
        return bool(self.misplaced) and (not moved or bool(self.misnumbered))

    def __bool__(self) -> bool:
        return bool(self.wrong or self.misplaced)


def read_back(
    meant: Decision,
    snapshot: Snapshot,
    held: Mapping[int, PriorityParts],
    holdings: Holdings,
    refused: Collection[int],
    exact: int,
    unsure: Collection[int] = (),
) -> HeldPriorities:
    """Compare what Slurm holds with a decision; jobs that have started meanwhile are left out, as Slurm does.

    Of jobs that are `unsure` nobody knows whether Slurm took the last change: it did not answer in time.

    The order is compared over the first places, as many as are meant to be in order without exception.
    """
    now = {job.id: job.with_priority(held[job.id]) for job in snapshot.pending if job.id in held}
    wrong = dict(_wrong(now, holdings, refused, unsure))
    first = [w.job for w in meant.waiting if w.competes and w.job in now][:exact]
    misplaced = _misplaced(first, now, snapshot)
    moved = {job: Cause.FACTORS for job in misplaced if not wrong}
    gone = tuple(job for job in refused if job not in now)
    unmoved = {job: _at_the_look(now[job], snapshot.job_by_id[job]) for job in first}
    misnumbered = _misplaced(first, unmoved, snapshot) if moved else ()
    return HeldPriorities({**wrong, **moved}, misplaced, gone, _drift(first, now, snapshot), misnumbered)


def _misplaced(first: Sequence[int], held: Mapping[int, LiveJob], snapshot: Snapshot) -> tuple[int, ...]:
    """Return those of some jobs, in the order meant, that stand elsewhere by the numbers held."""
    by_place = sorted(first, key=lambda job: (-tier_of(held[job], snapshot), by_slurm(held[job])))
    place = {job: -i for i, job in enumerate(by_place)}
    kept = set(longest_falling([place[job] for job in first]))
    return tuple(job for i, job in enumerate(first) if i not in kept)


def _at_the_look(now: LiveJob, then: LiveJob) -> LiveJob:
    """Return a job with the number that it has now, and Slurm's own factors as they were at the look."""
    if now.priority_by_hand:
        return now
    return replace(now, priority=max(LOWEST, then.own_priority + (now.site_factor or 0)))


def _drift(jobs: Collection[int], now: Mapping[int, LiveJob], snapshot: Snapshot) -> int:
    """Return how far own priorities have moved apart since a look; what all have gained, as they do by age, is none."""
    moved = [now[job].own_priority - snapshot.job_by_id[job].own_priority for job in jobs]
    return max(moved, default=0) - min(moved, default=0)


def _wrong(
    now: Mapping[int, LiveJob], holdings: Holdings, refused: Collection[int], unsure: Collection[int]
) -> Iterator[tuple[int, Cause]]:
    for job in now.values():
        if job.id in refused:
            yield job.id, Cause.REFUSED
        elif any(_differs(job, hold) for hold in holdings.of(job).values()):
            yield job.id, Cause.UNSURE if job.id in unsure else Cause.ANOTHER_HAND
        elif holdings.of(job) and job.priority == LOWEST and job.own_priority + (job.site_factor or 0) < LOWEST:
            yield job.id, Cause.CLAMPED


def _differs(job: LiveJob, hold: Hold) -> bool:
    if hold.kind is ChangeKind.SITE_FACTOR:
        return job.site_factor != hold.value
    return hold.kind is ChangeKind.PRIORITY and not job.held and job.priority != hold.value
