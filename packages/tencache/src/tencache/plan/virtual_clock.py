"""Runs a plan against a bandwidth model on a virtual clock: deterministic, for tests and for `tencache plan`."""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from tencache.plan.activation_plan import ActivationTraffic, again_choices, floor_offloaded_bytes
from tencache.plan.kept_state import KeepOffer, choices, kept_bytes, with_kept
from tencache.plan.planner import STRATEGIES, plan_ahead, plans_early, used_units
from tencache.plan.step_plan import Load, StepPlan
from tencache.plan.step_trace import StepTrace, Update
from tencache.plan.update_order import order_updates

# When the optimizer's updates are computed: while everything else waits; on the host after step() has returned, each
# ahead of its upload; or that, and those of `StepPlan.early` on speculation, within backward.
UpdateTime = Literal["after", "late", "within"]
UPDATE_TIMES: tuple[UpdateTime, ...] = get_args(UpdateTime)
WARM_CYCLES = 2
NEAR_FLOOR = 1.001
NOTHING_KEPT = KeepOffer((), 0)


@dataclass(frozen=True)
class Bandwidths:
    """Bytes per second of each way, latency of a copy, room for what is on its way, and when updates are computed."""

    up: float
    down: float
    file_read: float = 2e9
    file_write: float = 2e9
    latency_s: float = 2e-5
    gradient_window_bytes: int = 2**62
    staging_bytes: int = 2**62
    # The host's memory for second copies of what is updated on speculation.
    second_bytes: int = 2**62
    # Early updates of large parameters follow their gradients, and are followed by their uploads, in such pieces.
    piece_bytes: int = 2**62
    updates: UpdateTime = "after"
    # The device's memory for what autograd saves; what is beyond it goes to the host and back. None: all of it stays.
    activation_bytes: int | None = None


@dataclass(frozen=True)
class TimelineBar:
    """One bar of the timeline."""

    lane: str
    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class StepCost:
    """What one steady cycle costs."""

    policy: str
    step_s: float
    compute_s: float
    stall_s: float
    bound_s: float
    up_bytes: int
    up_floor_bytes: int
    down_bytes: int
    file_bytes: int
    touches: int
    hits: int
    ready: int
    peak_bytes: int
    budget_bytes: int
    offloaded_bytes: int = 0
    spans: tuple[TimelineBar, ...] = field(default=(), repr=False)

    @property
    def of_bound(self) -> float:
        """Return the bound as a share of the step; 1.0 cannot be beaten."""
        return self.bound_s / self.step_s if self.step_s else 1.0

    @property
    def hit_rate(self) -> float:
        """Return the share of touches that found their unit on the device or on its way."""
        return self.hits / self.touches if self.touches else 1.0

    @property
    def ready_rate(self) -> float:
        """Return the share of touches that did not wait."""
        return self.ready / self.touches if self.touches else 1.0


def without_early(updates: UpdateTime) -> UpdateTime:
    """Return when updates are computed if none may be within backward."""
    return "late" if updates == "within" else updates


def bound_s(plan: StepPlan, speeds: Bandwidths) -> float:
    """Return the least time that any plan needs: that of compute, of the host's updates, or of the busiest way's bytes.

    The device computes and the host updates at the same time, unless updates come after everything else.
    """
    trace = plan.trace
    file_s = sum(update.file_bytes for update in trace.updates) / min(speeds.file_read, speeds.file_write)
    busy_s = trace.compute_s if speeds.updates == "after" else max(trace.device_s, trace.host_s)
    saved = floor_offloaded_bytes(trace.saves, speeds.activation_bytes)
    up_s, down_s = (plan.up_floor_bytes + saved) / speeds.up, (trace.grad_bytes + saved) / speeds.down
    return max(busy_s, up_s, down_s, file_s)


