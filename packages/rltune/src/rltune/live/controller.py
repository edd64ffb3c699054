"""The controller: looks, lets the core decide, notes what it is about to do, and does it. All I/O is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter

from rltune.errors import InputError, told
from rltune.live.act.canary import wider
from rltune.live.act.displacing import TurnsInHand
from rltune.live.act.means import impossible
from rltune.live.act.state_machine import (
    Adopt,
    Advise,
    Brain,
    Close,
    Compared,
    Decide,
    Decided,
    DecideFailed,
    Differs,
    Displace,
    Event,
    Looked,
    LookFailed,
    Make,
    ReadBack,
    Settle,
    Tell,
    Unwell,
)
from rltune.live.clock import Clock, SystemClock
from rltune.live.control_settings import ControlSettings, Mode
from rltune.live.cycle_report import CycleReport
from rltune.live.decide.decide import Known, Situation, decide
from rltune.live.decide.decision import Decision
from rltune.live.decide.pinned import Pinned
from rltune.live.decide.rehearse import rehearse
from rltune.live.decide.run_times import estimate
from rltune.live.ended_history import HistoryReader
from rltune.live.gain_watch import GainWatch
from rltune.live.give_back import GivenBack
from rltune.live.hands import Hands, Say
from rltune.live.journal.chronicle import Chronicle
from rltune.live.journal.packing import pack_decision, pack_estimates, pack_holdings, pack_snapshot
from rltune.live.journal.store import CycleRecord, Journal, JournalError
from rltune.live.lock_watch import LockWatch, keeper_of, lever_of
from rltune.live.pinned_pipeline import pin_pipeline
from rltune.live.policy_watch import PolicyWatch, short
from rltune.live.portfolio_watch import PortfolioWatch
from rltune.live.prometheus import Metrics
from rltune.live.provenance import run_of
from rltune.live.see.backend import Backend, BackendError
from rltune.live.see.earlier_spells import SpellBook
from rltune.live.see.health import Look
from rltune.live.see.holdings import Intent
from rltune.live.see.ownership import LeverError
from rltune.live.see.paid_tolls import Terms
from rltune.live.see.snapshot import Snapshot
from rltune.live.watchdog import Watchdog

_PRUNE_S = 3600.0
CALLS = "calls"  # the kind of event that counts Slurm's commands
_MIB = 1 << 20
_DAY_S = 86_400.0
_REMEMBERED_S = 60 * _DAY_S  # for which a job may wait or run between two spells of it
Advice = Callable[[Sequence[str]], None]


class Controller:
    """Drives one cluster, or only watches it."""

    def __init__(
        self,
        backend: Backend,
        journal: Journal,
        settings: ControlSettings,
        clock: Clock | None = None,
        *,
        pinned: Pinned | None = None,
        metrics: Metrics | None = None,
        say: Say = lambda _: None,
        advise: Advice = lambda _: None,
        take_over: bool = False,
        watchdog: Watchdog | None = None,
    ) -> None:
        self.backend, self.journal, self.settings = backend, journal, settings
        self.clock = clock or SystemClock()
        self.metrics = metrics or Metrics()
        self._say, self._advise = say, advise
        self._advice = {intent: number for number, intent in journal.advised().items()}
        known = {(intent.change.job, intent.change.kind): intent for intent in self._advice}
        held, lever = journal.holdings(), journal.lever()
        if len(held) and lever not in {None, lever_of(settings)} and settings.mode is Mode.ACT:
            raise LeverError("the journal knows of", lever)
        self.brain = Brain(settings, held, known, turns=TurnsInHand(journal.open_turns()))
        self._spells = SpellBook.of(journal.spells(self.clock.now_s() - _REMEMBERED_S))
        keeper = keeper_of(backend, settings) if settings.mode is Mode.ACT else None
        self._hands = Hands(backend, journal, self.brain, self.clock, self.metrics, say, keeper)
        self.lock = LockWatch(keeper, self.brain, by_force=take_over) if keeper else None
        self._chronicle = Chronicle()
        self._gained_s = self._pruned_s = self.clock.elapsed_s()
        self._called: dict[str, int] = {}
        self._stopping = self._reloading = False
        self._overruns = 0
        self._able = False  # it is not yet known whether this way of reaching Slurm can do all that is asked for
        self._watchdog = watchdog or Watchdog()
        self._read(pinned or pin_pipeline(settings))

    def _read(self, pinned: Pinned) -> None:
        """Decide by what was just read; a portfolio in it chooses anew."""
        self._portfolio = PortfolioWatch(self.journal, pinned)
        self._pin(pinned)

    def _pin(self, pinned: Pinned) -> None:
        """Decide by this from now on: a new run in the journal, so that every cycle is replayed by what it had."""
        self.pinned = pinned
        self._policy_watch = PolicyWatch.of(self.settings.pipeline.policy, pinned)
        self._history = HistoryReader(self.journal, pinned, self.settings.advanced.journal.history_jobs)
        self._watch = GainWatch(self.journal, self.settings, pinned)
        self._run = self.journal.begin_run(run_of(self.settings, pinned, self.clock.now_s()), pinned.text)
        self._rehearsed = False

    def run(self) -> GivenBack:
        """Go on cycle by cycle until stopped; then give back what was changed, even if something broke."""
        try:
            while not self._stopping:
                begin = self.clock.elapsed_s()
                report = self.cycle()
                if report.outcome == "ok":  # why one failed has been said, once
                    self._say(str(report))
                self._watchdog.beat(str(report))
                self._end_if_powerless()
                self._wait_until(begin + self.settings.cycle_s)
        except BaseException:
            self._let_go()
            raise
        return self._let_go()

    def _wait_until(self, elapsed_s: float) -> None:
        """Wait for the next cycle, with signs of life; a stop or a reload ends it."""
        while True:
            left_s = elapsed_s - self.clock.elapsed_s()
            self.clock.wait(min(left_s, self._watchdog.every_s))
            if self._stopping or self._reloading or left_s <= self._watchdog.every_s:
                return
            self._watchdog.beat()

    def _end_if_powerless(self) -> None:
        """Raise if Slurm lets us change nothing for want of rights: that does not get better by waiting."""
        if self.brain.powerless:
            raise InputError(f"{self.brain.powerless}; to act, the account needs AdminLevel=Operator in Slurm")

    def _let_go(self) -> GivenBack:
        self._watchdog.stopping()
        self._note_calls()
        if self.settings.mode is not Mode.ACT or (self.lock and self.lock.taken_over):
            return GivenBack()
        try:
            given = self._hands.give_back()
        except BackendError as error:
            jobs = len(self.brain.holdings.by_job)
            self._say(f"stopped; {jobs} jobs keep what was set, for {error}; run `rltune control --release` later")
            return GivenBack(left=(str(error),), held=self.brain.holdings)
        self._say("stopped; everything given back" if given.all_back else f"stopped; {given}")
        return given

    def stop(self) -> None:
        """End after the cycle at hand; may be called from a signal handler."""
        self._stopping = True
        self.clock.wake()

    def reload(self) -> None:
        """Read the policy again before the next cycle, which comes at once; may be called from a signal handler."""
        self._reloading = True
        self.clock.wake()

    def cycle(self) -> CycleReport:
        """Look, decide, act."""
        report = CycleReport()
        if self._reloading:
            self._reload(report)
        news = self._policy_watch.news()
        if news:
            self._hands.tell(Tell("policy", news), report)
        if news and self._policy_watch.differs and self.settings.mode is Mode.ACT:
            self._take(Unwell("the file of the policy was swapped"), report)
        self._rehearse(report)
        self._watchdog.ready()
        begin = perf_counter()
        try:
            self._take(self._look(report), report)
        except JournalError as error:
            self._take(Unwell(f"the journal cannot be written: {error}"), report)
        report.seconds = perf_counter() - begin
        self._judge_pace(report)
        report.acting, report.postponed = self.brain.acting, self.brain.postponed
        self._measure(report)
        return report

    def _judge_pace(self, report: CycleReport) -> None:
        """Trip if one cycle after the other takes longer than there is time for."""
        late = report.seconds > self.settings.cycle_s
        self._overruns = self._overruns + 1 if late else 0
        if self._overruns >= self.settings.advanced.health.max_overruns:
            took, most = f"{report.seconds:.0f} s", f"{self.settings.cycle_s:g} s"
            self._overruns = 0
            self._take(Unwell(f"cycles take longer ({took}) than from one look to the next ({most})"), report)

    def _rehearse(self, report: CycleReport) -> None:
        """Load compiled code, which may take a minute, before anything is looked at."""
        if self._rehearsed:
            return
        self._rehearsed = True
        try:
            rehearse(self.settings, self.pinned)
        except Exception as error:  # noqa: BLE001  a policy of the site's own may raise anything
            self._take(DecideFailed(told(error)), report)

    def _reload(self, report: CycleReport) -> None:
        self._reloading = False
        name = self.settings.pipeline.policy
        try:
            pinned = pin_pipeline(self.settings)
        except InputError as error:
            news = f"refused: {error}; still deciding by {short(self.pinned.sha256)}"
        else:
            news = f"policy {name} was read again: now deciding by {short(pinned.sha256)}"
            self._read(pinned)
        self._hands.tell(Tell("reload", news), report)

    def _choose(self, snapshot: Snapshot, report: CycleReport) -> None:
        """Let a portfolio look at what has ended; what it had taken before stays if it fails."""
        try:
            chosen = self._portfolio.choose(snapshot)
        except Exception as error:  # noqa: BLE001  no reason to stop deciding
            self._hands.tell(Tell("portfolio", f"no choice could be made: {told(error)}"), report)
            return
        if chosen is not None and chosen.sha256 != self.pinned.sha256:
            self._pin(chosen)
            self._hands.tell(Tell("portfolio", f"now deciding by {chosen.pipeline.policy.name}"), report)

    def release(self) -> int:
        """Restore everything that was changed; return how many things could not be."""
        return len(self._hands.give_back().left)

    def _look(self, report: CycleReport) -> Event:
        begin = self.clock.elapsed_s()
        try:
            self._require_means()
            if self.lock:
                for told in self.lock.take():
                    self._hands.tell(Tell("record", told), report)
                begin = self.clock.elapsed_s()
            snapshot = self.backend.observe()
            if self.lock and (lost := self.lock.loss(snapshot)):
                self.brain.last = Look(snapshot, self.clock.elapsed_s())
                return Unwell(lost)
        except BackendError as error:
            return LookFailed(str(error), self.clock.elapsed_s())
        end = self.clock.elapsed_s()
        self.journal.add_spells(self._spells.look(snapshot, self.brain.turns.commanded))
        return Looked(Look(self._spells.remembered(snapshot, Terms.of(self.settings.preempt)), end, end - begin))

    def _require_means(self) -> None:
        """Refuse once, before anything is changed, settings that cannot be followed by this way of reaching Slurm."""
        if self._able or self.settings.mode is not Mode.ACT:
            return
        if problem := impossible(self.settings, self.backend.cannot()):
            raise InputError(problem)
        self._able = True

    def _take(self, event: Event, report: CycleReport) -> None:
        """Let the brain judge an event, and do as it says."""
        if isinstance(event, LookFailed | Unwell):
            report.outcome = "failed"
        self._watchdog.beat()
        for instruction in self.brain.on(event):
            match instruction:
                case Tell():
                    self._hands.tell(instruction, report)
                case Close(jobs):
                    self.journal.close_jobs(jobs)
                case Decide(situation):
                    self._decide(situation, report)
                case Adopt(intents):
                    followed = ((self._advice.pop(intent), "") for intent in intents)
                    self.journal.add_outcomes(followed, self.clock.now_s())
                case Advise(intents):
                    self._say_advice(intents, report)
                case Make(intents):
                    self._hands.make(intents, report)
                    if self.brain.last:
                        self._chronicle.act(self.brain.holdings, self.brain.last.snapshot.taken_s)
                    if self._hands.unnoted:
                        self._take(Unwell(self._hands.unnoted), report)
                    else:
                        self._read_back(report)
                case Differs(causes):
                    self._hands.note_differences(causes, report)
                case Displace(turns):
                    self._hands.displace(turns, report)
                case Settle(settled):
                    for one in settled:
                        self.journal.end_turn(one.turn.id, one.outcome, one.freed_s, self.clock.now_s())

    def _read_back(self, report: CycleReport) -> None:
        """Ask Slurm what it holds now; a look that fails tells nothing, and the next cycle's will tell."""
        try:
            held = self.backend.priorities()
        except BackendError as error:
            self._hands.tell(Tell("unreachable", f"what was written could not be read back: {error}"), report)
            return
        self._take(ReadBack(held), report)

    def _decide(self, situation: Situation, report: CycleReport) -> None:
        if self.lock:
            self.lock.settle(situation.snapshot)
        self._choose(situation.bare, report)
        begin = perf_counter()
        history, until = self._history.at(self.clock.elapsed_s())
        try:
            estimates = estimate(situation.bare, self.pinned.estimator, history)
            decision = decide(situation, self.settings, self.pinned, Known(history, estimates), perf_counter)
        except Exception as error:  # noqa: BLE001  told, and everything is given back
            report.outcome = "failed"
            self._take(DecideFailed(told(error)), report)
            return
        report.decide_s = perf_counter() - begin
        self._record(situation, decision, estimates, until, report)
        self._compare_canary(report)
        self._estimate_gain(situation.bare, estimates, report)
        self._take(Decided(decision, report.decide_s), report)

    def _record(
        self, situation: Situation, decision: Decision, estimates: dict[int, float], until: int, report: CycleReport
    ) -> None:
        """Keep the decision and all that it came from, before anything is done."""
        snapshot, now = situation.snapshot, self.clock.now_s()
        report.waiting, report.starts = len(decision.waiting), len(decision.starts)
        cycle = CycleRecord(
            run=self._run,
            at_s=now,
            taken_s=snapshot.taken_s,
            acting=self.brain.acting,
            waiting=report.waiting,
            running=sum(job.on_nodes for job in snapshot.jobs),
            starts=report.starts,
            decide_s=report.decide_s,
            history=until,
            snapshot=pack_snapshot(snapshot),
            holdings=pack_holdings(situation.holdings),
            estimates=pack_estimates(estimates),
            decision=pack_decision(decision),
        )
        with self.journal.at_once():
            report.cycle = self.journal.add_cycle(cycle)
            self.journal.add_notes(report.cycle, self._chronicle.notes(snapshot, decision), now)
            self.journal.add_ended(self._chronicle.ended(situation.bare, situation.holdings))
        self.metrics.set(running_jobs=cycle.running)
        self._prune()

    def _say_advice(self, intents: tuple[Intent, ...], report: CycleReport) -> None:
        with self.journal.at_once():
            ids = self.journal.intend(report.cycle, intents, self.clock.now_s(), advised=True)
        self._advice |= dict(zip(intents, ids, strict=True))
        self._advise(self.backend.commands([intent.change for intent in intents]))

    def _compare_canary(self, report: CycleReport) -> None:
        """Give back if the jobs acted on do worse than the others, and act on more of them if they do not."""
        if not self.settings.canary.on or not self.brain.acting:
            return
        verdict = self._watch.canary()
        if verdict is None:
            return
        if verdict.worse:
            self._take(Compared(f"the canary is rolled back: {verdict}"), report)
        elif verdict.fine and self.settings.canary.widen:
            self._widen(report, str(verdict))
        else:
            self._hands.tell(Tell("canary", str(verdict)), report)

    def _widen(self, report: CycleReport, why: str) -> None:
        """Act on more jobs from the next cycle on: another run in the journal, since its settings are others."""
        canary = wider(self.settings.canary)
        now = f"{canary.share:.0%} of the jobs" if canary.on else "all jobs"
        self._hands.tell(Tell("canary", f"{why}; from now on {now} of the scope"), report)
        self.settings = self.brain.settings = self.settings.model_copy(update={"canary": canary})
        self._watch = GainWatch(self.journal, self.settings, self.pinned)
        self._run = self.journal.begin_run(run_of(self.settings, self.pinned, self.clock.now_s()), self.pinned.text)

    def _estimate_gain(self, snapshot: Snapshot, estimates: dict[int, float], report: CycleReport) -> None:
        """Report from time to time what acting wins."""
        now = self.clock.elapsed_s()
        if now - self._gained_s < self.settings.advanced.gain.every_s:
            return
        self._gained_s = now
        gain = self._watch.gain(snapshot, estimates)
        if gain is not None:
            self.metrics.set(gain_share=gain.share)
            self._hands.tell(Tell("gain", str(gain)), report)

    def _prune(self) -> None:
        now = self.clock.elapsed_s()
        if now - self._pruned_s < _PRUNE_S:
            return
        self._pruned_s = now
        self._note_calls()
        keep = self.settings.journal
        oldest_s = self.clock.now_s() - keep.keep_days * _DAY_S
        while self.journal.prune(oldest_s, int(keep.max_mib * _MIB)):
            pass
        self.journal.prune_ended(2 * self.settings.advanced.journal.history_jobs)

    def _note_calls(self) -> None:
        """Keep how often Slurm's commands were called since the last time, for the report of a week."""
        counted = dict(self.backend.calls)
        new = {name: count - self._called.get(name, 0) for name, count in counted.items()}
        self._called = counted
        with suppress(JournalError):  # nothing depends on it
            self.journal.add_event(CALLS, ", ".join(f"{name} {n}" for name, n in new.items()), self.clock.now_s())

    def _measure(self, report: CycleReport) -> None:
        self.metrics.cycle(report.outcome, report.seconds)
        self.metrics.calls(self.backend.calls)
        self.metrics.set(
            held_jobs=len(self.brain.holdings.by_job), postponed_changes=report.postponed, acting=float(report.acting)
        )
        if report.outcome == "ok":
            self.metrics.decided(report.decide_s)
            self.metrics.set(waiting_jobs=report.waiting, last_cycle_timestamp_seconds=self.clock.now_s())
        try:
            self.metrics.write()
        except InputError as error:  # a full disk elsewhere is no reason to let go of the cluster
            self._hands.tell(Tell("metrics", str(error)), report)
