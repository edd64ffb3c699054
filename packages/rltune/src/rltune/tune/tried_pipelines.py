"""What is tried: pipelines with what is known of run times, the usual first, then changes of those that did best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rltune.engine.guard import get_guard
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.pipeline import TURN_BACKFILLS, Pipeline
from rltune.engine.turns import get_turns
from rltune.estimate import candidates
from rltune.placement.placers import get_placement
from rltune.policy.learned import Learned
from rltune.trials.site_pipeline import site_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rltune.cluster import Cluster
    from rltune.jobs import Jobs
    from rltune.policy.base import Policy

RULES = ("fcfs", "sjf", "saf", "wfp3", "unicep", "f1", "qssf", "multifactor")
BACKFILLS = ("easy", "none")  # that every policy is tried with
OTHER_BACKFILLS = ("easy", "none", "fit-first", "conservative")
PLACEMENTS = ("best-fit", "first-fit", "spread")
SOLVER = "milp:8"
GUARDS = ("off", "24h:4x")
TURNS = ("las", "gittins")  # orders in which preemptible jobs take turns
WITH_LIMITS = 0.5  # of the jobs must have asked for a time, or else limits tell nothing


@dataclass(frozen=True)
class Candidate:
    """A pipeline, and what is known of run times."""

    pipeline: Pipeline
    estimator: str

    @property
    def label(self) -> str:
        """Name it as tables do, with the estimator."""
        return f"{self.pipeline.label} ({self.estimator})"

    @property
    def identity(self) -> str:
        """Return its label with the weights of its model: two files may have one name."""
        policy = self.pipeline.policy
        return f"{self.label} {policy.model.sha256}" if isinstance(policy, Learned) else self.label

    @property
    def plainness(self) -> tuple[int, int]:
        """Order candidates that do equally well: the plainer first, and of equally plain ones the lesser work."""
        p = self.pipeline
        extras = int(p.learned) + int(bool(p.guard)) + int(str(p.placement) != "best-fit") + int(p.placement.may_solve)
        extras += int(bool(p.turns))
        return extras, int(p.learned) + 2 * int(p.backfill == "conservative") + 4 * int(p.placement.may_solve)

    def changes_from(self, other: Candidate) -> dict[str, Candidate]:
        """Return what differs by name, each with this candidate but for that one part, which is the other's."""
        mine, theirs = self.pipeline, other.pipeline
        made: dict[str, Candidate] = {}
        for what in ("policy", "backfill", "placement", "guard", "turns"):
            if _told(mine, what) != _told(theirs, what):
                made[what] = replace(self, pipeline=replace(mine, **{what: getattr(theirs, what)}))
        if self.estimator != other.estimator:
            made["estimates"] = replace(self, estimator=other.estimator)
        return made


def _told(pipeline: Pipeline, what: str) -> str:
    return pipeline.policy.name if what == "policy" else str(getattr(pipeline, what))


def usual_estimators(jobs: Jobs) -> tuple[str, ...]:
    """Return what can be known of run times: limits where jobs have asked for a time, and all that ended jobs teach."""
    asked = np.isfinite(jobs.limit_s).mean() if len(jobs) else 0.0
    return tuple(name for name in candidates(jobs) if asked >= WITH_LIMITS or "user" not in name)


def with_policy(like: Candidate, policy: Policy, backfill: str, estimator: str) -> Candidate:
    """Return a candidate as another is, with this policy, backfilling and estimator."""
    return Candidate(replace(like.pipeline, policy=policy, backfill=backfill), estimator)


def usual_now(jobs: Jobs, cluster: Cluster) -> Candidate:
    """Return what the site has, told or likely, with what it most likely knows of run times."""
    return Candidate(site_pipeline(jobs, cluster)[0], usual_estimators(jobs)[0])


def opening(now: Candidate, models: Sequence[str], estimators: Sequence[str]) -> list[Candidate]:
    """Return what is tried first: what there is now, then every policy with and without backfilling."""
    known = [(rule, estimator) for rule in RULES for estimator in estimators]
    known += [(model, "history") for model in models]  # a model costs more, and learnt from history most often
    return unique([now, *(Candidate(parse_pipeline(p, backfill), e) for p, e in known for backfill in BACKFILLS)])


def variations(
    of: Sequence[Candidate], estimators: Sequence[str] = (), *, solver: bool, turns: bool = False
) -> list[Candidate]:
    """Return changes of one part: estimates, backfilling, placement, guard and, where jobs may be preempted, turns."""
    made = [changed for candidate in of for changed in _changed(candidate, solver=solver)]
    made += [replace(candidate, estimator=estimator) for candidate in of for estimator in estimators]
    return unique([*made, *([other for candidate in of for other in _in_turns(candidate)] if turns else [])])


def _in_turns(candidate: Candidate) -> Iterator[Candidate]:
    base = candidate.pipeline
    if base.backfill in TURN_BACKFILLS:
        for order in TURNS:
            yield replace(candidate, pipeline=replace(base, turns=get_turns(order)))


def _changed(candidate: Candidate, *, solver: bool) -> Iterator[Candidate]:
    base = candidate.pipeline
    for backfill in OTHER_BACKFILLS:
        yield replace(candidate, pipeline=replace(base, backfill=backfill))
    for placement in (*PLACEMENTS, *([SOLVER] if solver else [])):
        yield replace(candidate, pipeline=replace(base, placement=get_placement(placement)))
    for guard in GUARDS:
        yield replace(candidate, pipeline=replace(base, guard=get_guard(guard)))


def unique(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Keep the first of each label."""
    kept: dict[str, Candidate] = {}
    for candidate in candidates:
        kept.setdefault(candidate.label, candidate)
    return list(kept.values())
