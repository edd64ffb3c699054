"""The policies that a plan is compared with, as tables for the same engine: on-demand LRU, ZeRO-3, and halves."""

from collections import deque
from dataclasses import dataclass, replace

from tencache.plan.address_map import AddressMap, AddressWindow, aligned
from tencache.plan.placing import place_all
from tencache.plan.planner import plan_ahead, ready_since
from tencache.plan.step_plan import Load, StepPlan, check_fits, with_evictions
from tencache.plan.step_trace import StepTrace
from tencache.plan.use_times import UseTimes

POLICIES = ("ahead", "zero3", "bucket", "lru")
# DeepSpeed's defaults: stage3_prefetch_bucket_size is 5e7 elements, stage3_max_live_parameters 1e9.
ZERO3_BUCKETS = 20


def make_plan(trace: StepTrace, budget_bytes: int, policy: str) -> StepPlan:
    """Return the table of a policy by name."""
    if policy == "ahead":
        return plan_ahead(trace, budget_bytes)
    if policy == "lru":
        return plan_lru(trace, budget_bytes)
    if policy == "zero3":
        return plan_zero3(trace, budget_bytes)
    if policy == "bucket":
        return plan_buckets(trace, budget_bytes)
    raise ValueError(f"unknown policy {policy!r}: choose one of {', '.join(POLICIES)}")


