"""The fewest bytes that any schedule must move: Belady's minimum, byte by byte.

Each byte is a page of its own, so evicting the byte that is needed last is optimal, and no placement of whole units can
do better: a true lower bound, reached when sizes divide well.
"""

from tencache.plan.step_trace import StepTrace
from tencache.plan.use_times import UseTimes


def floor_up_bytes(trace: StepTrace, budget_bytes: int) -> int:
    """Return the fewest bytes that any plan must send to the device in one steady cycle."""
    use_times = UseTimes(trace)
    resident: dict[int, int] = {}
    loaded = 0
    # What is written is loaded anew in every cycle; only what is not needs a cycle or two to settle.
    for _ in range(3 if trace.uses.keys() - trace.written else 1):
        for unit in trace.written:
            resident.pop(unit, None)
        loaded = sum(_serve(trace, use_times, resident, index, budget_bytes) for index in range(len(trace.ops)))
    return loaded


def _serve(trace: StepTrace, use_times: UseTimes, resident: dict[int, int], index: int, budget_bytes: int) -> int:
    needed = trace.ops[index].needed
    missing = {unit: trace.units[unit].bytes - resident.get(unit, 0) for unit in needed}
    over = sum(resident.values()) + sum(missing.values()) - budget_bytes
    others = [unit for unit in resident if unit not in missing] if over > 0 else []
    for unit in sorted(others, key=lambda unit: (-use_times.next_use(unit, index), unit)):
        if over <= 0:
            break
        cut = min(over, resident[unit])
        resident[unit] -= cut
        over -= cut
    resident.update({unit: trace.units[unit].bytes for unit in needed})
    return sum(missing.values())
