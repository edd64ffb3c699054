"""A pipeline: who is next, who may overtake and where jobs run. A value: `parse_pipeline` makes it of names, once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rltune.engine.guard import Guard
from rltune.engine.search import Search
from rltune.engine.turns import Turns
from rltune.errors import InputError, unknown
from rltune.estimate.remainders import ENDS_NOW_NAME, REMAINING
from rltune.kernel.score.rules import FCFS, INSPECTED, SAF, SJF, SRF
from rltune.kernel.state import arrays as core
from rltune.placement.placers import BEST_FIT, Placement
from rltune.policy.base import FIRST_COME, Networked, Policy, Scored
from rltune.schedule import Settings

BACKFILLS = {
    "none": core.NO_BACKFILL,
    "fit-first": core.FIT_FIRST,
    "easy": core.EASY,
    "conservative": core.CONSERVATIVE,
    "whole-nodes": core.WHOLE_NODES,
    "shadow": core.SHADOW,
    **{f"easy:{rule}": core.EASY_BY for rule in ("fcfs", "sjf", "srf", "saf")},
}
BEHIND = {"easy:fcfs": FCFS, "easy:sjf": SJF, "easy:srf": SRF, "easy:saf": SAF}  # who is backfilled first
SECOND_ROUND = ("shadow", *BEHIND)  # backfilling in an order of its own, once all heads are known
PLANNING = ("conservative", "whole-nodes")  # every job that waits has a reservation
TURN_BACKFILLS = ("none", "fit-first", "easy")  # under which running jobs may be displaced
INSPECTED_BACKFILLS = ("none", "fit-first", "easy")  # under which an inspector can refuse a choice
HEADS = ("pool", "global")


@dataclass(frozen=True)
class Pipeline:
    """All that decides, but what is known of run times."""

    policy: Policy = FIRST_COME
    backfill: str = "none"
    placement: Placement = BEST_FIT
    guard: Guard = field(default_factory=Guard)
    search: Search = field(default_factory=Search)
    turns: Turns = field(default_factory=Turns)  # who may displace running jobs
    head: str = "pool"
    view: int = 0  # how many of the oldest waiting jobs the policy sees; 0 = all
    cycle_s: float = 0.0  # how often the policy is asked; 0 = in every pass
    remaining: str = ENDS_NOW_NAME  # what reservations take running jobs to have left
    commit: bool = False  # RLScheduler's machine
    seed: int = 0

    def __post_init__(self) -> None:
        chosen = (
            ("backfill", self.backfill, tuple(BACKFILLS)),
            ("head", self.head, HEADS),
            ("remaining", self.remaining, REMAINING),
        )
        for what, value, choices in chosen:
            if value not in choices:
                raise unknown(what, value, choices)
        if not 0 <= self.cycle_s < float("inf"):
            raise InputError(f"a cycle should last some seconds, or 0 to ask in every pass, not {self.cycle_s:g}")
        if self.view < 0:
            raise InputError(f"view should be 0 (all) or more, not {self.view}")
        if self.commit:
            self._require_commit()
        if self.guard.sla_by_base:
            self._require_base()
        if self.turns:
            self._require_turns()
        elif self.sees_index:
            told = "sees Gittins' index, which is known only where jobs take turns"
            raise InputError(f"policy {self.policy.name} {told}; choose preempt, such as policy:each=0.05")
        if self.cycle_s > 0 and (self.commit or not self.takes_cycles):
            searched = "a search" if self.search else f"policy {self.policy.name}"
            what = "commit mode" if self.commit else searched
            raise InputError(f"{what} decides in every pass: leave out the cycle of {self.cycle_s:g} s")
        if self.policy.code == INSPECTED and (self.commit or self.backfill not in INSPECTED_BACKFILLS):
            what = "commit mode" if self.commit else f"backfill {self.backfill!r}"
            known = ", ".join(INSPECTED_BACKFILLS)
            told = f"policy {self.policy.name} inspects one job at a time: {what} is not for it; there are: {known}"
            raise InputError(told)

    def _require_commit(self) -> None:
        """Refuse what RLScheduler's machine does not know."""
        if self.guard:
            raise InputError("commit mode knows no guard: a selected job stays selected until it fits")
        if self.search:
            raise InputError("commit mode knows no search: one job is selected at a time, and stays so")
        if self.backfill not in {"none", "shadow"}:
            raise InputError(f"commit mode backfills by 'none' or 'shadow', not {self.backfill!r}")
        if self.remaining != ENDS_NOW_NAME:
            raise InputError(f"commit mode expects running jobs to end by their estimates, not by {self.remaining!r}")
        if isinstance(self.policy, Scored):
            raise InputError(f"commit mode knows only rules of the core, not policy {self.policy.name}")

    def _require_turns(self) -> None:
        """Refuse what does not go with displacing running jobs."""
        if self.backfill not in TURN_BACKFILLS:
            known = ", ".join(TURN_BACKFILLS)
            raise InputError(f"preempt {self.turns}: not with backfill {self.backfill!r}; there are: {known}")
        if isinstance(self.policy, Scored) or self.policy.code == INSPECTED:
            raise InputError(
                f"preempt {self.turns}: rules and networks order jobs that take turns, not {self.policy.name}"
            )
        if isinstance(self.policy, Networked) and self.turns.order == "policy" and not self.policy.net.sees_running:
            told = "sees what a job that runs has not (may it start, what is free for it)"
            raise InputError(f"preempt {self.turns}: {self.policy.name} {told}; choose las, gittins or srsf")
        others = (
            ("commit mode", self.commit),
            (f"a search ({self.search})", self.search),
            (f"placement {self.placement}", self.placement.may_solve),
            (f"a cycle of {self.cycle_s:g} s", self.cycle_s > 0),
        )
        for what, used in others:
            if used:
                raise InputError(f"preempt {self.turns}: {what} knows of no running job that gives way; leave it out")

    def _require_base(self) -> None:
        """Refuse to leave SLA jobs to a base policy where there is none."""
        if not self.learned or self.policy.code == INSPECTED:
            raise InputError(f"guard {self.guard}: policy {self.policy.name} is no order beside a base policy's")
        if self.search:
            raise InputError(f"guard {self.guard}: a search would try other places for SLA jobs; leave it out")
        if self.turns.order == "policy":
            told = f"preempt {self.turns}: the network orders jobs that run, too, and no base policy stands beside it"
            raise InputError(f"guard {self.guard}: with {told}; leave sla-base out, or choose las, gittins or srsf")

    @property
    def policy_name(self) -> str:
        """Name the policy with what is around it."""
        search = f"+search:{self.search}" if self.search else ""
        guard = f"+guard:{self.guard}" if self.guard else ""
        preempt = f"+preempt:{self.turns}" if self.turns else ""
        left = f"+remaining:{self.remaining}" if self.remaining != ENDS_NOW_NAME else ""
        return f"{self.policy.name}{search}{guard}{preempt}{left}"

    @property
    def label(self) -> str:
        """Name the pipeline as every table, report and file does."""
        return self.settings("").label

    @property
    def learned(self) -> bool:
        """Return whether a trained model orders the queue."""
        return isinstance(self.policy, Networked)

    @property
    def sees_index(self) -> bool:
        """Return whether a network orders that sees Gittins' index."""
        return isinstance(self.policy, Networked) and self.policy.net.uses_index

    @property
    def static(self) -> bool:
        """Return whether it is a rule that is placed greedily: nothing learns, searches or solves."""
        return not (self.learned or self.search or self.placement.may_solve)

    @property
    def takes_cycles(self) -> bool:
        """Return whether the policy may be asked once a cycle: a search, an inspector and Python act in every pass."""
        return not (self.search or self.policy.code == INSPECTED or isinstance(self.policy, Scored))

    def settings(self, estimator: str) -> Settings:
        """Describe the pipeline in plain values, for a schedule."""
        return Settings(
            policy=self.policy_name,
            backfill=self.backfill,
            placement=str(self.placement),
            estimator=estimator,
            head=self.head,
            commit=self.commit,
            view=self.view,
            seed=self.seed,
            guard=str(self.guard),
            search=str(self.search),
            preempt=str(self.turns),
            cycle_s=self.cycle_s,
            remaining=self.remaining,
        )


def learns(given: Any) -> bool:
    """Return whether an estimator or a policy can start from earlier jobs, and was given none of its own."""
    return callable(getattr(given, "after", None)) and getattr(given, "before", None) is None