def plan_lru(trace: StepTrace, budget_bytes: int) -> StepPlan:
    """Return a plan that loads on touch and evicts what was touched longest ago; it waits for every load."""
    check_fits(trace, budget_bytes)
    use_times = UseTimes(trace)
    addresses = AddressMap(budget_bytes // aligned(1) * aligned(1))
    sizes = [unit.bytes for unit in trace.units]
    loads: list[Load] = []
    for index, op in enumerate(trace.ops):

        def recency(window: AddressWindow, index: int = index) -> tuple[int, int]:
            return ready_since(use_times, window, index), window.offset

        def since(unit: int, index: int = index) -> int:
            return use_times.free_since(unit, index)

        placed = place_all(addresses, sizes, op.needed, op.held, recency, since)
        loads += [Load(unit, spot.offset, sizes[unit], index, index, spot.evicts) for unit, spot in placed]
    return StepPlan("lru", budget_bytes, trace, with_evictions(trace, loads, {}), eager=False)


def plan_zero3(trace: StepTrace, budget_bytes: int) -> StepPlan:
    """Return a plan that fetches as DeepSpeed's ZeRO-3 does by default, scaled to this budget.

    The defaults let 1e9 elements be live, keep what is used again within 1e9, and prefetch 5e7 with every operation:
    here the budget, the budget, and a twentieth of it. Parameters that it would let persist are in packs, which are
    used again so soon that they stay.
    """
    check_fits(trace, budget_bytes)
    fetcher = _Zero3(trace, budget_bytes)
    for index in range(len(trace.ops)):
        fetcher.release(index)
        fetcher.fetch(index)
        fetcher.prefetch(index)
    return StepPlan("zero3", budget_bytes, trace, with_evictions(trace, fetcher.loads, {}), eager=False)


class _Zero3:
    """What is live, and how far along the order has been fetched."""

    def __init__(self, trace: StepTrace, budget_bytes: int) -> None:
        self.loads: list[Load] = []
        self._trace = trace
        self._budget_bytes = budget_bytes
        self._sizes = [aligned(unit.bytes) for unit in trace.units]
        self._addresses = AddressMap(budget_bytes // aligned(1) * aligned(1))
        self._queue = deque((index, unit) for index, op in enumerate(trace.ops) for unit in op.touched)
        self._fetched_for: dict[int, int] = {}
        self._released: set[int] = set()

    def release(self, index: int) -> None:
        """Release what the last operation used, unless it is needed again soon or was prefetched for later."""
        done = self._trace.ops[index - 1].needed if index else ()
        soon = self._soon(index)
        for unit in done:
            if unit in self._addresses and unit not in soon and self._fetched_for.get(unit, -1) < index:
                self._addresses.remove(unit, index)
                self._released.add(unit)

    def fetch(self, index: int) -> None:
        """Fetch what the operation needs and was not prefetched; the operation waits for it."""
        op = self._trace.ops[index]
        while self._queue and self._queue[0][0] <= index:
            self._queue.popleft()
        placed = place_all(self._addresses, self._sizes, op.needed, op.held, self._fewest, lambda _: index)
        for unit, window in placed:
            self._load(unit, window, index, index)

    def prefetch(self, index: int) -> None:
        """Prefetch one bucket further along the order, as far as there is room."""
        live_bytes = sum(self._sizes[unit] for unit in self._addresses.offsets())
        limit_bytes = min(self._budget_bytes - live_bytes, self._budget_bytes // ZERO3_BUCKETS)
        fetched_bytes = 0
        while self._queue and fetched_bytes < limit_bytes:
            need, unit = self._queue[0]
            if unit not in self._addresses:
                window = next(iter(self._addresses.windows(self._sizes[unit], lambda _: True)), None)
                if window is None:
                    return
                self._addresses.place(unit, window, lambda _: index)
                self._load(unit, window, index, need)
                fetched_bytes += self._sizes[unit]
            self._queue.popleft()
            self._fetched_for[unit] = need

    def _load(self, unit: int, window: AddressWindow, trigger: int, need: int) -> None:
        evicts = (*window.evicts, *self._released)
        self._released.clear()
        self.loads.append(Load(unit, window.offset, self._trace.units[unit].bytes, trigger, need, evicts))

    def _soon(self, index: int) -> set[int]:
        """Return the units that are used again within the reuse distance."""
        soon: set[int] = set()
        passed_bytes = 0
        for op in self._trace.ops[index:]:
            if passed_bytes >= self._budget_bytes:
                break
            soon.update(op.needed)
            passed_bytes += sum(self._sizes[unit] for unit in op.touched)
        return soon

    def _fewest(self, window: AddressWindow) -> tuple[int, int]:
        return sum(self._sizes[unit] for unit in window.evicts), window.offset


@dataclass(frozen=True)
class _Bucket:
    first: int
    units: frozenset[int]


def plan_buckets(trace: StepTrace, budget_bytes: int) -> StepPlan:
    """Return a plan that fetches the next bucket while one is in use; a bucket is half of the budget.

    The most that fetching by buckets can have: no setting of ZeRO-3 looks so far ahead by so exact a memory limit.
    """
    check_fits(trace, budget_bytes)
    buckets = _buckets(trace, budget_bytes // 2)
    use_times = UseTimes(trace)
    addresses = AddressMap(budget_bytes // aligned(1) * aligned(1))
    loads: list[Load] = []
    released: set[int] = set()
    for index, bucket in enumerate(buckets):
        before = buckets[index - 1] if index else _Bucket(0, frozenset())
        for unit in set(addresses.offsets()) - before.units - bucket.units:
            addresses.remove(unit, before.first)
            released.add(unit)
        fetched = _fetch(trace, use_times, addresses, before, bucket)
        if fetched:
            fetched[0] = replace(fetched[0], evicts=tuple(released))
            released.clear()
        loads += fetched
    return StepPlan("bucket", budget_bytes, trace, with_evictions(trace, loads, {}), eager=False)


def _buckets(trace: StepTrace, limit_bytes: int) -> list[_Bucket]:
    found: list[_Bucket] = []
    for index, op in enumerate(trace.ops):
        grown = found[-1].units | set(op.needed) if found else frozenset(op.needed)
        if found and sum(aligned(trace.units[unit].bytes) for unit in grown) <= limit_bytes:
            found[-1] = _Bucket(found[-1].first, grown)
        else:
            found.append(_Bucket(index, frozenset(op.needed)))
    return found


def _fetch(
    trace: StepTrace, use_times: UseTimes, addresses: AddressMap, before: _Bucket, bucket: _Bucket
) -> list[Load]:
    sizes = [unit.bytes for unit in trace.units]

    def earliest(window: AddressWindow) -> tuple[int, int]:
        return ready_since(use_times, window, bucket.first), window.offset

    def since(unit: int) -> int:
        return use_times.free_since(unit, bucket.first)

    loads = []
    for unit in sorted(bucket.units - set(addresses.offsets()), key=lambda unit: (trace.uses[unit], unit)):
        both = before.units | bucket.units
        early = min(addresses.windows(sizes[unit], both.__contains__), key=earliest, default=None)
        if early is not None:
            addresses.place(unit, early, since)
            trigger = max(before.first, ready_since(use_times, early, bucket.first), since(unit))
            loads.append(Load(unit, early.offset, sizes[unit], trigger, bucket.first, early.evicts))
        else:
            held = trace.ops[bucket.first].held
            placed = place_all(addresses, sizes, sorted(bucket.units), held, earliest, since)
            loads += [Load(u, spot.offset, sizes[u], bucket.first, bucket.first, spot.evicts) for u, spot in placed]
            break
    return loads
