"""The controller's judgement as a state machine: events in, instructions out. No clock, no files, no cluster in here.

A cycle is `Looked` or `LookFailed`; then, if asked to `Decide`, `Decided` or `DecideFailed`; then, if asked to `Make`
changes, `ChangesMade` and `ReadBack`. `Unwell` may come at any time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rltune.live.act.changes import ChangePlan, lifted, plan, release
from rltune.live.act.displacing import Settled, TurnsInHand, requeues
from rltune.live.act.read_back import Cause, read_back
from rltune.live.control_settings import ControlSettings, Mode
from rltune.live.decide.decide import Situation
from rltune.live.decide.decision import Decision, Displacement
from rltune.live.see.backend import ChangeKind, ChangeOutcome
from rltune.live.see.drift import drifted, is_in_effect
from rltune.live.see.health import Look, problems, too_many_refused, too_much_meddling, too_slow
from rltune.live.see.holdings import Holdings, Intent
from rltune.live.see.snapshot import PriorityParts, Snapshot

_DAY_S = 86_400.0
_NO_RIGHTS = ("permission denied", "Invalid user id")  # Slurm's words


@dataclass(frozen=True)
class Looked:
    """The cluster was read."""

    look: Look


@dataclass(frozen=True)
class LookFailed:
    """The cluster could not be read."""

    error: str
    elapsed_s: float


@dataclass(frozen=True)
class Decided:
    """The core has decided on the last look."""

    decision: Decision
    seconds: float


@dataclass(frozen=True)
class ChangesMade:
    """Changes were made, or refused; without outcomes nobody knows."""

    intents: tuple[Intent, ...]
    outcomes: tuple[ChangeOutcome, ...] | None


@dataclass(frozen=True)
class DecideFailed:
    """The core could not decide on the last look: the policy raised, or gave what is no order."""

    error: str


@dataclass(frozen=True)
class ReadBack:
    """What Slurm holds of priorities after changes were made."""

    held: Mapping[int, PriorityParts]


@dataclass(frozen=True)
class Unwell:
    """Something is wrong that no look at the cluster shows: notes are lost, cycles overrun, a file was swapped."""

    reason: str


@dataclass(frozen=True)
class Compared:
    """The canary's jobs were found to do worse than the others."""

    verdict: str


Event = Looked | LookFailed | Decided | DecideFailed | ChangesMade | ReadBack | Unwell | Compared


@dataclass(frozen=True)
class Decide:
    """Let the core decide on this."""

    situation: Situation


@dataclass(frozen=True)
class Make:
    """Make these changes, after noting them."""

    intents: tuple[Intent, ...]


@dataclass(frozen=True)
class Advise:
    """Show the operator which changes would be made."""

    intents: tuple[Intent, ...]


@dataclass(frozen=True)
class Displace:
    """Let these running jobs give way, after another look."""

    turns: tuple[Displacement, ...]


@dataclass(frozen=True)
class Settle:
    """Note what became of turns."""

    turns: tuple[Settled, ...]


@dataclass(frozen=True)
class Close:
    """Note that these jobs will never wait again."""

    jobs: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Tell:
    """Note and say something that is no job's."""

    kind: str
    text: str


@dataclass(frozen=True)
class Differs:
    """Note of these jobs why Slurm does not hold what was meant."""

    causes: Mapping[int, Cause]


@dataclass(frozen=True)
class Adopt:
    """Note that this advice has been followed."""

    intents: tuple[Intent, ...]


Instruction = Decide | Make | Advise | Adopt | Close | Differs | Displace | Settle | Tell


