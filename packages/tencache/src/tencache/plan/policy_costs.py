"""What a policy costs on the virtual clock, by name, and what pinning a model takes."""

from tencache.plan.kept_state import keep_offer
from tencache.plan.rival_policies import make_plan
from tencache.plan.step_plan import StepPlan
from tencache.plan.step_trace import StepTrace
from tencache.plan.virtual_clock import Bandwidths, StepCost, best_plan, replay_plan


def plan_of(policy: str, trace: StepTrace, budget_bytes: int, speeds: Bandwidths) -> StepPlan:
    """Return a policy's plan; the planned one is the fastest that the eviction strategies give."""
    if policy == "ahead":
        return best_plan(trace, budget_bytes, speeds, keep_offer(trace, budget_bytes))
    return make_plan(trace, budget_bytes, policy)


def cost_of(policy: str, trace: StepTrace, budget_bytes: int, speeds: Bandwidths) -> StepCost:
    """Return what a steady step costs under a policy."""
    return replay_plan(plan_of(policy, trace, budget_bytes, speeds), speeds)


def pinned_bytes(trace: StepTrace, *, rounded: bool) -> int:
    """Return the pinned host memory for parameters and gradients: exact, or in powers of two as torch pins them."""
    sizes = [unit.bytes for unit in trace.units] + [grad.bytes for grad in trace.grads]
    return sum(1 << (size - 1).bit_length() if rounded else size for size in sizes)
