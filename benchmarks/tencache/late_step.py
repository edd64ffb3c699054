"""What late and early updates are worth on the clock, without noise: python benchmarks/tencache/late_step.py.

The GPT of 46M parameters in 4 bytes, budget 35 %, with the durations of a quiet machine, and compute twice as slow.
"""

from dataclasses import replace

from markdown_table import markdown_table

from tencache.plan.policy_costs import cost_of
from tencache.plan.step_trace import StepTrace
from tencache.plan.transformer_shapes import PRESETS, Setting, make_trace
from tencache.plan.virtual_clock import UPDATE_TIMES, Bandwidths, StepCost

BUDGET = 0.35
LINKS = (0.5e9, 1e9, 2e9)
# Seconds of forward and backward, and of fused AdamW on one core, as measured with 64 tokens.
DEVICE_S = (0.37, 0.74)
UPDATE_S = 0.065
PIECE_BYTES = 2 * 2**20


def timed_trace(device_s: float) -> StepTrace:
    """The step's trace with these durations."""
    setting = Setting(tokens=64, context=64, bytes_per_parameter=4, state_bytes_per_parameter=8, recompute=False)
    trace = make_trace(PRESETS["gpt-46m"], setting)
    ops = tuple(replace(op, compute_s=op.compute_s * device_s / trace.device_s) for op in trace.ops)
    updates = tuple(replace(one, compute_s=one.compute_s * UPDATE_S / trace.update_s) for one in trace.updates)
    return replace(trace, ops=ops, updates=updates)


def cost(trace: StepTrace, link: float, policy: str, updates: str, share: float = BUDGET) -> StepCost:
    """A steady step."""
    budget = int(share * trace.parameter_bytes)
    window = budget // 8 + max(unit.bytes for unit in trace.units)
    speeds = Bandwidths(link, link, gradient_window_bytes=window, updates=updates, piece_bytes=PIECE_BYTES)
    return cost_of(policy, trace, budget, speeds)


def late_table() -> str:
    """One row for each link, speed of compute and time of the updates."""
    rows = []
    for device_s in DEVICE_S:
        trace = timed_trace(device_s)
        for link in LINKS:
            after, late = (cost(trace, link, "zero3", updates).step_s for updates in ("after", "late"))
            bound_s = cost(trace, link, "ahead", "late").bound_s
            for updates in UPDATE_TIMES:
                step_s = cost(trace, link, "ahead", updates).step_s
                ratios = f"{after / step_s:.2f}", f"{late / step_s:.2f}", f"{bound_s / step_s:.0%}"
                rows.append((f"{device_s:g}", f"{link / 1e9:g} GB/s", updates, f"{step_s:.3f}", *ratios))
    columns = "device s", "link", "updates", "planned s", "ZeRO-3 / planned", "ZeRO-3, late / planned", "of bound"
    return markdown_table("Late updates, on the clock", columns, rows)


def kept_table() -> str:
    """One row for each link and budget that holds all parameters: with what state stays on the device."""
    rows = []
    trace = timed_trace(DEVICE_S[0])
    for link in LINKS:
        for share in (1.0, 1.3, 2.0, 3.0):
            row = cost(trace, link, "ahead", "within", share)
            moved = f"{row.up_bytes / 1e6:.0f}", f"{row.down_bytes / 1e6:.0f}"
            rows.append((f"{link / 1e9:g} GB/s", f"{share:.0%}", f"{row.step_s:.3f}", *moved))
    columns = "link", "budget", "step s", "up MB", "down MB"
    return markdown_table("State that stays on the device, on the clock", columns, rows)


if __name__ == "__main__":
    print(late_table())
    print()
    print(kept_table())
