"""Follows a model through its steps: what moves when something is touched, or has changed."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Event

import torch
from torch import Tensor

from tencache.plan.plan_follower import PlanFollower
from tencache.plan.step_plan import Load, StepPlan
from tencache.plan.step_trace import Phase, Update
from tencache.plan.virtual_clock import Bandwidths
from tencache.plan.working_units import WorkingUnits
from tencache.runtime.counters import Counters
from tencache.runtime.cycle.leaf_writes import LeafWrites
from tencache.runtime.cycle.plan_book import CycleKind, PlanBook, RunningCycle
from tencache.runtime.cycle.recorder import Recorder
from tencache.runtime.cycle.running_threads import RunningBackward, RunningForward
from tencache.runtime.memory.device_arena import Arena
from tencache.runtime.memory.link import Link
from tencache.runtime.tensors.activations import Activations
from tencache.runtime.tensors.device_copies import DeviceCopies, InUseError
from tencache.runtime.tensors.gradients import Gradients
from tencache.runtime.tensors.kept_bytes import KeptBytes
from tencache.runtime.tensors.masters import Masters
from tencache.runtime.tensors.parameter_entry import ParameterEntry
from tencache.runtime.unrouted import Bookkeeping

READ_AHEAD_ROWS = 8


class Engine:
    """Decides, on every touch, what moves."""

    def __init__(
        self,
        working: WorkingUnits,
        entries: Sequence[ParameterEntry],
        device_copies: DeviceCopies,
        gradients: Gradients,
        masters: Masters,
        link: Link,
        counters: Counters,
        speeds: Bandwidths,
        policy: str,
        *,
        stepped: bool,
        activations: Activations | None = None,
    ) -> None:
        self.units = working.units
        self.working = working
        self.entries = entries
        self.device_copies = device_copies
        self.gradients = gradients
        self._masters = masters
        self.link = link
        self.activations = activations
        self.kept = KeptBytes(device_copies, masters)
        self.counters = counters
        self.plans = PlanBook(working, device_copies.arena.size_bytes, counters, speeds, policy)
        self._stepped = stepped
        self.changed_at_node = 0
        self.stepped_in_autocast = False
        self._versions = [entry.parameter._version for entry in entries]  # noqa: SLF001
        self.leaves = LeafWrites(entries, device_copies, working)
        # Units that user code holds an alias of on the host, through which it may write without a trace.
        self.exposed: set[int] = set()
        # How often a view of each was given out.
        self.exposures: Counter[int] = Counter()
        self._backward = RunningBackward()
        self.forward = RunningForward(self._backward)
        self._backward_id = -1
        self._running: tuple[int, ...] = ()
        self._suspects: set[int] = set()
        self._node: int | None = None
        self._interrupted: RunningCycle | None = None
        # Units whose next values are computed, with those, in the order in which the optimizer's thread was done; of
        # large ones those of which a piece is, with an event for each piece.
        self.computed_early: deque[tuple[int, Tensor, Sequence[Event]]] = deque()
        self.cycle = RunningCycle("train", Recorder(self.units, link), None)

    def begin_anew(self, arena: Arena, gone: set[int], beside_bytes: int) -> None:
        """Begin with another arena, and without units that are on the device for good from now on."""
        self.device_copies.begin_anew(arena, beside_bytes)
        self.plans.begin_anew(arena.size_bytes)
        for entry in self.entries:
            entry.unbind()
        self.exposed -= gone
        self._suspects.clear()
        self.computed_early.clear()
        self.leaves.begin_anew()
        self._versions = [entry.parameter._version for entry in self.entries]  # noqa: SLF001
        self._start("train")

    def order(self) -> list[int]:
        """Return the units in the order of first touch in this cycle; untouched ones come last."""
        touched = map(self.working.base, self.cycle.recorder.touched())
        return list(dict.fromkeys((*touched, *range(len(self.units)))))

    def form(self, entry: ParameterEntry, casts_to: torch.dtype | None) -> int:
        """Return the unit that an operation needs of a parameter: the whole, or the half if it is to be cast."""
        if casts_to is None:
            self.note_whole(entry)
            return entry.unit
        # A cast that autocast may keep is used without being asked for: it must be where its bytes are.
        if entry.half is None or entry.cast is not None:
            return entry.unit if entry.half is None else entry.half
        known = entry.half_dtype is casts_to and self.plans.halves(self.cycle.kind, entry.unit)
        # What user code can write to without a trace is cast when it is used, and autocast that goes on over a step
        # has casts of old values.
        if not known or self.stepped_in_autocast or self._masters.aliased(entry.unit):
            return entry.unit
        return entry.half

    def note_cast(self, entry: ParameterEntry, dtype: torch.dtype) -> None:
        """Take in that autocast casts a parameter."""
        entry.half_dtype = entry.half_dtype or dtype
        (self.cycle.cast if entry.half_dtype is dtype else self.cycle.whole).add(entry.unit)

    def use_whole(self, entry: ParameterEntry) -> None:
        """Bring all of a parameter for the running operation, which does something else than cast it."""
        self.note_whole(entry)
        self.bring_whole(entry)

    def bring_whole(self, entry: ParameterEntry) -> None:
        """Bring all of a parameter for the running operation, which was expected to need its working copy only."""
        if entry.unit not in self._running:
            # Without a cast of it nothing reads the half: its place may be needed for the whole.
            if entry.cast is None and not self.device_copies.held([entry.half]):  # type: ignore[list-item]
                self._running = tuple(unit for unit in self._running if unit != entry.half)
            self._widen(entry.unit)
        self.device_copies.bindings.bind(entry)

    def note_whole(self, entry: ParameterEntry) -> None:
        """Take in that an operation uses a parameter as it is, not cast."""
        self.cycle.whole.add(entry.unit)
        if torch.is_grad_enabled() and entry.parameter.requires_grad:
            entry.used_whole = True

    def begin_op(self, units: Sequence[int]) -> None:
        """Bring a forward operation's units to the device."""
        self.enter_backward()
        self._begin(units, "forward", exactly=True)
        # A forward inside backward (a block that is recomputed) ends the turn of the node that asked for it.
        self._node = None

    def end_op(self) -> None:
        """End the running operation: its units may be evicted, and rows may be due."""
        running = self._running
        if not running:
            return
        # A view made by this operation may live on, in user code or in the graph: it is asked again until it is gone.
        slots = self.device_copies.slots
        for unit in running:
            slot = slots.get(unit)
            if slot is not None and slot.in_use():
                self._suspects.add(unit)
        self._running = ()
        follower = self.cycle.follower
        if follower is not None:
            follower.done += 1
            if follower.plan.eager and (follower.done >= follower.next_trigger or self._masters.any_filed):
                # A view may live until just before the next operation: then its place is taken there, not here.
                self._issue_due(follower, last_chance=False)
            # What this cycle needs goes before what the next one needs.
            if self.computed_early:
                self._close(follower)

    def _close(self, follower: PlanFollower) -> None:
        """Send next values up to where the next cycle has them, if their turn has come and their place is free."""
        for _ in range(len(self.computed_early)):
            base, second, pieces = self.computed_early.popleft()
            closing = follower.closing
            row = next((closing[unit] for unit in self.working.forms([base]) if unit in closing), None)
            if row is not None and row.trigger > follower.done:
                self.computed_early.append((base, second, pieces))
            elif row is not None:
                # In use, it goes up when step() asks for it.
                with suppress(InUseError):
                    self.device_copies.load_ahead(row, second, pieces)

    def close_due(self) -> None:
        """Send next values up whose turn has come, before step() waits for the others."""
        self.end_op()
        if self.cycle.follower is not None:
            self._close(self.cycle.follower)

    @property
    def running(self) -> tuple[int, ...]:
        """Return the units of the operation that runs."""
        return self._running

    def begin_backward(self, unit: int, beside: Sequence[int] = ()) -> None:
        """Bring a unit that a node of the backward graph unpacks to the device.

        A node may unpack several, of those that its operation had `beside` it in the forward.
        """
        self.enter_backward()
        # On CUDA this runs on autograd's own thread. The thread that called backward() waits meanwhile, so there is
        # still only one thread in the engine at a time, and it needs no lock.
        node = torch._C._current_autograd_node()  # noqa: SLF001  no public name gives it
        number = None if node is None else node._sequence_nr()  # noqa: SLF001
        # What one node unpacks must be there together: it computes only when it has all of it.
        if number is not None and number == self._node and self._running:
            self._widen(unit)
            return
        self._begin((unit,), "backward", exactly=False, beside=beside)
        self._node = number

    def gradient(self, entry: ParameterEntry, gradient: Tensor) -> None:
        """Send a gradient to the host; the operation that made it is over."""
        self.end_op()
        # It lands in, or is added to, what an update of this parameter may still be reading.
        self._masters.pending.wait(entry.unit)
        # Waiting for room on the way down is no compute: counted as such, the replay would think the step slower.
        recorder = self.cycle.recorder
        if recorder.timed:
            recorder.pause()
        size_bytes = self.gradients.send(entry, gradient)
        self.counters.down_floor_bytes += size_bytes
        if recorder.timed:
            recorder.grad(entry.unit, size_bytes)
            recorder.resume()

    def forward_begins(self, *, evaluating: bool) -> None:
        """Begin a forward; one without gradients is a cycle of its own."""
        # An evaluation during training evicts what the training plan put there; forward_ends() brings it back.
        if evaluating:
            self._interrupted = self.cycle
            self._start("eval")
        elif not self._stepped and self.cycle.recorder.saw_backward():
            # Without an optimizer of ours to mark it, a step ends where the forward after its backward begins.
            self.plans.finish(self.cycle, ())
            self._start("train")

    def forward_ends(self) -> None:
        """End a forward; after one without gradients, go back to the training cycle."""
        self.end_op()
        if self._interrupted is not None:
            self.plans.finish(self.cycle, ())
            self.cycle, self._interrupted = self._interrupted, None
            self._restore()
        self.leaves.refuse_written()

    def step_begins(self, updates: Iterable[Update], commit: Callable[[], None] = lambda: None) -> None:
        """End the cycle, and start the next one, which begins with the optimizer's updates; `commit` makes early ones.

        What it makes them of was computed within backward. It is called when nothing needs the old values any more.
        """
        self.end_op()
        self.leaves.refuse_written()
        self.kept.before_change(self.entries)
        # The updates write to host memory that uploads may still be reading.
        self.device_copies.settle()
        self.link.resolve(wait=False)
        self.counters.steps += 1
        commit()
        self.computed_early.clear()
        self.device_copies.drop_ahead()
        self.plans.finish(self.cycle, updates)
        self._start("train")

    def replaced(self, units: Sequence[int]) -> None:
        """Take in that early updates of these units stand: next values that have gone up are the values now."""
        forms = self.working.forms(units)
        self.device_copies.drop(forms)
        self.device_copies.confirm(forms)

    def updated(self, units: Sequence[int]) -> None:
        """Drop the stale copies, and send the new bytes to the device if their place is free."""
        self._masters.note_updated(units)
        # Dropped first, since a row may put the new bytes where the stale ones lie.
        forms = self.working.forms(units)
        self.device_copies.drop(forms)
        self.open_rows(units)

    def open_rows(self, units: Sequence[int]) -> None:
        """Send units that are up to date to the device, if the plan has them there now and they are not."""
        if self.cycle.follower is not None:
            rows = self.cycle.follower.opened_by(self.working.forms(units))
            self._issue([row for row in rows if not self.device_copies.has(row.unit, row.offset)])

    def sending_s(self, units: Sequence[int]) -> float:
        """Return how long the uploads take that wait for the update of these units."""
        follower = self.cycle.follower
        return 0.0 if follower is None else follower.opening_bytes(self.working.forms(units)) / self.plans.speeds.up

    def step_ends(self) -> None:
        """Remember the parameters' versions, so that later writes by user code are seen."""
        self._note_change()
        self.stepped_in_autocast = torch.is_autocast_enabled(self.entries[0].leaf.device.type)
        # The optimizer's own writes raised the versions as well, and those bytes are on their way already.
        self._versions = [entry.parameter._version for entry in self.entries]  # noqa: SLF001

    def _begin(self, units: Sequence[int], phase: Phase, *, exactly: bool, beside: Sequence[int] = ()) -> None:
        self.end_op()
        held = self._held(units) if self._suspects else []
        self.cycle.recorder.op(units, held, phase)
        if self.activations is not None:
            with Bookkeeping():
                self.activations.advance(self.cycle.recorder.op_count - 1)
        follower = self.cycle.follower
        # Nearly always everything is where it should be, and nothing is due.
        if (
            follower is not None
            and follower.done < follower.next_trigger
            and not self._masters.any_filed
            and follower.expects(units, exactly=exactly)
            and self.device_copies.touch_ready(units)
        ):
            self.cycle.recorder.resume()
            self._running = tuple(units)
            return
        self.device_copies.count(units)
        if follower is not None:
            if follower.expects(units, exactly=exactly):
                self._issue_due(follower, last_chance=True)
            else:
                self._leave_plan()
        # After the rows that were due: a unit that one of them has just sent for is no load on demand.
        # Planned, they have places that all fit.
        self._require(units, held, beside if self.cycle.follower is None else ())
        self._running = tuple(units)

    def _widen(self, unit: int) -> None:
        if unit in self._running:
            return
        self.cycle.recorder.pause()
        self.cycle.recorder.also_touches(unit)
        self.device_copies.count((unit,))
        follower = self.cycle.follower
        if follower is not None and not follower.expects((unit,), exactly=False):
            self._leave_plan()
        self._require((*self._running, unit), self._held((*self._running, unit)))
        self._running = (*self._running, unit)

    def _require(self, units: Sequence[int], held: Sequence[int], beside: Sequence[int] = ()) -> None:
        # A load on demand took a place that the plan meant for another unit: no later row can be trusted.
        if self.device_copies.require(units, held, beside):
            self._leave_plan()
        self.cycle.recorder.resume()

    def _held(self, units: Sequence[int]) -> list[int]:
        self._suspects = set(self.device_copies.held(self._suspects))
        return [unit for unit in self._suspects if unit not in units]

    def _issue_due(self, follower: PlanFollower, *, last_chance: bool) -> None:
        while (row := follower.due()) is not None:
            try:
                self.device_copies.load(row)
            except InUseError:
                # The rows behind it wait too: they may count on the place that this one frees.
                if last_chance:
                    self._leave_plan()
                return
            follower.issued(row)
        if self._masters.any_filed:
            self._masters.read_ahead(row.unit for row in follower.upcoming(READ_AHEAD_ROWS))

    def _issue(self, rows: Iterable[Load]) -> None:
        try:
            for row in rows:
                self.device_copies.load(row)
        except InUseError:
            self._leave_plan()

    def _leave_plan(self) -> None:
        """Load on demand for the rest of the cycle; the next one is planned from what this one turns out to be."""
        if self.cycle.follower is not None:
            self.cycle.follower = None
            self.counters.order_changes += 1

    def aliased(self, unit: int) -> bool:
        """Return whether user code holds a view of a unit's memory on the host."""
        return self._masters.aliased(unit)

    def expose(self, units: Iterable[int]) -> list[int]:
        """Take in that operations on the host have given out views of these units; return those that are aliased."""
        given = [unit for unit in units if self._masters.aliased(unit)]
        self.exposed.update(given)
        self.exposures.update(given)
        if given:
            self._note_change()
        return given

    def take_in_changes(self) -> None:
        """Drop the device copies of parameters that user code has written to, or may have."""
        if changed := self.changed_units():
            self._note_change()
            self._masters.take_in_moved(changed)
            self._versions = [entry.parameter._version for entry in self.entries]  # noqa: SLF001
            self.device_copies.drop(self.working.forms(changed))
        self.exposed.update(self._masters.elsewhere())
        # Between forward and backward nothing is closed: the file's bytes are older than those in memory by then.
        self._masters.note_changed(changed | self.exposed)
        if self.exposed:
            self._note_change()
            self.device_copies.drop(self.working.forms(self.exposed))
            self.exposed = {unit for unit in self.exposed if self._masters.aliased(unit)}

    def assigned(self, unit: int) -> None:
        """Take in that a parameter was given other data, which torch does not count as a change."""
        self._note_change()
        self.exposed.add(unit)

    def enter_backward(self) -> None:
        """Take in what was written between forward and backward: a block that is recomputed must see it."""
        backward_id = torch._C._current_graph_task_id()  # noqa: SLF001
        if backward_id not in {-1, self._backward_id}:
            self._backward.begin(self.forward)
            self._backward_id = backward_id
            # The node that is asked first may be the one that another backward asked last: what that has is dropped.
            self.end_op()
            self._node = None
            self.take_in_changes()

    def _note_change(self) -> None:
        """Remember that casts of parameters made until now may be out of date."""
        self.changed_at_node = torch._C._autograd._get_sequence_nr()  # noqa: SLF001  no public name gives it

    def changed_units(self) -> set[int]:
        """Return the units that user code has written to since the last step."""
        versions = [entry.parameter._version for entry in self.entries]  # noqa: SLF001
        if versions == self._versions:
            return set()
        changed = zip(self.entries, versions, self._versions, strict=True)
        return {entry.unit for entry, now, before in changed if now != before}

    def _start(self, kind: CycleKind) -> None:
        plan = self.plans.get(kind)
        recorder = Recorder(self.units, self.link, timed=not self.plans.is_settled(kind))
        self.cycle = RunningCycle(kind, recorder, PlanFollower(plan) if plan is not None else None)
        if plan is not None:
            self.counters.up_floor_bytes += plan.up_floor_bytes
            self._begin_offloading(kind, plan)
            # What the plan takes to be on the device already is there, unless this is its first cycle or one was left.
            carried = [Load(unit, offset, self.units[unit].bytes, 0, 0) for unit, offset in plan.carried]
            self._issue([row for row in carried if not self.device_copies.has(row.unit, row.offset)])
            # Nothing, if one of these was in use and the plan is left already.
            if self.cycle.follower is not None:
                self._issue(self.cycle.follower.opened_by(set(range(len(self.units))) - plan.trace.written))

    def _begin_offloading(self, kind: CycleKind, plan: StepPlan) -> None:
        """Let what autograd saves in this cycle go where the plan has it."""
        offloads = self.plans.offloads(kind)
        if self.activations is not None and offloads is not None and kind == "train":
            rows, floor_bytes = offloads
            self.activations.begin(rows, plan.trace.saves, plan.again)
            self.counters.up_floor_bytes += floor_bytes
            self.counters.down_floor_bytes += floor_bytes

    def _restore(self) -> None:
        follower = self.cycle.follower
        if follower is not None:
            self._issue([row for row in follower.expected() if not self.device_copies.has(row.unit, row.offset)])
