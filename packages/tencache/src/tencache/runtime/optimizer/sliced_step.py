"""The optimizer's step on the host, in slices: each parameter goes up again as soon as its own update is done."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from tencache.plan.step_trace import Update
from tencache.runtime.cycle.engine import Engine
from tencache.runtime.optimizer.filed_state import FiledState, StateStore
from tencache.runtime.tensors.masters import Masters
from tencache.runtime.tensors.parameter_entry import ParameterEntry
from tencache.runtime.unrouted import Routed, Unrouted

SLICE_BYTES = 8 * 2**20
# Optimizers that are known to update each parameter by itself. Of any other, even of a subclass of these, nothing is
# known: it may take a norm over all gradients, draw random numbers or count its steps. Its step runs as a whole.
PER_PARAMETER = frozenset(
    [
        torch.optim.ASGD,
        torch.optim.Adadelta,
        torch.optim.Adafactor,
        torch.optim.Adagrad,
        torch.optim.Adam,
        torch.optim.AdamW,
        torch.optim.Adamax,
        torch.optim.NAdam,
        torch.optim.RAdam,
        torch.optim.RMSprop,
        torch.optim.Rprop,
        torch.optim.SGD,
    ]
)


def may_be_sliced(optimizer: Optimizer) -> bool:
    """Return whether an optimizer may be called for some of its parameters at a time."""
    return type(optimizer) in PER_PARAMETER and own_step(optimizer) is None


def own_step(optimizer: Optimizer) -> Any:
    """Return the step that someone has put on this one object, if it does more than the class's."""
    step = optimizer.__dict__.get("step")
    # A scheduler's only notes that it was called.
    return None if getattr(step, "_wrapped_by_lr_sched", False) else step


