"""The controller's hands: every change is noted before it is made and after. Giving back needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rltune.live.act.displacing import refusal, requeues
from rltune.live.act.state_machine import Brain, ChangesMade, Tell
from rltune.live.clock import Clock
from rltune.live.cycle_report import CycleReport
from rltune.live.decide.decision import Displacement
from rltune.live.journal.store import Journal, JournalError
from rltune.live.prometheus import Metrics
from rltune.live.see.backend import Backend, BackendError, ChangeOutcome
from rltune.live.see.holdings import Intent

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

    def make(self, intents: tuple[Intent, ...], report: CycleReport) -> tuple[ChangeOutcome, ...] | None:
        """Note changes, make them, note what became of them, and return it; None if nobody knows.

        What cannot be noted is only ever given back.
        """
        ids: list[int] = []
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
        return outcomes

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

    def _note_outcomes(self, ids: Sequence[int], outcomes: Sequence[ChangeOutcome]) -> None:
        errors = ((i, outcome.error) for i, outcome in zip(ids, outcomes, strict=True))
        with suppress(JournalError), self.journal.at_once():  # unnoted, a change counts as made
            self.journal.add_outcomes(errors, self.clock.now_s())

    def give_back(self) -> int:
        """Restore everything that was changed; return how many jobs could not be. No policy is asked."""
        snapshot = self.backend.observe()
        plan = self.brain.let_go(snapshot)
        report = CycleReport(cycle=self.journal.last_cycle())
        if plan.intents:
            self.make(plan.intents, report)
        left = sum(bool(self.brain.holdings.of(job)) for job in snapshot.pending)
        self.tell(Tell("release", f"{report.changes} changes given back, {left} jobs left as they are"), report)
        return left

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
