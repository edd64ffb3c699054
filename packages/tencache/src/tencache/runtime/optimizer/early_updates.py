"""Updates computed within backward, before step() is called: it takes those over that it would have made itself.

An update goes into second copies of the parameters and their state. It stands if, until step(), nobody could have
changed what it was computed from: no look at the gradients, parameters or state, no other gradient, the same settings.
Else it is thrown away, and step() makes it.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from tencache.plan.step_plan import StepPlan
from tencache.runtime.cycle.engine import Engine
from tencache.runtime.memory.copy_lanes import Copy
from tencache.runtime.optimizer.cache_pieces import is_piecewise, step_in_pieces
from tencache.runtime.optimizer.filed_state import FiledState, SecondState, StateStore, is_opened
from tencache.runtime.optimizer.held_elsewhere import gradient_is_held, state_is_held
from tencache.runtime.optimizer.slices import Slice
from tencache.runtime.optimizer.stand_in import StandIn, settings_can_be_frozen
from tencache.runtime.optimizer.update_thread import UpdateThread
from tencache.runtime.optimizer.watched_state import WatchedState
from tencache.runtime.tensors.looks import LookMark
from tencache.runtime.tensors.masters import Masters, apart
from tencache.runtime.tensors.parameter_entry import ParameterEntry, bump_version

# So many cycles with looks in a row, and no more is computed early; so many without, and it is tried again.
PATIENCE = 2
CALM = 8


@dataclass(eq=False)
class EarlyUpdate:
    """One slice's update: what it is computed from and, once it is over, what came out."""

    part: Slice
    mark: LookMark
    copies: list[Copy]
    state: WatchedState
    over: threading.Event
    # Set by whoever finds that it cannot stand. The thread leaves out what was void before it came to it.
    void: bool = False
    # If it is one large parameter: set as each piece is computed, which is when a copy of `copies` has landed.
    pieces: list[threading.Event] = field(default_factory=list)
    begun: bool = False
    done: bool = False
    versions: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    buffers: dict[int, Tensor] = field(default_factory=dict)
    states: dict[int, dict[str, Any]] = field(default_factory=dict)
    # States whose bytes were in the file, and that the next ones were computed in.
    filed: dict[int, SecondState] = field(default_factory=dict)


