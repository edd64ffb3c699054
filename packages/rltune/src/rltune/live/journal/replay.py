"""A recorded decision, made again from what was recorded."""

from __future__ import annotations

from dataclasses import dataclass

from rltune.engine.pipeline import Pipeline
from rltune.engine.search import ROLLOUTS
from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.live.control_settings import ControlSettings
from rltune.live.decide.decide import Known, Situation, decide
from rltune.live.decide.decision import Decision
from rltune.live.journal.packing import (
    pack_decision,
    unpack_decision,
    unpack_estimates,
    unpack_holdings,
    unpack_snapshot,
)
from rltune.live.journal.provenance import policy_hash, run_of
from rltune.live.journal.store import Cycle, Journal, Run
from rltune.live.pinned_pipeline import pin_pipeline


@dataclass(frozen=True)
class Replay:
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


def replay(journal: Journal, number: int) -> Replay:
    """Decide again on what was seen then, by the policy, settings, estimates and history of then."""
    cycle = journal.cycle(number)
    run = journal.run(cycle.run)
    settings = ControlSettings.model_validate_json(run.settings)
    pipeline = pin_pipeline(settings.pipeline, settings.safety.guard)
    _require_policy(settings, pipeline, run)
    situation = Situation(unpack_snapshot(cycle.snapshot), unpack_holdings(cycle.holdings))
    recorded = unpack_decision(cycle.decision)
    tried = int(recorded.work.get(ROLLOUTS, 0))
    known = Known(_history(journal, cycle, settings), unpack_estimates(cycle.estimates), tried)
    made = decide(situation, settings, pipeline, known)
    same = pack_decision(made) == cycle.decision
    return Replay(cycle.id, same, recorded, made, _differences(run, settings, pipeline))


def _history(journal: Journal, cycle: Cycle, settings: ControlSettings) -> Jobs | None:
    return journal.history(settings.journal.history_jobs, until=cycle.history) if cycle.history else None


def _require_policy(settings: ControlSettings, pipeline: Pipeline, run: Run) -> None:
    spec = settings.pipeline.policy
    if run.policy and policy_hash(spec, pipeline) != run.policy:
        raise InputError(f"policy {spec}: is not the one of then (sha256 {run.policy[:12]}...)")


def _differences(run: Run, settings: ControlSettings, pipeline: Pipeline) -> tuple[str, ...]:
    now = run_of(settings, pipeline, 0.0)
    notes = []
    if run.version != now.version:
        notes.append(f"recorded by rltune {run.version}, replayed by {now.version}")
    if run.code != now.code:
        notes.append("the core's source is not the one of then")
    return tuple(notes)