@dataclass
class Brain:
    """What the controller knows from one cycle to the next."""

    settings: ControlSettings
    holdings: Holdings = field(default_factory=Holdings)
    advised: dict[tuple[int, ChangeKind], Intent] = field(default_factory=dict)  # and not known to be followed
    last: Look | None = None
    tripped: str = ""  # why it does not act for now
    stopped: str = ""  # why it does not act until it is started again
    powerless: str = ""  # why it can never act
    postponed: int = 0  # changes that the rate limit left for later
    turns: TurnsInHand = field(default_factory=TurnsInHand)
    paused_until_s: float = -math.inf  # by the cluster's clock: nobody gives way before
    _failures: int = 0
    _unreachable: str = ""  # what was said last of a look that failed
    _good: int = 0
    _trips: deque[float] = field(default_factory=deque)
    _warned: bool = False
    _letting_in: tuple[Intent, ...] = ()
    _meant: Decision | None = None  # what the last changes were made for
    _refused: dict[int, str] = field(default_factory=dict)  # job: why, of the last changes
    _unsure: frozenset[int] = frozenset()  # jobs of the last changes, if nobody knows whether these were made
    _disorders: int = 0  # times in a row that Slurm did not hold the order meant

    @property
    def meant(self) -> Decision | None:
        """Return what the last changes were made for."""
        return self._meant

    @property
    def acting(self) -> bool:
        """Return whether changes are made."""
        return self.settings.mode is Mode.ACT and not self.tripped and not self.stopped

    def on(self, event: Event) -> list[Instruction]:
        """Take an event in; give what is to be done."""
        match event:
            case Looked(look):
                return self._looked(look)
            case LookFailed(error, elapsed_s):
                return self._look_failed(error, elapsed_s)
            case Decided(decision, seconds):
                return self._decided(decision, seconds)
            case DecideFailed(error):
                return self._give_up(f"no decision could be made: {error}")
            case ChangesMade(intents, outcomes):
                return self._made(intents, outcomes)
            case ReadBack(held):
                return self._read_back(held)
            case Unwell(reason):
                return self._give_up(reason)
            case Compared(verdict):
                return self._stop(verdict)

    def _looked(self, look: Look) -> list[Instruction]:
        health = self.settings.advanced.health
        wrong = list(problems(self.last, look, health))
        told: list[Instruction] = []
        if not wrong:
            self.holdings.follow_requeues(look.snapshot)
            self.holdings.follow_splits(look.snapshot, self.last.snapshot if self.last else None)
            forgotten = self.holdings.forget_ended(look.snapshot)
            told += [Close(tuple(forgotten))] if forgotten else []
            told += self._adopt(look.snapshot)
            by_hand = self._reconcile(look.snapshot)
            wrong = list(too_much_meddling(by_hand, self.holdings, health))
        self.last = look
        self._failures, self._unreachable = 0, ""
        told += self._trip(wrong[0], look.elapsed_s) if wrong else self._recover()
        told += self._warn_once()
        told += self._follow_turns(look.snapshot)
        return [*told, Decide(Situation(look.snapshot, self.holdings.copy()))]

    def _look_failed(self, error: str, elapsed_s: float) -> list[Instruction]:
        self._failures += 1
        self._good = 0
        told: list[Instruction] = [] if error == self._unreachable else [Tell("unreachable", error)]
        self._unreachable = error
        if self._failures == self.settings.advanced.health.max_failures:
            told += self._trip(f"{self._failures} looks in a row failed", elapsed_s)
        return told

    def _decided(self, decision: Decision, seconds: float) -> list[Instruction]:
        assert self.last is not None, "nothing is decided before the first look"
        wrong = list(too_slow(seconds, self.settings.advanced.health))
        told = self._trip(wrong[0], self.last.elapsed_s) if wrong else []
        return told + self._changes(self.last.snapshot, decision)

    def _give_up(self, reason: str) -> list[Instruction]:
        """Trip, and give back at once what is held."""
        elapsed_s = self.last.elapsed_s if self.last else 0.0
        told = self._trip(reason, elapsed_s)
        if self.last is None or self.settings.mode is not Mode.ACT:
            return told
        return told + _making(release(self.last.snapshot, self.holdings))

    def _read_back(self, held: Mapping[int, PriorityParts]) -> list[Instruction]:
        """Compare what Slurm holds with what was meant; trip if it refuses all, or if the order is wrong for long."""
        if self._meant is None or self.last is None or not self.acting:
            return []
        exact = self.settings.advanced.numbers.exact
        found = read_back(self._meant, self.last.snapshot, held, self.holdings, self._refused, exact, self._unsure)
        differing: list[Instruction] = [Differs(found.causes)] if found.causes else []
        bearable = round(self.settings.advanced.numbers.slack * self.settings.numbers.band)
        disorder = found.is_disorder(bearable) and not self.postponed
        self._disorders = self._disorders + 1 if disorder else 0
        if not found:
            return differing
        told: list[Instruction] = [*differing, Tell("read-back", str(found))]
        refused = [job for job, cause in found.wrong.items() if cause is Cause.REFUSED]
        if refused and not len(self.holdings):
            why = f"Slurm refuses all changes: {self._refused[refused[0]]}"
            self.powerless = why if any(words in why for words in _NO_RIGHTS) else ""
            return [*told, *self._give_up(why)]
        wrong = list(too_many_refused(len(refused), self.holdings, self.settings.advanced.health))
        if wrong:
            return [*told, *self._give_up(f"{wrong[0]}: {self._refused[refused[0]]}")]
        if self._disorders >= self.settings.advanced.health.max_disorders:
            return [*told, *self._give_up(f"the order is not the one meant, {self._disorders} times in a row: {found}")]
        return told

    def _changes(self, snapshot: Snapshot, decision: Decision) -> list[Instruction]:
        if self.settings.mode is Mode.SHADOW:
            return []
        turns = self._turns_to_take(snapshot, decision)
        decision = lifted(decision, turns, snapshot, self.settings)
        wanted = plan(snapshot, decision, self.holdings, self.settings)
        if self.settings.mode is Mode.ADVISE:
            self.advised |= {(intent.change.job, intent.change.kind): intent for intent in wanted.intents}
            stops = tuple(intent for turn in turns for intent in requeues(turn, snapshot))
            return [Advise((*wanted.intents, *stops))] if wanted.intents or stops else []
        wanted = wanted if self.acting else release(snapshot, self.holdings)
        wanted = replace(wanted, intents=(*wanted.intents, *self._letting_in))
        self._meant = decision
        self.postponed = wanted.postponed
        displacing: list[Instruction] = [Displace(turns)] if turns and self.acting else []
        if not wanted.intents:  # nothing to write: this look is what Slurm holds
            self._refused, self._unsure = {}, frozenset()
            held = {job.id: parts for job in snapshot.pending if (parts := job.priority_parts)}
            return [*self._read_back(held), *displacing]
        return [*_making(wanted), *displacing]

    def _turns_to_take(self, snapshot: Snapshot, decision: Decision) -> tuple[Displacement, ...]:
        """Return which turns are begun now: none with a job that takes one already, and no more than allowed."""
        if snapshot.taken_s < self.paused_until_s:
            return ()
        room, busy = self.settings.preempt.per_cycle, set(self.turns.busy)
        taken = []
        for turn in decision.displacements:
            jobs = {turn.claimant, *(victim.job for victim in turn.victims)}
            if not jobs & busy and len(turn.victims) <= room:
                taken.append(turn)
                busy |= jobs
                room -= len(turn.victims)
        return tuple(taken)

    def _follow_turns(self, snapshot: Snapshot) -> list[Instruction]:
        """Let victims compete again once it is settled whether their nodes went to whom they were meant for."""
        preempt = self.settings.preempt
        patience_s = snapshot.kill_wait_s + preempt.patience_cycles * self.settings.cycle_s
        settled, letting_in = self.turns.look(snapshot, patience_s)
        told: list[Instruction] = [Settle(tuple(settled))] if settled else []
        self._letting_in = tuple(letting_in) if self.settings.mode is Mode.ACT else ()
        failed = next((one for one in settled if one.failed), None)
        if failed is not None:
            self.paused_until_s = snapshot.taken_s + preempt.pause
            late = f"{snapshot.taken_s - failed.turn.commanded_s:.0f} s"
            about = f"job {failed.turn.turn.claimant} has not started {late} after others gave way to it"
            told.append(Tell("preempt", f"{about}; nobody gives way for {preempt.pause:.0f} s"))
        return told

    def _made(self, intents: Sequence[Intent], outcomes: Sequence[ChangeOutcome] | None) -> list[Instruction]:
        self._refused = {o.change.job: o.error for o in outcomes or () if not o.done}
        self._unsure = frozenset(intent.change.job for intent in intents) if outcomes is None else frozenset()
        if outcomes is None:  # it may have been made: hold on to all but what was being given back
            for intent in intents:
                if not intent.undo:
                    self.holdings.take(intent)
            return []
        for intent, outcome in zip(intents, outcomes, strict=True):
            if outcome.done:
                self.holdings.take(intent)
        return []

    def _adopt(self, snapshot: Snapshot) -> list[Instruction]:
        """Take what was advised and is now so for our own: somebody followed the advice."""
        jobs = snapshot.job_by_id
        followed = [
            intent
            for intent in self.advised.values()
            if (job := jobs.get(intent.change.job)) and job.submit_s == intent.submit_s and is_in_effect(job, intent)
        ]
        for intent in followed:
            self.holdings.take(intent)
            del self.advised[intent.change.job, intent.change.kind]
        return [Adopt(tuple(followed))] if followed else []

    def _reconcile(self, snapshot: Snapshot) -> int:
        """Let go of what is not as it was set here; count the numbers that another hand has changed."""
        by_hand = 0
        for drift in drifted(snapshot, self.holdings):
            if drift.by_hand and drift.kind in {ChangeKind.SITE_FACTOR, ChangeKind.PRIORITY}:
                by_hand += 1
                self.holdings.give_up(drift.job, drift.kind)
            else:
                self.holdings.drop(drift.job.id, drift.kind)
        return by_hand

    def _trip(self, reason: str, elapsed_s: float) -> list[Instruction]:
        """Stop acting; what is held is given back when the look that follows allows it."""
        first, said = not self.tripped, self.tripped == reason
        self._good = 0
        self.tripped = reason
        if not first or self.settings.mode is not Mode.ACT:
            return [] if said else [Tell("health", reason)]
        self._trips.append(elapsed_s)
        while self._trips[0] < elapsed_s - _DAY_S:
            self._trips.popleft()
        if len(self._trips) >= self.settings.advanced.health.max_trips:
            return self._stop(f"{len(self._trips)} times in a day: {reason}")
        return [Tell("health", f"{reason}; not acting, and giving back what was changed")]

    def _recover(self) -> list[Instruction]:
        """Act again after some good looks: the more often it tripped today, the more of them."""
        self._good += 1
        pause = self.settings.advanced.health.recover_cycles << max(0, len(self._trips) - 1)
        if not self.tripped or self._good < pause:
            return []
        self.tripped = ""
        return [Tell("health", f"all is well again for {self._good} looks")]

    def _stop(self, reason: str) -> list[Instruction]:
        self.stopped = reason
        return [Tell("stopped", f"{reason}; not acting until it is started again")]

    def _warn_once(self) -> list[Instruction]:
        """Return after the first look what the operator should know."""
        if self._warned:
            return []
        self._warned = True
        told: list[Instruction] = []
        if self.settings.mode is Mode.SHADOW and len(self.holdings):
            jobs = len(self.holdings.by_job)
            told.append(
                Tell("leftovers", f"{jobs} jobs are as an earlier run left them; `rltune control --release` frees them")
            )
        return told


def _making(wanted: ChangePlan) -> list[Instruction]:
    return [Make(wanted.intents)] if wanted.intents else []