@dataclass(eq=False)
class Slice:
    """Units that are updated by one call, with the parameters of each parameter group."""

    entries: list[ParameterEntry]
    units: tuple[int, ...]
    members: list[list[nn.Parameter]]
    seconds: float = 0.0

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the parameters."""
        return sum(entry.size_bytes for entry in self.entries)


class Stepper:
    """Stands in for `optimizer.step`."""

    def __init__(
        self,
        optimizer: Optimizer,
        engine: Engine,
        masters: Masters,
        store: StateStore | None,
        slice_bytes: int = SLICE_BYTES,
    ) -> None:
        self.optimizer = optimizer
        self.store = store
        self._slice_bytes = slice_bytes
        self._engine = engine
        self._masters = masters
        self.sliced = may_be_sliced(optimizer)
        self._raw = _raw_step(optimizer)
        self._slices: list[Slice] = []
        self._order: list[int] = []
        self._settled: set[int] = set()
        self._members: list[list[int]] = []

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
            self._prepare()
            began = time.perf_counter()
            # The next cycle is planned before the first update, because each update starts uploads of that plan.
            self._engine.step_begins([self._update(part) for part in self._slices])
            pending = list(self._slices)
            while pending:
                self.read_ahead(pending)
                self._run(self._choose(pending))
            self._engine.step_ends()
            self._engine.counters.optimizer_s += time.perf_counter() - began
        return loss

    def step_on_device(self, closure: Callable[[], Any] | None) -> Any:
        """Run the optimizer's own step, once everything it needs is on the device."""
        return self._raw(self.optimizer, closure)

    def _step_whole(self, closure: Callable[[], Any] | None) -> Any:
        """Run the optimizer's own step on all of its parameters at once, and let it call the closure when it likes."""
        self._make_ready()

        def routed() -> Any:
            # What the optimizer has written so far is seen by the forward, as any write by user code is.
            with Routed():
                loss = None if closure is None else closure()
            self._make_ready()
            return loss

        with Unrouted():
            began = time.perf_counter()
            loss = self._raw(self.optimizer) if closure is None else self._raw(self.optimizer, routed)
            part = Slice([], tuple(self._written_units()), [])
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
        for part in self._slices if pending is None else pending:
            for entry in part.entries:
                if not self.store.read_ahead(self.optimizer.state.get(entry.parameter)):
                    return

    def _prepare(self) -> None:
        """Cut the step into slices again if the order or the optimizer's parameters have changed."""
        order = self._engine.order()
        members = [[id(parameter) for parameter in group["params"]] for group in self.optimizer.param_groups]
        if (order, members) != (self._order, self._members):
            self._order, self._members = order, members
            self._slices = self._cut(order, {one for group in members for one in group})

    @property
    def _parameter_bytes(self) -> int:
        return sum(part.size_bytes for part in self._slices)

    def _cut(self, order: list[int], known: set[int]) -> list[Slice]:
        by_unit: dict[int, list[ParameterEntry]] = {}
        for entry in self._engine.entries:
            if id(entry.parameter) in known:
                by_unit.setdefault(entry.unit, []).append(entry)
        cuts: list[list[int]] = []
        size_bytes = self._slice_bytes
        for unit in order:
            if unit not in by_unit:
                continue
            if size_bytes >= self._slice_bytes:
                cuts.append([])
                size_bytes = 0
            cuts[-1].append(unit)
            size_bytes += sum(entry.size_bytes for entry in by_unit[unit])
        slices = [self._slice([entry for unit in units for entry in by_unit[unit]], tuple(units)) for units in cuts]
        return slices + self._others(known)

    def _others(self, known: set[int]) -> list[Slice]:
        """Return a slice of the parameters that came to the optimizer after wrapping: nobody moves them."""
        others = known - {id(entry.parameter) for entry in self._engine.entries}
        groups = self.optimizer.param_groups
        members = [[one for one in group["params"] if id(one) in others] for group in groups]
        return [Slice([], (), members)] if others else []

    def _slice(self, entries: list[ParameterEntry], units: tuple[int, ...]) -> Slice:
        wanted = {id(entry.parameter) for entry in entries}
        groups = self.optimizer.param_groups
        return Slice(entries, units, [[one for one in group["params"] if id(one) in wanted] for group in groups])

    def _update(self, part: Slice) -> Update:
        states = [self.optimizer.state.get(entry.parameter) for entry in part.entries]
        filed = sum(state.record.extent.bytes for state in states if isinstance(state, FiledState))
        return Update(part.units, part.seconds, filed)

    def _choose(self, pending: list[Slice]) -> Slice:
        """Take the slice that is needed first or, while its gradients are on their way, the ready one needed last."""
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
        return all(self.store.is_there(self.optimizer.state.get(entry.parameter)) for entry in part.entries)

    def _run(self, part: Slice) -> None:
        for entry in part.entries:
            self._engine.gradients.wait(entry)
        began = time.perf_counter()
        for unit in part.units:
            self._masters.open(unit)
        self._bring(part)
        self._engine.counters.file_stall_s += time.perf_counter() - began
        began = time.perf_counter()
        self._step_only(part.members)
        part.seconds = time.perf_counter() - began
        self._put_back(part)
        # Uploads take their lease while the unit is still open. Closed first, its memory could be gone, and the bytes
        # that were just computed would have to be written and read back before they could go up.
        self._engine.updated(part.units)
        for unit in part.units:
            self._masters.close(unit, changed=True)

    def _bring(self, part: Slice) -> None:
        if self.store is not None:
            for entry in part.entries:
                state = self.optimizer.state.get(entry.parameter)
                if isinstance(state, FiledState):
                    self.optimizer.state[entry.parameter] = _Brought(self.store.bring(state), state)

    def _put_back(self, part: Slice) -> None:
        if self.store is None:
            return
        for entry in part.entries:
            state = self.optimizer.state.get(entry.parameter)
            if isinstance(state, _Brought):
                self.optimizer.state[entry.parameter] = self.store.put_back(state.filed, state)
            elif state and id(entry) not in self._settled:
                self._settled.add(id(entry))
                self.optimizer.state[entry.parameter] = self.store.settle(entry, state, self._parameter_bytes)

    def _step_only(self, members: list[list[nn.Parameter]]) -> None:
        """Run the optimizer's own step on some of its parameters."""
        groups = self.optimizer.param_groups
        whole = [group["params"] for group in groups]
        for group, some in zip(groups, members, strict=True):
            group["params"] = some
        # Groups without members are left out: not every optimizer expects an empty one.
        self.optimizer.param_groups = [group for group in groups if group["params"]]
        # Restored whatever happens: an optimizer left with one slice of its parameters would train only those.
        try:
            self._raw(self.optimizer)
        finally:
            self.optimizer.param_groups = groups
            for group, all_of_it in zip(groups, whole, strict=True):
                group["params"] = all_of_it


class _Brought(dict[str, Any]):
    """A filed state while it is in memory."""

    def __init__(self, values: dict[str, Any], filed: FiledState) -> None:
        super().__init__(values)
        self.filed = filed


def state_tensors(optimizer: Optimizer) -> int:
    """Return how many tensors of its size each parameter's state will have, found by a step on a small parameter."""
    probe = nn.Parameter(torch.zeros(4, 4))
    probe.grad = torch.zeros(4, 4)
    kind: Any = type(optimizer)
    small = kind([probe])
    small.param_groups[0].update({key: value for key, value in optimizer.param_groups[0].items() if key != "params"})
    _without_hooks(kind.step)(small)
    return sum(getattr(value, "shape", None) == probe.shape for value in small.state[probe].values())


def _raw_step(optimizer: Optimizer) -> Callable[..., Any]:
    """Return the step to run, as a function of the optimizer and a closure."""
    own = own_step(optimizer)
    return _without_hooks(type(optimizer).step) if own is None else lambda _, *closure: own(*closure)


def _without_hooks(step: Any) -> Callable[..., Any]:
    """Return the step below the wrapper that runs step hooks: they run once a step, not once a slice."""
    inner: Callable[..., Any] = step.__wrapped__ if getattr(step, "hooked", False) else step
    return inner
