"""The optimizer's step on the host, in slices: each parameter goes up again as soon as its own update is done."""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tencache.plan.step_trace import Update
from tencache.plan.update_order import order_updates
from tencache.runtime.cycle.engine import Engine
from tencache.runtime.optimizer.cache_pieces import may_be_cut, step_in_pieces
from tencache.runtime.optimizer.early_updates import EarlyUpdates
from tencache.runtime.optimizer.filed_state import FiledState, StateStore, is_opened
from tencache.runtime.optimizer.held_elsewhere import gradient_is_held, state_is_held
from tencache.runtime.optimizer.known_optimizers import may_be_late, may_be_sliced, raw_step
from tencache.runtime.optimizer.slices import Slice, cut_slices
from tencache.runtime.optimizer.stand_in import StandIn, same_elsewhere, settings_can_be_frozen
from tencache.runtime.optimizer.update_thread import UpdateThread
from tencache.runtime.optimizer.watched_state import WatchedState
from tencache.runtime.tensors.masters import Masters
from tencache.runtime.tensors.parameter_entry import ParameterEntry, bump_version, flat
from tencache.runtime.unrouted import Routed, Unrouted

SLICE_BYTES = 8 * 2**20


class Stepper:
    """Stands in for `optimizer.step`.

    A slice that nobody outside can look at is promised, and updated after `step()` has returned, ahead of its upload.
    The others are updated at once.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        engine: Engine,
        masters: Masters,
        store: StateStore | None,
        slice_bytes: int = SLICE_BYTES,
        *,
        overlap: bool = True,
    ) -> None:
        self.optimizer = optimizer
        self.store = store
        self._slice_bytes = slice_bytes
        self._engine = engine
        self._masters = masters
        self.sliced = may_be_sliced(optimizer)
        self._raw = raw_step(optimizer)
        self._slices: list[Slice] = []
        self._order: list[int] = []
        self._settled: set[int] = set()
        self._members: list[list[int]] = []
        self._overlap = overlap and may_be_late(optimizer)
        self._thread = UpdateThread(masters.pending)
        # By how much an update raises each parameter's version; known once it has been updated at once.
        self._raises: dict[int, int] = {}
        self._promised: deque[Slice] = deque()
        # Parameters of the slice that is updated at once whose state user code holds.
        self._watched: set[int] = set()
        self._early = EarlyUpdates(optimizer, self._raw, engine, masters, self._thread, store)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter; those that the next forward needs first come first."""
        if not self.sliced:
            return self._step_whole(closure)
        # The closure runs forward and backward, so it must be routed: it comes before Unrouted().
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with Unrouted():
            self.drain()
            self._state.begin_step([one for group in self.optimizer.param_groups for one in group["params"]])
            self._prepare()
            began = time.perf_counter()
            standing = self._early.take(self._slices, allowed=self._may_come_later())
            # The next cycle is planned before the first update, because each update starts uploads of that plan.
            updates = [self._update(part) for part in self._slices]
            self._engine.step_begins(updates, lambda: self._early.commit(standing))
            for update in standing:
                self._engine.open_rows(update.part.units)
            self._step_slices([update.part for update in standing])
            self._engine.step_ends()
            self._early.begin(self._engine.plans.get("train"), self._slices, self._raises)
            self._engine.counters.optimizer_s += time.perf_counter() - began
        return loss

    def arrived(self, entry: ParameterEntry) -> None:
        """Take in that a gradient is on its way to the host."""
        if self._overlap:
            self._early.arrived(entry, self._state)

    def _step_slices(self, standing: Sequence[Slice]) -> None:
        now = StandIn(self.optimizer, self._raw, frozen=False)
        later = StandIn(self.optimizer, self._raw, frozen=True) if self._may_come_later() else None
        parts = [part for part in self._slices if part not in standing]
        pending = parts if later is None else self._to_promise(parts)
        while pending:
            part = pending.pop(0) if later is not None else self._choose(pending)
            for entry in part.entries:
                self._engine.gradients.wait(entry)
            if later is not None and self._unseen(part):
                self._promise(part, later)
            else:
                self._run(part, now)

    def step_on_device(self, closure: Callable[[], Any] | None) -> Any:
        """Run the optimizer's own step, once everything it needs is on the device."""
        return self._raw(self.optimizer, closure)

    def drain(self) -> None:
        """Wait until every promised update is done, and raise if one failed."""
        self._masters.pending.wait_all()

    def let_go(self, entries: Sequence[ParameterEntry]) -> None:
        """Bring the state of parameters that this moves no more into memory, and cut the step anew."""
        for entry in entries:
            state = self._state.peek(entry.parameter)
            if self.store is not None and isinstance(state, FiledState):
                self._state.put(entry.parameter, self.store.let_go(state))
        self._order = []
        self._slices = []
        self._early.begin(None, (), self._raises)

    def look(self) -> None:
        """Let user code see, and change, everything: what was computed early does not count."""
        self._masters.looks.at_all()
        self.drain()

    def close(self) -> None:
        """Keep every promise, and give the optimizer its own container of state again."""
        self._thread.close()
        self._early.drop()
        if isinstance(self.optimizer.state, WatchedState):
            self.optimizer.state = self.optimizer.state.plain()

    def _step_whole(self, closure: Callable[[], Any] | None) -> Any:
        """Run the optimizer's own step on all of its parameters at once, and let it call the closure when it likes."""
        self._make_ready()

        def routed() -> Any:
            # What the optimizer has written so far is seen by the forward, as any write by user code is.
            self._take_in_assigned()
            with Routed():
                loss = None if closure is None else closure()
            self._make_ready()
            return loss

        with Unrouted():
            began = time.perf_counter()
            loss = self._raw(self.optimizer) if closure is None else self._raw(self.optimizer, routed)
            part = Slice([], tuple(self._written_units()), [])
            self._take_in_assigned()
            part.seconds = time.perf_counter() - began
            self._engine.step_begins([self._update(part)])
            self._engine.updated(part.units)
            for unit in part.units:
                self._masters.close(unit, changed=True)
            self._engine.step_ends()
            self._engine.counters.optimizer_s += time.perf_counter() - began
        return loss

    def _make_ready(self) -> None:
        """Bring every gradient and parameter to the host, and let no upload read what is about to be written."""
        with Unrouted():
            self._engine.end_op()
            self._engine.kept.before_change(self._engine.entries)
            self._engine.device_copies.settle()
            for entry in self._engine.entries:
                self._engine.gradients.wait(entry)
                self._masters.open(entry.unit)

    def _take_in_assigned(self) -> None:
        """Take in which parameters an optimizer has given other data: `p.data = p.data - rate * p.grad`."""
        with Unrouted():
            for unit in self._masters.take_in_moved({entry.unit for entry in self._engine.entries}):
                self._engine.assigned(unit)

    def _written_units(self) -> set[int]:
        known = {id(parameter) for group in self.optimizer.param_groups for parameter in group["params"]}
        mine = {entry.unit for entry in self._engine.entries if id(entry.parameter) in known}
        return mine | self._engine.changed_units()

    def forget(self) -> None:
        """Start over with where state is kept, after the optimizer was given another one."""
        self._settled.clear()
        if self.store is not None:
            self.store.forget()

    def read_ahead(self, pending: Sequence[Slice] | None = None) -> None:
        """Start reading the state that is needed next, as far as the staging memory goes."""
        if self.store is None:
            return
        early = self._early.upcoming()
        # Within backward those come first that are updated there; after it, when those that were promised are read.
        late = [part for part in self._slices if part not in early] if pending is None else pending
        for part in (*early, *late) if pending is None else (*late, *early):
            for entry in part.entries:
                if not self.store.read_ahead(self._state.peek(entry.parameter)):
                    return

    @property
    def _state(self) -> WatchedState:
        """Return the optimizer's state, watched; loading a state dict puts a plain container in its place."""
        state = self.optimizer.state
        if not isinstance(state, WatchedState):
            state = self.optimizer.state = WatchedState(self._masters.pending, self._masters.looks, state)
        return state

    def _prepare(self) -> None:
        """Cut the step into slices again if the order or the optimizer's parameters have changed."""
        order = self._engine.order()
        members = [[id(parameter) for parameter in group["params"]] for group in self.optimizer.param_groups]
        if (order, members) != (self._order, self._members):
            self._order, self._members = order, members
            self._slices = cut_slices(self.optimizer, self._engine.entries, order, self._slice_bytes)

    @property
    def _parameter_bytes(self) -> int:
        return sum(part.size_bytes for part in self._slices)

    def _update(self, part: Slice) -> Update:
        states = [self._state.peek(entry.parameter) for entry in part.entries]
        filed = sum(state.record.extent.bytes for state in states if isinstance(state, FiledState))
        kept = sum(_memory_bytes(state) for state in states if not isinstance(state, FiledState))
        return Update(part.units, part.seconds, filed, part.size_bytes + kept)

    def _to_promise(self, parts: list[Slice]) -> list[Slice]:
        """Return the slices in the order in which they are promised, and so updated and sent up."""
        # Promised in the order in which state is read ahead: out of turn, it would need staging memory of its own.
        if self.store is not None:
            return parts
        landed_s, flying_bytes = [0.0] * len(parts), 0
        # Gradients come in the opposite order of need, and those on their way land in the order in which they came.
        for index in reversed(range(len(parts))):
            if not self._landed(parts[index]):
                flying_bytes += parts[index].size_bytes
                landed_s[index] = flying_bytes / self._engine.plans.speeds.down
        order = order_updates(landed_s, [max(part.seconds, self._engine.sending_s(part.units)) for part in parts])
        return [parts[index] for index in order]

    def _choose(self, pending: list[Slice]) -> Slice:
        """Take the slice that is needed first or, while its gradients are on their way, the ready one needed last."""
        self.read_ahead(pending)
        first_landed = self._landed(pending[0])
        if first_landed and self._read(pending[0]):
            return pending.pop(0)
        there = [index for index, part in enumerate(pending) if self._landed(part) and self._read(part)]
        if there:
            return pending.pop(there[0] if first_landed else there[-1])
        return pending.pop(0 if first_landed else -1)

    def _landed(self, part: Slice) -> bool:
        return all(self._engine.gradients.landed(entry) for entry in part.entries)

    def _read(self, part: Slice) -> bool:
        """Return whether the slice's state is in memory."""
        if self.store is None:
            return True
        return all(self.store.is_there(self._state.peek(entry.parameter)) for entry in part.entries)

    def _run(self, part: Slice, stand_in: StandIn) -> None:
        """Update a slice at once."""
        began = time.perf_counter()
        for unit in part.units:
            self._masters.open_to_update(unit)
        if self.store is not None:
            self._watched = {entry.index for entry in part.entries if state_is_held(self._state, entry.parameter)}
        self._bring(part)
        self._engine.counters.file_stall_s += time.perf_counter() - began
        before = [entry.parameter._version for entry in part.entries]  # noqa: SLF001
        self._compute(part, stand_in, {})
        for entry, version in zip(part.entries, before, strict=True):
            if entry.parameter.grad is not None:
                self._raises[entry.index] = entry.parameter._version - version  # noqa: SLF001
        # Uploads take their lease while the unit is still open. Closed first, its memory could be gone, and the bytes
        # that were just computed would have to be written and read back before they could go up.
        self._engine.updated(part.units)
        for unit in part.units:
            self._masters.close(unit, changed=True)

    def _may_come_later(self) -> bool:
        """Return whether this step's updates may be computed after it: elsewhere, and with settings as they are now."""
        return self._overlap and same_elsewhere() and settings_can_be_frozen(self.optimizer)

    def _unseen(self, part: Slice) -> bool:
        """Return whether only this package would notice that a slice is updated later."""
        # The first update of a parameter makes its state, of which the size and the place are to be decided.
        return (
            bool(part.units)
            and all(self._masters.may_be_borrowed(unit) for unit in part.units)
            and not any(
                (entry.parameter.grad is not None and entry.index not in self._raises)
                or gradient_is_held(entry)
                or state_is_held(self._state, entry.parameter)
                or is_opened(self._state.peek(entry.parameter))
                for entry in part.entries
            )
        )

    def _promise(self, part: Slice, stand_in: StandIn) -> None:
        """Let a slice be updated after `step()` has returned, with the gradients and settings of now."""
        gradients = {entry.index: entry.parameter.grad for entry in part.entries}
        state = self._state

        def update() -> None:
            self.read_ahead(list(self._promised))
            self._promised.popleft()
            twins: dict[int, Tensor] = {}
            for unit in part.units:
                data = self._masters.borrow(unit)
                for entry in (entry for entry in part.entries if entry.unit == unit):
                    # The parameter's own `.grad` may be gone by now.
                    twin = twins[id(entry.parameter)] = entry.view(data)
                    twin.grad = gradients.pop(entry.index)
            self._bring(part, state)
            self._compute(part, stand_in, twins, state)
            for unit in part.units:
                self._masters.give_back(unit)

        for entry in part.entries:
            if gradients[entry.index] is not None:
                bump_version(entry.parameter, self._raises[entry.index])
        self._engine.counters.late_updates += len(part.entries)
        self._promised.append(part)
        # Promised first: the uploads that follow wait for it.
        self._thread.put(part.units, update)
        self._engine.updated(part.units)

    def _compute(
        self, part: Slice, stand_in: StandIn, twins: dict[int, Tensor], state: WatchedState | None = None
    ) -> None:
        """Run the optimizer's own step on a slice, or on what stands for its parameters."""
        state = self._state if state is None else state
        members = [[twins.get(id(one), one) for one in some] for some in part.members]
        parameters = {id(twins.get(id(one), one)): one for some in part.members for one in some}
        states: defaultdict[Tensor, Any] = defaultdict(dict)
        for some in members:
            for one in some:
                if (known := state.peek(parameters[id(one)])) is not None:
                    states[one] = known
        began = time.perf_counter()
        # Cut only where it is not the parameters themselves that are written to: each piece would count as a write.
        members = self._step_large(part, stand_in, twins, states, members) if twins else members
        if any(members):
            stand_in.step(members, states)
        part.seconds = time.perf_counter() - began
        for one, value in states.items():
            state.put(parameters[id(one)], value)
        self._put_back(part, state)

    @staticmethod
    def _step_large(
        part: Slice, stand_in: StandIn, twins: dict[int, Tensor], states: dict[Tensor, Any], members: list[list[Tensor]]
    ) -> list[list[Tensor]]:
        """Update the large parameters of a slice in pieces, and return the others, group by group."""
        for entry in part.entries:
            twin = twins[id(entry.parameter)]
            own = [[one for one in some if one is twin] for some in members]
            groups = [group for group, some in zip(stand_in.groups, own, strict=True) if some]
            if all(may_be_cut(entry, twin.grad, states.get(twin), group) for group in groups):
                assert twin.grad is not None
                new = step_in_pieces(stand_in, own, entry, flat(twin), flat(twin.grad), states[twin])
                # The container stays: one from the file goes back there.
                states[twin].update(new)
                members = [[one for one in some if one is not twin] for some in members]
        return members

    def _bring(self, part: Slice, state: WatchedState | None = None) -> None:
        state = self._state if state is None else state
        if self.store is not None:
            for entry in part.entries:
                filed = state.peek(entry.parameter)
                if isinstance(filed, FiledState) and not filed.opened:
                    state.put(entry.parameter, _Brought(self.store.bring(filed), filed))

    def _put_back(self, part: Slice, states: WatchedState) -> None:
        if self.store is None:
            return
        for entry in part.entries:
            state = states.peek(entry.parameter)
            if isinstance(state, _Brought):
                states.put(entry.parameter, self.store.put_back(state.filed, state))
            elif isinstance(state, FiledState):
                # Opened by someone who looked, and updated as it is. Who still holds it is to see every update.
                self.store.release(state.record)
                if entry.index not in self._watched:
                    states.put(entry.parameter, self.store.close(entry, state))
            elif state and id(entry) not in self._settled and entry.index not in self._watched:
                # Who holds a state that was loaded, and is not in the file yet, is to see every update, too.
                self._settled.add(id(entry))
                states.put(entry.parameter, self.store.settle(entry, state, self._parameter_bytes))


def _memory_bytes(state: Any) -> int:
    """Return the bytes of a parameter's state."""
    values = () if state is None else dict.values(state)
    return sum(value.nbytes for value in values if isinstance(value, Tensor))


class _Brought(dict[str, Any]):
    """A filed state while it is in memory."""

    def __init__(self, values: dict[str, Any], filed: FiledState) -> None:
        super().__init__(values)
        self.filed = filed