class EarlyUpdates:
    """Begins updates as gradients become final, and says at step() which of them stand."""

    def __init__(
        self,
        optimizer: Optimizer,
        raw_step: Callable[..., Any],
        engine: Engine,
        masters: Masters,
        thread: UpdateThread,
        store: StateStore | None,
    ) -> None:
        self._optimizer = optimizer
        self._store = store
        self._raw_step = raw_step
        self._engine = engine
        self._masters = masters
        self._thread = thread
        self._lock = threading.Lock()
        self._parts: dict[int, Slice] = {}
        self._in_order: list[Slice] = []
        self._raises: dict[int, int] = {}
        self._expected: Counter[int] = Counter()
        self._counts: Counter[int] = Counter()
        self._arrived: dict[int, LookMark] = {}
        self._updates: dict[Slice, EarlyUpdate] = {}
        self._stand_in: StandIn | None = None
        # State tensors from before the last update, to compute the next one into.
        self._spare: dict[int, dict[str, Any]] = {}
        self._looked = self._calm = 0

    def begin(self, plan: StepPlan | None, slices: Sequence[Slice], raises: dict[int, int]) -> None:
        """Begin a cycle in which these slices may be updated early, if the plan says so."""
        self._counts.clear()
        self._arrived.clear()
        self._stand_in = None
        self._parts, self._raises, self._in_order = {}, raises, []
        if plan is None or not plan.early:
            self._spare.clear()
            return
        self._expected = Counter(grad.unit for grad in plan.trace.grads)
        chosen = {unit for index in plan.early for unit in plan.trace.updates[index].units}
        for part in slices:
            if part.units and all(unit in chosen and not self._masters.is_filed(unit) for unit in part.units):
                self._parts.update(dict.fromkeys(part.units, part))
        final = {grad.unit: rank for rank, grad in enumerate(plan.trace.grads)}
        parts = dict.fromkeys(self._parts.values())
        self._in_order = sorted(parts, key=lambda part: max(final.get(unit, -1) for unit in part.units))

    def upcoming(self) -> list[Slice]:
        """Return the slices that will be updated within this backward, in the order of their last gradients."""
        return [part for part in self._in_order if part not in self._updates]

    def arrived(self, entry: ParameterEntry, state: WatchedState) -> None:
        """Take in that a gradient is on its way; if it is the last that its slice waits for, begin the update."""
        unit = entry.unit
        self._counts[unit] += 1
        self._arrived[unit] = self._masters.looks.mark((unit,))
        part = self._parts.get(unit)
        if part is None:
            return
        if part in self._updates:
            self._updates[part].void = True
        elif all(self._counts[one] >= self._expected[one] for one in part.units):
            self._begin(part, state)

    def _begin(self, part: Slice, state: WatchedState) -> None:
        # Its first update makes a parameter's state; and nothing may be frozen that is no plain setting.
        if self._stand_in is None:
            if not settings_can_be_frozen(self._optimizer):
                self._parts.clear()
                return
            self._stand_in = StandIn(self._optimizer, self._raw_step, frozen=True)
        if any(self._counts[entry.unit] and entry.index not in self._raises for entry in part.entries):
            return
        self._engine.gradients.flush()
        copies = [entry.gradient for entry in part.entries if entry.gradient is not None]
        update = EarlyUpdate(part, self._masters.looks.mark(part.units), copies, state, threading.Event())
        if len(part.entries) == 1 and copies and part.entries[0].gradient_pieces:
            update.copies = [*part.entries[0].gradient_pieces, *copies]
            update.pieces = [threading.Event() for _ in update.copies]
        self._updates[part] = update
        stand_in = self._stand_in
        self._thread.put_aside(update.over, lambda: self._compute(update, stand_in))

    def _compute(self, update: EarlyUpdate, stand_in: StandIn) -> None:
        with self._lock:
            if update.void:
                return
            update.begun = True
        try:
            if update.pieces:
                self._compute_pieces(update, stand_in)
            else:
                self._compute_whole(update, stand_in)
        finally:
            # Also when it failed: the way up must not wait for pieces that do not come.
            for computed in update.pieces:
                computed.set()
            if not update.done:
                self._drop_filed(update)

    def _compute_whole(self, update: EarlyUpdate, stand_in: StandIn) -> None:
        for copy in update.copies:
            copy.wait()
        part = update.part
        # Whoever holds one of these now could write to it later without a look.
        if self._is_held(part, update.state):
            return
        twins: dict[int, Tensor] = {}
        states: defaultdict[Tensor, Any] = defaultdict(dict)
        for unit in part.units:
            update.buffers[unit] = self._masters.second_copy(unit)
        for entry in part.entries:
            twin = twins[id(entry.parameter)] = entry.view(update.buffers[entry.unit])
            twin.grad = entry.parameter.grad
            if (known := self._second_state(update, entry)) is not None:
                states[twin] = known
        began = time.perf_counter()
        stand_in.step([[twins[id(one)] for one in some] for some in part.members], states)
        part.seconds = time.perf_counter() - began
        for entry in part.entries:
            if (new := states.get(twins[id(entry.parameter)])) is not None:
                update.states[entry.index] = self._finished(update, entry, new)
        self._note(update)
        self._engine.computed_early.extend((unit, update.buffers[unit], ()) for unit in part.units)

    def _compute_pieces(self, update: EarlyUpdate, stand_in: StandIn) -> None:
        """Update one large parameter piece by piece, each as its gradient lands."""
        part, (entry,) = update.part, update.part.entries
        # A gradient that has not landed is held by nobody: who reads it waits, and has looked.
        state = None if self._is_held(part, update.state) else self._second_state(update, entry)
        gradient = entry.gradient_buffer
        if state is None or gradient is None or not all(is_piecewise(value, entry) for value in state.values()):
            return
        buffer = update.buffers[entry.unit] = self._masters.second_copy(entry.unit)
        data, slope = entry.flat(buffer, entry.dtype), apart(gradient, entry)
        seconds = 0.0

        def landed(number: int) -> None:
            nonlocal seconds
            update.copies[number].wait()
            seconds -= time.perf_counter()

        def computed(number: int) -> None:
            nonlocal seconds
            seconds += time.perf_counter()
            if not number:
                self._engine.computed_early.append((entry.unit, buffer, update.pieces))
            update.pieces[number].set()

        whole = step_in_pieces(stand_in, part.members, entry, data, slope, state, landed, computed)
        part.seconds = seconds
        update.states[entry.index] = self._finished(update, entry, whole)
        self._note(update)

    def _second_state(self, update: EarlyUpdate, entry: ParameterEntry) -> dict[str, Any] | None:
        known = update.state.peek(entry.parameter)
        if known is None:
            return None
        spare = self._spare.pop(entry.index, {})
        if not isinstance(known, FiledState):
            return _second_state(known, spare)
        assert self._store is not None
        second = update.filed[entry.index] = self._store.take_second(known)
        return {**_second_state(known.in_memory(), spare), **second.values}

    def _finished(self, update: EarlyUpdate, entry: ParameterEntry, new: dict[str, Any]) -> dict[str, Any]:
        """Return the next state of a parameter; what belongs in the file is on its way there."""
        second = update.filed.get(entry.index)
        if second is None:
            return new
        assert self._store is not None
        second.values.clear()
        return self._store.write_second(second, new)

    def _drop_filed(self, update: EarlyUpdate) -> None:
        for second in update.filed.values():
            assert self._store is not None
            self._store.drop_second(second)
        update.filed.clear()

    @staticmethod
    def _note(update: EarlyUpdate) -> None:
        for entry in update.part.entries:
            update.versions[entry.index] = _versions(entry, entry.parameter.grad)
        update.copies.clear()
        update.done = True

    def take(self, slices: Sequence[Slice], *, allowed: bool) -> list[EarlyUpdate]:
        """Return the updates that stand, and throw the others away."""
        updates, self._updates = list(self._updates.values()), {}
        with self._lock:
            # What has not begun is made by step() as well as by the thread, and in a better order.
            for update in updates:
                update.void = update.void or not update.begun
        for update in updates:
            if update.begun:
                if update.pieces:
                    # Begun, it goes up as it is computed: nobody else sends it while this waits.
                    update.pieces[0].wait()
                    self._engine.close_due()
                update.over.wait()
        same = allowed and self._stand_in is not None and self._stand_in.still_holds(self._optimizer)
        standing = [update for update in updates if same and update.part in slices and self._stands(update)]
        for update in updates:
            if update not in standing:
                self._throw_away(update)
        self._learn(allowed=allowed)
        return standing

    def drop(self) -> None:
        """Throw everything away."""
        self.take((), allowed=False)
        self._parts.clear()
        self._spare.clear()

    def commit(self, standing: Iterable[EarlyUpdate]) -> None:
        """Let standing updates be the parameters and their state."""
        for update in standing:
            self._commit(update)

    def _commit(self, update: EarlyUpdate) -> None:
        for unit, buffer in update.buffers.items():
            self._masters.replace(unit, buffer)
        for entry in update.part.entries:
            if (new := update.states.pop(entry.index, None)) is not None:
                # None where user code has thrown the state away since: this update made it anew.
                self._spare[entry.index] = _tensors(update.state.peek(entry.parameter) or {})
                update.state.put(entry.parameter, new)
            if entry.parameter.grad is not None:
                bump_version(entry.parameter, self._raises[entry.index])
        self._engine.counters.early_updates += len(update.part.entries)
        self._engine.replaced(update.part.units)

    def _stands(self, update: EarlyUpdate) -> bool:
        part = update.part
        return (
            update.done
            and not update.void
            and update.mark == self._masters.looks.mark(part.units)
            and all(update.versions[entry.index] == _versions(entry, entry.parameter.grad) for entry in part.entries)
            and not self._is_held(part, update.state)
        )

    def _is_held(self, part: Slice, state: WatchedState) -> bool:
        return not all(self._masters.may_be_borrowed(unit) for unit in part.units) or any(
            gradient_is_held(entry) or state_is_held(state, entry.parameter) or is_opened(state.peek(entry.parameter))
            for entry in part.entries
        )

    def _throw_away(self, update: EarlyUpdate) -> None:
        self._engine.counters.discarded_updates += update.begun
        for buffer in update.buffers.values():
            self._masters.give_second(buffer)
        update.buffers.clear()
        update.states.clear()
        self._drop_filed(update)

    def _learn(self, *, allowed: bool) -> None:
        """Compute early from now on, or not, by whether anyone looks between a gradient and step()."""
        marks = (self._masters.looks.mark((unit,)) == mark for unit, mark in self._arrived.items())
        looked = not allowed or not all(marks)
        self._looked, self._calm = (self._looked + 1, 0) if looked else (0, self._calm + 1)
        if looked:
            self._engine.plans.compute_early(allowed=False, at_once=self._looked >= PATIENCE)
        else:
            self._engine.plans.compute_early(allowed=True, at_once=self._calm >= CALM)


def _versions(entry: ParameterEntry, gradient: Tensor | None) -> tuple[int, int | None]:
    """Return the versions of a parameter and of its gradient."""
    return entry.parameter._version, None if gradient is None else gradient._version  # noqa: SLF001


def _second_state(state: dict[str, Any], spare: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a parameter's state, in tensors that are to spare where they fit."""
    return {key: _copied(value, spare.get(key)) if isinstance(value, Tensor) else value for key, value in state.items()}


def _copied(value: Tensor, spare: Tensor | None) -> Tensor:
    alike = spare is not None and (spare.shape, spare.stride(), spare.dtype, spare.device) == (
        value.shape,
        value.stride(),
        value.dtype,
        value.device,
    )
    return spare.copy_(value) if spare is not None and alike else value.clone()


def _tensors(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state's tensors that are in memory."""
    return {key: value for key, value in dict.items(state) if isinstance(value, Tensor)}
