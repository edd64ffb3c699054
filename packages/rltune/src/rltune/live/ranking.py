"""The order in which jobs wait: the policy's among ours, Slurm's among all others, higher tiers before lower ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rltune.live.backend import Kind
from rltune.live.holdings import Holdings
from rltune.live.numbers import Runner, assign, ideals, lowest
from rltune.live.order import within_reach
from rltune.live.settings import Channel, ControlSettings
from rltune.live.snapshot import LiveJob, Snapshot

Key = tuple[float, float, int]


@dataclass(frozen=True)
class Ranking:
    """Who comes when, before and after."""

    slurm: list[int]  # all that compete, as Slurm alone has them
    order: list[int]  # as they should be
    number: dict[int, int]  # SiteFactor or Priority of ours


@dataclass(frozen=True)
class Field:
    """Jobs that compete: as they would be untouched, as they are, and how the policy scores them."""

    jobs: Sequence[LiveJob]  # untouched
    now: Mapping[int, LiveJob]  # as they are
    ours: frozenset[int]
    score: Mapping[int, float]
    holdings: Holdings
    settings: ControlSettings

    def rank(self, snapshot: Snapshot) -> Ranking:
        """Rank tier by tier: no number of ours lifts a job over one of a higher tier."""
        tiers: dict[int, list[LiveJob]] = {}
        for job in self.jobs:
            tiers.setdefault(tier_of(job, snapshot), []).append(job)
        slurm: list[int] = []
        order: list[int] = []
        number: dict[int, int] = {}
        for tier in sorted(tiers, reverse=True):
            jobs = sorted(tiers[tier], key=by_slurm)
            given = self._numbers(jobs)
            number |= given
            slurm += [job.id for job in jobs]
            order += [job.id for job in sorted(jobs, key=lambda job: self._by_height(job, given))]
        return Ranking(slurm, order, number)

    def _numbers(self, jobs: Sequence[LiveJob]) -> dict[int, int]:
        """Give our jobs of one tier their numbers."""
        home = [job for job in jobs if job.id in self.ours]
        if not home:
            return {}
        numbers, limits = self.settings.numbers, self.settings.limits
        wanted = sorted(home, key=lambda job: (self.score[job.id], job.submit_s, job.id))
        spread = zip(wanted, ideals(len(home), numbers.band, self._low(home)), strict=True)
        ideal = {job.id: number + self._theirs(job) for job, number in spread}
        own = {job.id: self._own(job) for job in home}
        by_height = [job.id for job in sorted(wanted, key=lambda job: -own[job.id] - ideal[job.id])]
        as_is = [job.id for job in sorted(home, key=lambda job: by_slurm(self.now[job.id]))]
        near = within_reach(by_height, as_is, limits.max_ranks_per_cycle)
        order = within_reach(near, [job.id for job in home], limits.max_ranks)
        runners = [Runner(job, own[job], self._set_now(self.now[job])) for job in order]
        given = assign(runners, ideal, round(numbers.slack * numbers.band))
        return given if self._adds else {job: max(1, value) for job, value in given.items()}

    @cached_property
    def _adds(self) -> bool:
        return self.settings.numbers.channel is Channel.SITE_FACTOR

    def _own(self, job: LiveJob) -> int:
        return job.priority - self._theirs(job) if self._adds else 0

    def _theirs(self, job: LiveJob) -> int:
        """Give the SiteFactor that the site itself has set: ours goes on top of it."""
        return (job.site_factor or 0) if self._adds else 0

    def _low(self, jobs: Sequence[LiveJob]) -> int:
        """Give the low end of the band, around what Slurm alone gives these jobs."""
        band = self.settings.numbers.band
        if self._adds:
            return lowest([self._own(job) for job in jobs], band)
        middle = sorted(job.priority for job in jobs)[len(jobs) // 2]
        return max(0, middle - band // 2)

    def _set_now(self, job: LiveJob) -> int | None:
        if self._adds:
            return job.site_factor
        hold = self.holdings.of(job).get(Kind.PRIORITY)
        return hold.value if hold and isinstance(hold.value, int) else None

    def _by_height(self, job: LiveJob, given: Mapping[int, int]) -> Key:
        height = self._own(job) + given[job.id] if job.id in given else job.priority
        return -height, job.submit_s, job.id


def by_slurm(job: LiveJob) -> Key:
    """Order jobs of one tier as Slurm does: by priority, then the older first."""
    return -job.priority, job.submit_s, job.id


def tier_of(job: LiveJob, snapshot: Snapshot) -> int:
    """Give the highest tier of a job's partitions."""
    known = snapshot.partition_by_name
    return max((known[name].priority_tier for name in job.partitions if name in known), default=1)