def replay_plan(plan: StepPlan, speeds: Bandwidths) -> StepCost:
    """Return what a cycle costs, measured on the third: the first two settle what is on the device."""
    clock, began = _run(plan, speeds)
    trace = plan.trace
    return StepCost(
        policy=plan.policy,
        step_s=clock.now - began,
        compute_s=trace.compute_s,
        stall_s=clock.stall_s,
        bound_s=bound_s(plan, speeds),
        up_bytes=plan.up_bytes + clock.activations.bytes,
        up_floor_bytes=plan.up_floor_bytes + floor_offloaded_bytes(trace.saves, speeds.activation_bytes),
        down_bytes=trace.grad_bytes + clock.activations.bytes,
        offloaded_bytes=clock.activations.bytes,
        file_bytes=clock.file_bytes,
        touches=clock.touches,
        hits=clock.hits,
        ready=clock.ready,
        peak_bytes=plan.peak_bytes + plan.kept_bytes,
        budget_bytes=plan.budget_bytes + plan.kept_bytes,
        spans=tuple(TimelineBar(s.lane, s.name, s.start_s - began, s.end_s - began) for s in clock.spans),
    )


def step_s(plan: StepPlan, speeds: Bandwidths) -> float:
    """Return the seconds of one steady cycle."""
    clock, began = _run(plan, speeds)
    return clock.now - began


def _run(plan: StepPlan, speeds: Bandwidths) -> tuple["_Clock", float]:
    clock = _Clock(plan, speeds)
    for _ in range(WARM_CYCLES):
        clock.cycle()
    clock.reset()
    began = clock.now
    clock.cycle()
    return clock, began


def best_plan(trace: StepTrace, budget_bytes: int, speeds: Bandwidths, offer: KeepOffer = NOTHING_KEPT) -> StepPlan:
    """Return the fastest plan, by its replay, with a part of what is offered kept on the device or not.

    What does not fit of what autograd saves goes to the host, or a part of it is computed again, whichever is faster.
    """
    plans = [_best_moving(trace, budget_bytes, speeds)]
    for kept in choices(trace, offer):
        taken = kept_bytes(kept)
        plan = _best_moving(with_kept(trace, kept, offer.candidates), budget_bytes - taken, speeds)
        units = frozenset(unit for one in kept for unit in one.units)
        plans.append(replace(plan, kept=units, kept_bytes=taken))
    best = _fastest(plans, speeds)
    choices_again = again_choices(trace.saves, speeds.activation_bytes)
    return _fastest([best, *(replace(best, again=again) for again in choices_again)], speeds)


def _best_moving(trace: StepTrace, budget_bytes: int, speeds: Bandwidths) -> StepPlan:
    """Return the fastest plan of those that the eviction strategies give, with early updates or not."""
    plans = [plan_ahead(trace, budget_bytes, STRATEGIES[0])]
    if plans[0].up_bytes > NEAR_FLOOR * plans[0].up_floor_bytes:
        plans += [plan_ahead(trace, budget_bytes, strategy) for strategy in STRATEGIES[1:]]
    best = _fastest(plans, speeds)
    return best if speeds.updates != "within" else _fastest([best, *plans_early(best, speeds.second_bytes)], speeds)


def _fastest(plans: list[StepPlan], speeds: Bandwidths) -> StepPlan:
    """Return the fastest of some plans; of equal ones that which moves, or copies, least."""
    if len(plans) == 1:
        return plans[0]
    return min(plans, key=lambda plan: (round(step_s(plan, speeds), 4), plan.up_bytes, plan.second_bytes))


