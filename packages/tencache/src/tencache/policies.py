"""The policies that a plan is compared with, as tables for the same engine: on-demand LRU, and buckets like ZeRO-3."""

from dataclasses import dataclass, replace

from tencache.access import Trace
from tencache.future import Future
from tencache.layout import Layout, Window, aligned
from tencache.placing import place_all
from tencache.plan import Load, Plan, check_fits, plan_ahead, ready_since, with_evictions

POLICIES = ("ahead", "bucket", "lru")


def make_plan(trace: Trace, budget_bytes: int, policy: str) -> Plan:
    """Return the table of a policy by name."""
    if policy == "ahead":
        return plan_ahead(trace, budget_bytes)
    if policy == "lru":
        return plan_lru(trace, budget_bytes)
    if policy == "bucket":
        return plan_buckets(trace, budget_bytes)
    raise ValueError(f"unknown policy {policy!r}: choose one of {', '.join(POLICIES)}")


def plan_lru(trace: Trace, budget_bytes: int) -> Plan:
    """Load when touched, evict what was touched longest ago. It waits for every load."""
    check_fits(trace, budget_bytes)
    future = Future(trace)
    layout = Layout(budget_bytes // aligned(1) * aligned(1))
    sizes = [unit.bytes for unit in trace.units]
    loads: list[Load] = []
    for index, op in enumerate(trace.ops):

        def recency(window: Window, index: int = index) -> tuple[int, int]:
            return ready_since(future, window, index), window.offset

        def since(unit: int, index: int = index) -> int:
            return future.free_since(unit, index)

        placed = place_all(layout, sizes, op.needed, op.held, recency, since)
        loads += [Load(unit, spot.offset, sizes[unit], index, index, spot.evicts) for unit, spot in placed]
    return Plan("lru", budget_bytes, trace, with_evictions(trace, loads, {}), eager=False)


@dataclass(frozen=True)
class _Bucket:
    first: int
    units: frozenset[int]


def plan_buckets(trace: Trace, budget_bytes: int) -> Plan:
    """Fetch the next bucket while one is in use, and release each after use; a bucket is half of the budget."""
    check_fits(trace, budget_bytes)
    buckets = _buckets(trace, budget_bytes // 2)
    future = Future(trace)
    layout = Layout(budget_bytes // aligned(1) * aligned(1))
    loads: list[Load] = []
    released: set[int] = set()
    for index, bucket in enumerate(buckets):
        before = buckets[index - 1] if index else _Bucket(0, frozenset())
        for unit in set(layout.resident()) - before.units - bucket.units:
            layout.remove(unit, before.first)
            released.add(unit)
        fetched = _fetch(trace, future, layout, before, bucket)
        if fetched:
            fetched[0] = replace(fetched[0], evicts=tuple(released))
            released.clear()
        loads += fetched
    return Plan("bucket", budget_bytes, trace, with_evictions(trace, loads, {}), eager=False)


def _buckets(trace: Trace, limit_bytes: int) -> list[_Bucket]:
    found: list[_Bucket] = []
    for index, op in enumerate(trace.ops):
        grown = found[-1].units | set(op.needed) if found else frozenset(op.needed)
        if found and sum(aligned(trace.units[unit].bytes) for unit in grown) <= limit_bytes:
            found[-1] = _Bucket(found[-1].first, grown)
        else:
            found.append(_Bucket(index, frozenset(op.needed)))
    return found


def _fetch(trace: Trace, future: Future, layout: Layout, before: _Bucket, bucket: _Bucket) -> list[Load]:
    sizes = [unit.bytes for unit in trace.units]

    def earliest(window: Window) -> tuple[int, int]:
        return ready_since(future, window, bucket.first), window.offset

    def since(unit: int) -> int:
        return future.free_since(unit, bucket.first)

    loads = []
    for unit in sorted(bucket.units - set(layout.resident()), key=lambda unit: (trace.uses[unit], unit)):
        both = before.units | bucket.units
        early = min(layout.windows(sizes[unit], both.__contains__), key=earliest, default=None)
        if early is not None:
            layout.place(unit, early, since)
            trigger = max(before.first, ready_since(future, early, bucket.first), since(unit))
            loads.append(Load(unit, early.offset, sizes[unit], trigger, bucket.first, early.evicts))
        else:
            held = trace.ops[bucket.first].held
            placed = place_all(layout, sizes, sorted(bucket.units), held, earliest, since)
            loads += [Load(u, spot.offset, sizes[u], bucket.first, bucket.first, spot.evicts) for u, spot in placed]
            break
    return loads
