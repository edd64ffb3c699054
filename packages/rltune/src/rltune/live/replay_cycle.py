"""A recorded decision, made again from what was recorded."""

from __future__ import annotations

from dataclasses import dataclass

from rltune.engine.search import ROLLOUTS
from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.live.control_settings import ControlSettings
from rltune.live.decide.decide import Known, Situation, decide
from rltune.live.decide.decision import Decision
from rltune.live.decide.pinned import Pinned
from rltune.live.journal.packing import (
    pack_decision,
    unpack_decision,
    unpack_estimates,
    unpack_holdings,
    unpack_snapshot,
)
from rltune.live.journal.store import ControllerRun, CycleRecord, Journal
from rltune.live.pinned_pipeline import pin_policy
from rltune.live.provenance import run_of
from rltune.placement.solver_work import GIVEN_UP


@dataclass(frozen=True)
class ReplayedCycle:
    """What a replay came to."""

    cycle: int
    same: bool  # every byte
    recorded: Decision
    made: Decision
    notes: tuple[str, ...]  # what differs of the circumstances

    @property
    def differing(self) -> tuple[int, ...]:
        """Name the jobs whose part of the decision is another."""
        was = self.recorded.by_job
        return tuple(w.job for w in self.made.waiting if repr(was.get(w.job)) != repr(w))


@dataclass(frozen=True)
class RecalledCycle:
    """All that a recorded decision was made from."""

    record: CycleRecord
    run: ControllerRun
    situation: Situation
    settings: ControlSettings
    pinned: Pinned
    known: Known

    @property
    def recorded(self) -> Decision:
        """Return the decision as it was made then."""
        return unpack_decision(self.record.decision)


def recall(journal: Journal, number: int) -> RecalledCycle:
    """Return what was seen in a cycle, and the policy, settings, estimates and history of then."""
    cycle = journal.cycle(number)
    run = journal.run(cycle.run)
    settings = ControlSettings.model_validate_json(run.settings)
    situation = Situation(unpack_snapshot(cycle.snapshot), unpack_holdings(cycle.holdings))
    work = unpack_decision(cycle.decision).work
    known = Known(
        history=_history(journal, cycle, settings),
        estimates=unpack_estimates(cycle.estimates),
        rollouts=int(work.get(ROLLOUTS, 0)),
        given_up=tuple(work.get(GIVEN_UP, ())),
    )
    return RecalledCycle(cycle, run, situation, settings, _pinned(journal, run, settings), known)


def replay(journal: Journal, number: int) -> ReplayedCycle:
    """Decide again on what was seen then, by the policy, settings, estimates and history of then."""
    was = recall(journal, number)
    made = decide(was.situation, was.settings, was.pinned, was.known)
    same = pack_decision(made) == was.record.decision
    return ReplayedCycle(was.record.id, same, was.recorded, made, _differences(was.run, was.settings, was.pinned))


def _history(journal: Journal, cycle: CycleRecord, settings: ControlSettings) -> Jobs | None:
    most = settings.advanced.journal.history_jobs
    return journal.history(most, until=cycle.history) if cycle.history else None


def _pinned(journal: Journal, run: ControllerRun, settings: ControlSettings) -> Pinned:
    """Take the policy as it was: by the journal's copy of its file, or by the file if it is still the same."""
    if not run.policy:
        return pin_policy(settings)
    needed = f"policy {settings.pipeline.policy}: the one of then has sha256 {run.policy}"
    try:
        pinned = pin_policy(settings, journal.policy_text(run.policy))
    except InputError as error:
        raise InputError(f"{needed}; {error}") from None
    if pinned.sha256 != run.policy:
        raise InputError(f"{needed}, and it is another one now ({pinned.sha256[:12]}...)")
    return pinned


def _differences(run: ControllerRun, settings: ControlSettings, pinned: Pinned) -> tuple[str, ...]:
    now = run_of(settings, pinned, 0.0)
    notes = []
    if run.version != now.version:
        notes.append(f"recorded by rltune {run.version}, replayed by {now.version}")
    if run.code != now.code:
        notes.append("the core's source is not the one of then")
    return tuple(notes)