class _Clock:
    """Compute, the host, the way up, the way down and the file, each with the time from which it is free."""

    def __init__(self, plan: StepPlan, speeds: Bandwidths) -> None:
        self.plan = plan
        self.speeds = speeds
        self.now = 0.0
        self._up_free = self._down_free = self._read_free = self._write_free = self._host_free = 0.0
        self._owed_until = 0.0
        self._done_at: list[float] = []
        # When a unit's first piece is updated, and when all of it is; the same of gradients that have landed.
        self._updated: dict[int, tuple[float, float]] = {}
        self._first_landed: dict[int, float] = {}
        self._early: set[int] = set()
        self._closing: list[tuple[float, Load]] = []
        self._closing_rows = {row.unit: row for row in plan.closing}
        self._closed: set[int] = set()
        self._update_of = {unit: index for index, update in enumerate(plan.trace.updates) for unit in update.units}
        self._last_grad = {grad.unit: index for index, grad in enumerate(plan.trace.grads)}
        self._landed: dict[int, float] = {}
        self.activations = ActivationTraffic(plan.trace.saves, speeds.activation_bytes, plan.again)
        self._in_flight: deque[tuple[float, int]] = deque()
        self._staged: deque[tuple[float, int]] = deque()
        self._arrived: dict[int, float] = {unit: 0.0 for unit, _ in plan.carried}
        self._grads_after: dict[int, list[int]] = {}
        self._rows_for: dict[int, list[Load]] = {}
        for index, grad in enumerate(plan.trace.grads):
            self._grads_after.setdefault(grad.op, []).append(index)
        for row in plan.loads:
            self._rows_for.setdefault(row.need, []).append(row)
        self.reset()

    def reset(self) -> None:
        self.stall_s = 0.0
        self.touches = self.hits = self.ready = self.file_bytes = 0
        self.spans: list[TimelineBar] = []

    def cycle(self) -> None:
        trace = self.plan.trace
        self.activations.begin()
        self._close(None)
        self._next_row = len(self.plan.opening)
        self._done_at = [self.now]
        self._unopened = [row for row in self.plan.opening if row.unit not in self._closed]
        self._closed.clear()
        if self.plan.eager:
            self._open(tuple(row.unit for row in self._unopened if row.unit not in trace.written))
        pending = [index for index, update in enumerate(trace.updates) if update.units and index not in self._early]
        self._early.clear()
        if self.speeds.updates == "within":
            self._wait_until(self._host_free)
        if self.speeds.updates == "after":
            while pending:
                self._update(trace.updates[self._choose(pending)])
        else:
            self._promise([trace.updates[index] for index in pending])
        # What stays on the device is updated there, within step().
        self._compute("optimizer", trace.update_s - trace.host_s)
        self._open(None)
        for index in range(len(trace.ops)):
            self._op(index)

    def _choose(self, pending: list[int]) -> int:
        """Take the update that is needed first or, while its gradients are on their way, the landed one needed last."""
        updates = self.plan.trace.updates
        landed = [self._landed_at(updates[index]) for index in pending]
        if landed[0] <= self.now or min(landed) > self.now:
            return pending.pop(0 if landed[0] <= self.now else landed.index(min(landed)))
        return pending.pop(max(rank for rank, when in enumerate(landed) if when <= self.now))

    def _landed_at(self, update: Update) -> float:
        return max((self._landed.get(unit, 0.0) for unit in update.units), default=0.0)

    def _update(self, update: Update) -> None:
        read = self._stage(update.file_bytes) if update.file_bytes else 0.0
        self._wait_until(max(self._landed_at(update), read))
        self._compute("optimizer", update.compute_s)
        self._write_behind(update, self.now)
        if self.plan.eager:
            self._open(update.units)

    def _promise(self, updates: list[Update]) -> None:
        """Leave the updates to the host, each once its gradients are there and the last step's are done."""
        self._wait_until(self._owed_until)
        landed_s = [self._landed_at(update) for update in updates]
        seconds = [max(update.compute_s, self._opening_bytes(update) / self.speeds.up) for update in updates]
        for index in order_updates(landed_s, seconds, max(self.now, self._host_free)):
            self._on_host(updates[index], self._landed_at(updates[index]))
            if self.plan.eager:
                self._open(updates[index].units)
        self._wait_until(max(landed_s, default=0.0))
        self._owed_until = self._host_free

    def _opening_bytes(self, update: Update) -> int:
        return sum(row.bytes for row in self._unopened if row.unit in update.units) if self.plan.eager else 0

    def _on_host(self, update: Update, ready: float) -> None:
        """Let the host carry out an update as soon as it can, once this much of its gradients is there."""
        read = self._stage(update.file_bytes) if update.file_bytes else 0.0
        start = max(self._host_free, self.now, ready, read)
        landed = self._landed_at(update)
        pieces = self._pieces(sum(self.plan.trace.units[unit].bytes for unit in update.units)) if ready < landed else 1
        piece_s = update.compute_s / pieces
        self._host_free = max(start + update.compute_s, landed + piece_s)
        self.spans.append(TimelineBar("host", "optimizer", start, self._host_free))
        self._updated.update(dict.fromkeys(update.units, (start + piece_s, self._host_free)))
        self._write_behind(update, self._host_free)

    def _pieces(self, size_bytes: int) -> int:
        return max(-(-size_bytes // self.speeds.piece_bytes), 1)

    def _first_landed_at(self, update: Update) -> float:
        return max((self._first_landed.get(unit, 0.0) for unit in update.units), default=0.0)

    def _write_behind(self, update: Update, at: float) -> None:
        if update.file_bytes:
            self._write_free = max(self._write_free, at) + update.file_bytes / self.speeds.file_write
            self._staged.append((self._write_free, update.file_bytes))
            self.file_bytes += update.file_bytes

    def _speculate(self, grad: int) -> None:
        """Begin an update within backward, if the plan has it there and this was the last gradient that it needs."""
        unit = self.plan.trace.grads[grad].unit
        index = self._update_of.get(unit)
        if index not in self.plan.early or self._last_grad[unit] != grad:
            return
        update = self.plan.trace.updates[index]
        if all(self._last_grad.get(one, grad) <= grad for one in update.units):
            # Pieces are those of one parameter.
            alone = len(used_units(self.plan.trace, index)) == 1
            self._on_host(update, self._first_landed_at(update) if alone else self._landed_at(update))
            self._early.add(index)
            rows = [self._closing_rows[one] for one in update.units if one in self._closing_rows]
            self._closing += [(self._updated[row.unit][0], row) for row in rows]

    def _close(self, now: float | None) -> None:
        """Start the closing rows whose update is done by now, or all that are left."""
        done = len(self._done_at) - 1
        due = [(at, row) for at, row in self._closing if now is None or (at <= now and row.trigger <= done)]
        self._closing = [pair for pair in self._closing if pair not in due]
        for at, row in due:
            self._closed.add(row.unit)
            self._carry(row, at=at)

    def _op(self, index: int) -> None:
        op = self.plan.trace.ops[index]
        # What this cycle needs goes before what the next one needs.
        self._issue()
        self._close(self.now)
        demanded = {row.unit for row in self._rows_for.get(index, ()) if self._on_demand(row)}
        self._bring_back(index)
        ready = max((self._arrived.get(unit, 0.0) for unit in op.needed), default=0.0)
        ready = max(ready, self.activations.ready_at(index))
        self.touches += len(op.touched)
        self.hits += sum(unit not in demanded for unit in op.touched)
        self.ready += sum(self._arrived.get(unit, 0.0) <= self.now for unit in op.touched)
        self._wait_until(ready)
        self._compute(op.phase, op.compute_s + self.activations.again_s(index))
        for number, size_bytes in self.activations.leaving(index):
            self._down_free = self._moved("down", "activation", max(self._down_free, self.now), size_bytes)
            self.activations.left(number, self._down_free)
        for grad in self._grads_after.get(index, ()):
            self._send_gradient(grad)
        self._done_at.append(self.now)

    def _bring_back(self, index: int) -> None:
        """Start what autograd saved, and is to be on the device again, on its way up."""
        for number, size_bytes, left_at in self.activations.due(index):
            self._up_free = self._moved("up", "activation", max(self._up_free, self.now, left_at), size_bytes)
            self.activations.came_back(number, self._up_free)

    def _moved(self, lane: Literal["up", "down"], name: str, start: float, size_bytes: int) -> float:
        """Return when a copy that starts then is over."""
        end = start + self.speeds.latency_s + size_bytes / (self.speeds.up if lane == "up" else self.speeds.down)
        self.spans.append(TimelineBar(lane, name, start, end))
        return end

    def _on_demand(self, row: Load) -> bool:
        return row.trigger == row.need and not (self.plan.eager and row.trigger == 0)

    def _compute(self, name: str, seconds: float) -> None:
        self.spans.append(TimelineBar("compute", name, self.now, self.now + seconds))
        self.now += seconds

    def _wait_until(self, ready: float) -> None:
        if ready > self.now:
            self.spans.append(TimelineBar("stall", "wait", self.now, ready))
            self.stall_s += ready - self.now
            self.now = ready

    def _issue(self) -> None:
        """Start every row whose trigger has passed, in order."""
        rows = self.plan.loads
        while self._next_row < len(rows) and rows[self._next_row].trigger < len(self._done_at):
            row = rows[self._next_row]
            self._carry(row, at=self._done_at[row.trigger])
            self._next_row += 1

    def _open(self, units: tuple[int, ...] | None) -> None:
        """Start the opening rows of these units, or all that are left."""
        chosen = [row for row in self._unopened if units is None or row.unit in units]
        for row in chosen:
            self._unopened.remove(row)
            self._carry(row, at=self.now)

    def _carry(self, row: Load, at: float) -> None:
        unit = self.plan.trace.units[row.unit]
        first, last = self._updated.get(row.unit, (0.0, 0.0))
        start = max(self._up_free, at, first)
        if unit.tier == "file":
            start = max(start, self._stage(row.bytes))
        pieces = self._pieces(row.bytes) if last > start else 1
        moved = start + pieces * self.speeds.latency_s + row.bytes / self.speeds.up
        self._up_free = max(moved, last + self.speeds.latency_s + row.bytes / pieces / self.speeds.up)
        if unit.tier == "file":
            self._staged.append((self._up_free, row.bytes))
        self._arrived[row.unit] = self._up_free
        self.spans.append(TimelineBar("up", unit.name, start, self._up_free))

    def _stage(self, size_bytes: int) -> float:
        """Read from the file into staging memory, as far ahead as that memory allows."""
        begin = self._read_free
        while self._staged and sum(size for _, size in self._staged) + size_bytes > self.speeds.staging_bytes:
            begin = max(begin, self._staged.popleft()[0])
        self._read_free = begin + size_bytes / self.speeds.file_read
        self.file_bytes += size_bytes
        return self._read_free

    def _send_gradient(self, index: int) -> None:
        grad = self.plan.trace.grads[index]
        while self._in_flight and self._in_flight[0][0] <= self.now:
            self._in_flight.popleft()
        while self._in_flight and self._flying() + grad.bytes > self.speeds.gradient_window_bytes:
            self._wait_until(self._in_flight.popleft()[0])
        start = max(self._down_free, self.now)
        self._down_free = start + self.speeds.latency_s + grad.bytes / self.speeds.down
        self._landed[grad.unit] = self._down_free
        behind = 1 - 1 / self._pieces(grad.bytes)
        self._first_landed[grad.unit] = self._down_free - behind * grad.bytes / self.speeds.down
        self._in_flight.append((self._down_free, grad.bytes))
        self.spans.append(TimelineBar("down", self.plan.trace.units[grad.unit].name, start, self._down_free))
        if self.speeds.updates == "within":
            self._speculate(index)

    def _flying(self) -> int:
        return sum(size for _, size in self._in_flight)
