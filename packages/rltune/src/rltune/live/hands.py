"""The controller's hands: every change is noted in Slurm and in the journal before it is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rltune.live.act.displacing import refusal, requeues
from rltune.live.act.notices import notices
from rltune.live.act.state_machine import Brain, ChangesMade, Tell
from rltune.live.clock import Clock
from rltune.live.cycle_report import CycleReport
from rltune.live.decide.decision import Displacement
from rltune.live.give_back import NOWHERE, GiveBack, GivenBack
from rltune.live.holder import this_process
from rltune.live.journal.given_back import note_given_back
from rltune.live.journal.store import Journal, JournalError, Note
from rltune.live.keeper import Keeper, as_of
from rltune.live.prometheus import Metrics
from rltune.live.see.backend import Backend, BackendError, ChangeOutcome
from rltune.live.see.holdings import Intent
from rltune.live.see.ownership import claims_of

Say = Callable[[str], None]


@dataclass
class Hands:
    """Writes to the cluster, to the journal and to the operator."""

    backend: Backend
    journal: Journal
    brain: Brain
    clock: Clock
    metrics: Metrics
    say: Say = lambda _: None
    keeper: Keeper | None = None  # of the record in Slurm; without it nothing is kept there
    unnoted: str = ""  # why the last changes were not made
    _mute: bool = False  # Slurm does not let us tell users

    def make(self, intents: tuple[Intent, ...], report: CycleReport) -> tuple[ChangeOutcome, ...] | None:
        """Note changes, make them, note what became of them, and return it; None if nobody knows.

        What cannot be noted is only ever given back.
        """
        ids: list[int] = []
        intents = self._recorded(intents)
        try:
            with self.journal.at_once():
                ids = self.journal.intend(report.cycle, intents, self.clock.now_s())
        except JournalError:
            intents = tuple(intent for intent in intents if intent.undo)
        outcomes: tuple[ChangeOutcome, ...] | None
        try:
            outcomes = self.backend.apply([intent.change for intent in intents])
        except BackendError as error:
            outcomes = None
            self.tell(Tell("unreachable", f"changes may or may not have been made: {error}"), report)
        self.brain.on(ChangesMade(intents, outcomes))
        if outcomes is not None:
            if ids:
                self._note_outcomes(ids, outcomes)
            self._count(outcomes, report)
            self._tell_users(outcomes, report)
        return outcomes

    def _recorded(self, intents: tuple[Intent, ...]) -> tuple[Intent, ...]:
        """Record in Slurm what will be ours, and return what may then be done: without that only giving back."""
        self.unnoted = ""
        if self.keeper is None or all(intent.undo for intent in intents):
            return intents
        look = self.brain.last
        assert look is not None, "nothing is changed before the first look"
        try:
            claims = claims_of(self.brain.holdings, intents)
            self.keeper.note(claims, as_of(look.snapshot), look.snapshot.taken_s)
        except BackendError as error:
            self.unnoted = f"the record in Slurm cannot be written: {error}"
            return tuple(intent for intent in intents if intent.undo)
        return intents

    def displace(self, turns: Sequence[Displacement], report: CycleReport) -> None:
        """Look again, and let those give way of whom all is as it was decided on; every turn is noted first."""
        try:
            snapshot = self.backend.observe()
        except BackendError as error:
            self.tell(Tell("unreachable", f"nobody was made to give way: {error}"), report)
            return
        for turn in turns:
            problem = refusal(turn, snapshot, self.brain.settings)
            if problem:
                self.tell(Tell("preempt", f"not done, for {problem}: {turn}"), report)
                continue
            try:
                with self.journal.at_once():
                    begun = self.journal.add_turn(report.cycle, turn, snapshot.taken_s)
            except JournalError:
                return  # what cannot be noted is not done
            self.brain.turns.open.append(begun)
            report.gave_way += len(turn.victims)
            outcomes = self.make(requeues(turn, snapshot), report)
            if outcomes is not None and not any(outcome.done for outcome in outcomes):
                self.brain.turns.open.remove(begun)
                self.journal.end_turn(begun.id, f"refused: {outcomes[0].error}", math.nan, self.clock.now_s())

    def note_differences(self, causes: Mapping[int, str], report: CycleReport) -> None:
        """Keep and count why jobs do not have what was meant for them."""
        for cause in causes.values():
            self.metrics.differs(str(cause))
        notes = [Note(job, f"does not have what was meant for it: {cause}") for job, cause in causes.items()]
        with suppress(JournalError), self.journal.at_once():
            self.journal.add_notes(report.cycle, notes, self.clock.now_s())

    def _tell_users(self, outcomes: Sequence[ChangeOutcome], report: CycleReport) -> None:
        """Write to AdminComment who moved a job and why; an account that may not says so once, and no more."""
        look, meant = self.brain.last, self.brain.meant
        settings = self.brain.settings
        if not settings.tell_users or self._mute or look is None or meant is None:
            return
        made = (outcome.change for outcome in outcomes if outcome.done)
        by, who = settings.pipeline.policy, this_process().host
        changes = notices(made, meant, look.snapshot, by, report.cycle, who)
        try:
            answers = self.backend.apply(changes)
        except BackendError:
            return  # nothing depends on it
        if answers and not any(answer.done for answer in answers):
            self._mute = True
            self.tell(Tell("admin-comment", f"users are not told: {answers[0].error}; it needs Administrator"), report)

    def _note_outcomes(self, ids: Sequence[int], outcomes: Sequence[ChangeOutcome]) -> None:
        errors = ((i, outcome.error) for i, outcome in zip(ids, outcomes, strict=True))
        with suppress(JournalError), self.journal.at_once():  # unnoted, a change counts as made
            self.journal.add_outcomes(errors, self.clock.now_s())

    def give_back(self) -> GivenBack:
        """Restore everything that was changed, and cancel the record. No policy is asked; the journal is told after."""
        partitions = self.keeper.partitions if self.keeper else NOWHERE
        me = self.keeper.me if self.keeper else this_process()
        given = GiveBack(self.backend, partitions=partitions, me=me)(self.brain.holdings)
        self.brain.holdings = given.held
        if self.keeper and given.all_back:
            self.keeper.forget()
        report = CycleReport()
        with suppress(JournalError):
            note_given_back(self.journal, given, self.clock.now_s())
        self._count(given.outcomes, report)
        self.tell(Tell("release", str(given)), report)
        return given

    def tell(self, tell: Tell, report: CycleReport) -> None:
        """Note and say something that is no job's."""
        report.events.append(tell.text)
        with suppress(JournalError):  # said all the same
            self.journal.add_event(tell.kind, tell.text, self.clock.now_s())
        self.metrics.event(tell.kind)
        self.say(f"{tell.kind}: {tell.text}")

    def _count(self, outcomes: Sequence[ChangeOutcome], report: CycleReport) -> None:
        for outcome in outcomes:
            report.changes += outcome.done
            report.refused += not outcome.done
            self.metrics.change(outcome.change.kind.value, "done" if outcome.done else "refused")
