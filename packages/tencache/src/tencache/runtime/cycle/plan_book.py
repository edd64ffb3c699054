"""Which plan each cycle follows: those that are known by the order of operations, and when a new one is made."""

import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from tencache.plan.activation_plan import Offload, floor_offloaded_bytes, plan_offloads
from tencache.plan.kept_state import KeepOffer
from tencache.plan.plan_follower import PlanFollower
from tencache.plan.rival_policies import make_plan
from tencache.plan.step_plan import StepPlan
from tencache.plan.step_trace import StepTrace, Update
from tencache.plan.virtual_clock import NOTHING_KEPT, Bandwidths, best_plan, without_early
from tencache.plan.working_units import WorkingUnits
from tencache.runtime.counters import Counters
from tencache.runtime.cycle.recorder import Recorder

CycleKind = Literal["train", "eval"]
Order = tuple[tuple[int, ...], ...]
# Batches of a few shapes take turns in many loops; each shape may have an order, and so a plan, of its own.
KNOWN_ORDERS = 8
ENOUGH_SEEN = 3


@dataclass
class RunningCycle:
    """One stretch that repeats: from one optimizer step to the next, or one forward without gradients."""

    kind: CycleKind
    recorder: Recorder
    follower: PlanFollower | None
    # The units that autocast cast in this cycle, and those of which something else was made.
    cast: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)


class PlanBook:
    """The plans of training and of evaluating, made from what cycles turn out to be."""

    def __init__(
        self, working: WorkingUnits, budget_bytes: int, counters: Counters, speeds: Bandwidths, policy: str
    ) -> None:
        self.speeds = speeds
        self.policy = policy
        self.traces: dict[CycleKind, StepTrace] = {}
        self._working = working
        self._budget_bytes = budget_bytes
        self._counters = counters
        self._current: dict[CycleKind, StepPlan] = {}
        self._known: OrderedDict[tuple[CycleKind, Order], tuple[StepPlan, int]] = OrderedDict()
        self._last: dict[CycleKind, Order] = {}
        self._settled: set[CycleKind] = set()
        self._halved: dict[CycleKind, frozenset[int]] = {}
        self._early_wanted: bool | None = None
        self._offloads: dict[CycleKind, tuple[tuple[Offload, ...], int]] = {}

    def begin_anew(self, budget_bytes: int) -> None:
        """Forget every plan: other units move from now on, in another budget."""
        self._budget_bytes = budget_bytes
        for plans in (self._current, self._known, self._last, self._halved, self.traces, self._offloads):
            plans.clear()
        self._settled.clear()

    def choose_kept(self, offer: KeepOffer) -> frozenset[int]:
        """Return the units of which it pays to keep the optimizer state on the device, by the last training cycle."""
        trace = self.traces.get("train")
        if trace is None or not offer.room_bytes:
            return frozenset()
        return self._plan(trace, offer).kept

    def get(self, kind: CycleKind) -> StepPlan | None:
        """Return the plan that cycles of a kind follow; None until the first was profiled."""
        return self._current.get(kind)

    def offloads(self, kind: CycleKind) -> tuple[tuple[Offload, ...], int] | None:
        """Return which saved tensors go to the host, and the fewest bytes that must; None before it is known."""
        return self._offloads.get(kind)

    def halves(self, kind: CycleKind, unit: int) -> bool:
        """Return whether a kind of cycle uses a unit's working copy alone."""
        return unit in self._halved.get(kind, ())

    def is_settled(self, kind: CycleKind) -> bool:
        """Return whether a kind of cycle only repeats what has been measured often enough."""
        return kind in self._settled

    def compute_early(self, *, allowed: bool, at_once: bool) -> None:
        """Let plans have updates within backward, or not, from the next plan on or with a new plan at once."""
        if self._early_wanted is None:
            self._early_wanted = allowed
        elif at_once and allowed != self._early_wanted:
            self._early_wanted = allowed
            # Every plan is made anew, from the next cycle that is timed.
            for key in [key for key in self._known if key[0] == "train"]:
                del self._known[key]
            self._settled.discard("train")

    def finish(self, cycle: RunningCycle, updates: Iterable[Update]) -> None:
        """Take in a cycle that is over: the next one of its kind follows what is the best plan by then."""
        if self._went_as_settled(cycle):
            self._settled.add(cycle.kind)
            return
        # An order that came once waits for its second time, and that one is timed.
        self._settled.discard(cycle.kind)
        trace = self._working.rewrite(cycle.recorder.finish(updates), cycle.cast - cycle.whole)
        if not trace.ops:
            return
        # A settled cycle is recorded without durations and gradients: as a trace to read or to save it would mislead.
        if cycle.recorder.timed:
            self.traces[cycle.kind] = trace
        again = self._last.get(cycle.kind) == trace.order
        self._last[cycle.kind] = trace.order
        # Without durations there is nothing to plan a new order by.
        if not cycle.recorder.timed and (cycle.kind, trace.order) not in self._known:
            return
        if again or cycle.kind not in self._current:
            self._adopt(cycle.kind, trace)

    def _went_as_settled(self, cycle: RunningCycle) -> bool:
        """Return whether a cycle went as planned and that plan has been measured often enough."""
        if cycle.follower is None or cycle.follower.plan is not self._current[cycle.kind]:
            return False
        order = cycle.follower.plan.trace.order
        seen = self._known.get((cycle.kind, order), (None, 0))[1]
        return seen >= ENOUGH_SEEN and self._last.get(cycle.kind) == order and cycle.recorder.order() == order

    def _adopt(self, kind: CycleKind, trace: StepTrace) -> None:
        """Follow this order from now on, with the plan that is known for it or a new one."""
        key = (kind, trace.order)
        plan, seen = self._known.pop(key, (None, 0))
        # The first measurement is of a cold run; the third is taken again, for good. A plan whose places turned out to
        # be held, as recomputed blocks hold working copies that the profile had whole, cannot be followed.
        if plan is None or seen == ENOUGH_SEEN - 1 or _holds_more(trace, plan.trace):
            plan = self._plan(trace)
        # Put back at the end: the order that was used longest ago is the one to forget.
        self._known[key] = (plan, seen + 1)
        self._current[kind] = plan
        self._halved[kind] = self._working.halved(plan.trace)
        if (limit_bytes := self.speeds.activation_bytes) is not None:
            saves = plan.trace.saves
            rows = plan_offloads(saves, limit_bytes, plan.again)
            self._offloads[kind] = rows, floor_offloaded_bytes(saves, limit_bytes)
        while len(self._known) > KNOWN_ORDERS:
            self._known.popitem(last=False)

    def _plan(self, trace: StepTrace, offer: KeepOffer = NOTHING_KEPT) -> StepPlan:
        began = time.perf_counter()
        ahead = self.policy == "ahead"
        speeds = self.speeds if self._early_wanted else replace(self.speeds, updates=without_early(self.speeds.updates))
        budget_bytes = self._budget_bytes
        plan = best_plan(trace, budget_bytes, speeds, offer) if ahead else make_plan(trace, budget_bytes, self.policy)
        self._counters.plans += 1
        self._counters.planning_s += time.perf_counter() - began
        return plan


def _holds_more(trace: StepTrace, planned: StepTrace) -> bool:
    """Return whether an operation holds units that the plan did not know of."""
    return any(set(now.held) > set(then.held) for now, then in zip(trace.ops, planned.ops, strict=True))
