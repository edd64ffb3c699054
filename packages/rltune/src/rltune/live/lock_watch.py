"""Whether this controller may act: it holds the lock of its partitions in Slurm, and looks at it in every cycle."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from rltune.live.act.state_machine import Brain
from rltune.live.control_settings import ControlSettings
from rltune.live.keeper import LEASE_S, Keeper, LockedError, as_of
from rltune.live.see.backend import Backend, BackendError
from rltune.live.see.ownership import EVERYWHERE, LeverError, claims_of
from rltune.live.see.snapshot import Lever, Snapshot

_CYCLES = 10  # that a lease lasts at least


def lever_of(settings: ControlSettings) -> Lever:
    """Return by which of Slurm's numbers a controller with these settings moves jobs."""
    return Lever.NICE if settings.slurm.rest else Lever.SITE_FACTOR


def keeper_of(backend: Backend, settings: ControlSettings) -> Keeper:
    """Return who keeps the record of a controller with these settings."""
    named = settings.scope.partitions
    partitions = (EVERYWHERE,) if not named or EVERYWHERE in named else named
    return Keeper(backend, partitions, max(LEASE_S, _CYCLES * settings.cycle_s))


@dataclass
class LockWatch:
    """Takes the lock before the first look, and again after it was lost."""

    keeper: Keeper
    brain: Brain
    by_force: bool = False  # take it though its holder may live; once
    _unsettled: bool = False  # what the journal knows beyond the record is not in it yet
    taken_over: bool = False  # what is changed is not for us to give back: another's, or written by another way

    def take(self) -> tuple[str, ...]:
        """Hold the lock; return what to tell of how it was got, or raise LockedError."""
        if self.keeper.lock:
            return ()
        try:
            taken = self.keeper.take(by_force=self.by_force)
        except (LockedError, LeverError):
            self.taken_over = True
            raise
        self.by_force, self._unsettled = False, True
        self.brain.holdings.add(taken.holdings)
        jobs = len(taken.holdings.by_job)
        left = (f"{jobs} jobs are as an earlier controller left them; taken over",) if jobs else ()
        return (*taken.told, *left)

    def settle(self, snapshot: Snapshot) -> None:
        """Write down once, after a look, all that is held: a journal may know of numbers that no record had."""
        if self._unsettled:
            with suppress(BackendError):  # tried again after the next look
                self.keeper.note(claims_of(self.brain.holdings), as_of(snapshot), snapshot.taken_s)
                self._unsettled = False

    def loss(self, snapshot: Snapshot) -> str:
        """Return why what is noted in Slurm is lost; "" if it is there. Raise LockedError if another has taken it."""
        self.brain.holdings.add(self.keeper.recorded(snapshot))  # before the record is written again
        lost = self.keeper.loss(snapshot)
        if not lost:
            self.keeper.renew(snapshot.taken_s)
            return ""
        self.taken_over = self.keeper.taken_over(snapshot)
        self.keeper.forget()
        if self.taken_over:
            self.brain.holdings.by_job.clear()  # the other one has our pages, and will give back by them
            raise LockedError(f"{lost}; not acting any more")
        return lost
