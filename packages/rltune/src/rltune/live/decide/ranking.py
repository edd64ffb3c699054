"""The order in which jobs wait: the policy's among ours, Slurm's among all others, higher tiers before lower ones.

Ours that have a claim come before the rest of ours in their tier. Nothing of ours is lifted over a job that is not for
us to move: one out of scope, of an SLA, or whose priority a human has set.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rltune.live.control_settings import Channel, ControlSettings
from rltune.live.decide.claims import Claims
from rltune.live.decide.priority_numbers import Precision, RankedJob, apart, assign, ideals, lowest, room
from rltune.live.decide.rank_bounds import within_reach
from rltune.live.see.backend import ChangeKind
from rltune.live.see.holdings import Holdings
from rltune.live.see.snapshot import LOWEST, LiveJob, Snapshot

Key = tuple[float, float, int]
_CUSHION = 100  # the part of the band that is left free above Slurm's lowest priority


@dataclass(frozen=True)
class Ranking:
    """Who comes when, before and after."""

    slurm: list[int]  # all that compete, as Slurm alone has them
    order: list[int]  # as they should be
    number: dict[int, int]  # SiteFactor or Priority of ours


@dataclass(frozen=True)
class Field:
    """Jobs that compete: as they would be untouched, as they are, and how the core orders them."""

    jobs: Sequence[LiveJob]  # untouched
    now: Mapping[int, LiveJob]  # as they are
    ours: frozenset[int]
    place: Mapping[int, int]  # in the core's order, best first
    holdings: Holdings
    settings: ControlSettings
    claims: Claims
    fixed: frozenset[int] = frozenset()  # not ours, and not to be overtaken by whom Slurm alone has behind them

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
        """Return the numbers of our jobs of one tier."""
        home = [job for job in jobs if job.id in self.ours]
        if not home:
            return {}
        first = self._in_order(job for job in home if job.id in self.claims)
        rest = [job for job in home if job.id not in self.claims]
        ideal = self._ideals(first, rest)
        own = {job.id: self._own(job) for job in home}
        order = [job.id for job in first] + self._within_limits(rest, {i: own[i] + ideal[i] for i in ideal})
        runners = [RankedJob(job, own[job], self._set_now(self.now[job])) for job in order]
        given = assign(runners, ideal, self._precision(len(first), len(home)), self._floor)
        return self._below_fixed(jobs, order, own, given)

    def _ideals(self, first: Sequence[LiveJob], rest: Sequence[LiveJob]) -> dict[int, int]:
        """Spread numbers over the band; those who have a claim are lifted over the rest, if the band does not do it."""
        wanted = [*first, *self._in_order(rest)]
        spread = zip(wanted, ideals(len(wanted), self.settings.numbers.band, self._low(wanted)), strict=True)
        ideal = {job.id: number + self._theirs(job) for job, number in spread}
        top = max((self._own(job) + ideal[job.id] for job in rest), default=None)
        step = apart(self.settings.numbers.band, len(first)) if first else 0
        for job in reversed(first):
            height = self._own(job) + ideal[job.id]
            top = height if top is None else max(height, top + step)
            ideal[job.id] = top - self._own(job)
        return ideal

    def _within_limits(self, rest: Sequence[LiveJob], height: Mapping[int, int]) -> list[int]:
        """Order jobs by height, each no further from where it stands, and from where Slurm has it, than allowed."""
        limits = self.settings.advanced.limits
        by_height = [job.id for job in sorted(self._in_order(rest), key=lambda job: -height[job.id])]
        as_is = [job.id for job in sorted(rest, key=lambda job: by_slurm(self.now[job.id]))]
        near = within_reach(by_height, as_is, limits.max_ranks_per_cycle)
        return within_reach(near, [job.id for job in rest], limits.max_ranks)

    def _precision(self, claims: int, jobs: int) -> Precision:
        """Be exact where jobs may start soon; everywhere if ranks are bounded, since only then the bounds hold."""
        close, limits = self.settings.advanced.numbers, self.settings.advanced.limits
        bounded = limits.max_ranks or limits.max_ranks_per_cycle
        exact = len(self.jobs) if bounded else claims + close.exact
        band = self.settings.numbers.band
        return Precision(round(close.slack * band), exact, close.drift, room(band, jobs))

    def _below_fixed(
        self, jobs: Sequence[LiveJob], order: Sequence[int], own: Mapping[int, int], number: dict[int, int]
    ) -> dict[int, int]:
        """Leave every job that is not for us to move ahead of those that Slurm alone has behind it."""
        ahead = sorted(by_slurm(job) for job in jobs if job.id in self.fixed)
        if not ahead:
            return number
        lowest_ahead = {job.id: bisect_left(ahead, by_slurm(job)) for job in jobs}
        top = math.inf
        result: dict[int, int] = {}
        for job in order:
            place = lowest_ahead[job]
            top = min(top, self._just_below(-ahead[place - 1][0])) if place else top
            height = max(LOWEST, min(own[job] + number[job], top))  # below 1 Slurm knows no order
            result[job] = int(height) - own[job]
            top = min(top, height - 1) if height < own[job] + number[job] else top
        return result

    def _just_below(self, height: float) -> float:
        """Return a height below one that Slurm's own factors may lower, and not so low that no order is left."""
        return height - max(1, min(apart(self.settings.numbers.band), (height - LOWEST) // 2))

    def _in_order(self, jobs: Iterable[LiveJob]) -> list[LiveJob]:
        return sorted(jobs, key=lambda job: self.place[job.id])

    @cached_property
    def _adds(self) -> bool:
        return self.settings.numbers.channel is Channel.SITE_FACTOR

    def _own(self, job: LiveJob) -> int:
        return job.own_priority if self._adds else 0

    @property
    def _floor(self) -> int:
        """Return the least height given to anybody: so far above Slurm's lowest that what ages do not reach it."""
        return LOWEST + self.settings.numbers.band // _CUSHION

    def _theirs(self, job: LiveJob) -> int:
        """Return the SiteFactor that the site itself has set: ours goes on top of it."""
        return (job.site_factor or 0) if self._adds else 0

    def _low(self, jobs: Sequence[LiveJob]) -> int:
        """Return the low end of the band, around what Slurm alone gives these jobs."""
        band = self.settings.numbers.band
        if self._adds:
            return lowest([self._own(job) for job in jobs], band)
        middle = sorted(job.priority for job in jobs)[len(jobs) // 2]
        return max(0, middle - band // 2)

    def _set_now(self, job: LiveJob) -> int | None:
        if self._adds:
            return job.site_factor
        hold = self.holdings.of(job).get(ChangeKind.PRIORITY)
        return hold.value if hold and isinstance(hold.value, int) else None

    def _by_height(self, job: LiveJob, given: Mapping[int, int]) -> Key:
        height = self._own(job) + given[job.id] if job.id in given else job.priority
        return -height, job.submit_s, job.id


def by_slurm(job: LiveJob) -> Key:
    """Order jobs of one tier as Slurm does: by priority, then the older first."""
    return -job.priority, job.submit_s, job.id


def tier_of(job: LiveJob, snapshot: Snapshot) -> int:
    """Return the highest tier of a job's partitions."""
    known = snapshot.partition_by_name
    return max((known[name].priority_tier for name in job.partitions if name in known), default=1)
