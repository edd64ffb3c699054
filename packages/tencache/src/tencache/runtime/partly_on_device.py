"""A part of the optimizer state stays on the device, where the budget has room for it and the replay says that it pays.

Such a parameter becomes a plain one on the device, with its gradient and its state: nothing of it is routed, moved or
watched any more, so whatever user code does with it is what torch does.
"""

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tencache.plan.address_map import aligned
from tencache.plan.kept_state import KeepCandidate, KeepOffer
from tencache.runtime.all_on_device import Mover, bring_back, move_all
from tencache.runtime.attached_model import AttachedModel
from tencache.runtime.cycle.engine import Engine
from tencache.runtime.hooks.saved_tensors import SavedTensors
from tencache.runtime.memory.accelerator import Accelerator
from tencache.runtime.memory.device_arena import Arena
from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.optimizer.filed_state import FiledState
from tencache.runtime.optimizer.held_elsewhere import gradient_is_held, state_is_held
from tencache.runtime.optimizer.known_optimizers import state_tensors
from tencache.runtime.optimizer.sliced_step import Stepper
from tencache.runtime.tensors.masters import Masters
from tencache.runtime.tensors.parameter_entry import ParameterEntry

# The first step makes the state, and is measured cold.
STEPS_BEFORE = 2


class PartlyOnDevice:
    """Chooses, once, what stays on the device for good, and moves it there."""

    def __init__(
        self,
        entries: list[ParameterEntry],
        engine: Engine,
        masters: Masters,
        pool: HostPool,
        saved: SavedTensors,
        on_model: AttachedModel,
        accelerator: Accelerator | None,
    ) -> None:
        # The list that every part of the engine reads: what stays is taken out of it.
        self._entries = entries
        self._engine = engine
        self._masters = masters
        self._pool = pool
        self._saved = saved
        self._on_model = on_model
        self._accelerator = accelerator
        self._kept: list[ParameterEntry] = []

    def keep_what_pays(self, optimizer: Optimizer, stepper: Stepper, mover: Mover) -> Arena:
        """Move what pays to the device for good, with nothing on its way; return the arena of all others."""
        arena = self._engine.device_copies.arena
        kept = self._choose(optimizer, arena.size_bytes)
        return self._keep(kept, optimizer, stepper, mover) if kept else arena

    def _choose(self, optimizer: Optimizer, budget_bytes: int) -> list[ParameterEntry]:
        """Return the parameters that are to stay, by a replay of the last step; nothing is changed yet."""
        # Views of what lies in the arena would go on with it, unseen.
        if self._engine.device_copies.any_in_use():
            return []
        units = self._engine.units
        by_unit: dict[int, list[ParameterEntry]] = {}
        for entry in self._entries:
            by_unit.setdefault(entry.unit, []).append(entry)
        # All others have a place at once, so that no operation can lack one in the arena that is left.
        room_bytes = budget_bytes - sum(aligned(units[unit].bytes) for unit in by_unit)
        if room_bytes <= 0:
            return []
        states = state_tensors(optimizer)
        trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        candidates = tuple(
            KeepCandidate(
                self._engine.working.forms([unit]),
                units[unit].bytes,
                sum(self._taken_bytes(one, optimizer) for one in members),
            )
            for unit, members in by_unit.items()
            if all(id(one.parameter) in trained and self._may_stay(one, optimizer, states) for one in members)
        )
        chosen = self._engine.plans.choose_kept(KeepOffer(candidates, room_bytes))
        kept = [entry for entry in self._entries if entry.unit in chosen]
        # One is left: what moves nothing at all is not for this.
        return kept if len(kept) < len(self._entries) else [one for one in kept if one.unit != kept[-1].unit]

    def _keep(self, kept: list[ParameterEntry], optimizer: Optimizer, stepper: Stepper, mover: Mover) -> Arena:
        """Move parameters, their gradients and state to the device for good, and return the arena of all others."""
        units = {entry.unit for entry in kept}
        taken_bytes = sum(self._taken_bytes(one, optimizer) for one in kept)
        self._engine.kept.before_change(self._entries)
        for unit in units:
            self._masters.open(unit)
        stepper.let_go(kept)
        self._on_model.let_go(kept)
        self._entries[:] = [entry for entry in self._entries if entry.unit not in units]
        # The arena goes before the device's memory is asked for again: for a moment both would not fit.
        size_bytes = self._engine.device_copies.arena.size_bytes - taken_bytes
        self._engine.device_copies.clear()
        self._engine.device_copies.arena.close()
        for entry in self._entries:
            entry.unbind()
        arena = Arena(size_bytes, self._accelerator)
        self._saved.begin_anew(arena)
        move_all([entry.parameter for entry in kept], optimizer, mover)
        if self._engine.activations is not None:
            self._engine.activations.leave_out(entry.parameter for entry in kept)
        self._masters.let_go(units)
        for entry in kept:
            entry.on_device = True
            if entry.gradient_buffer is not None:
                self._pool.give(entry.gradient_buffer.view(-1).view(torch.uint8))
            entry.forget()
        self._engine.begin_anew(arena, units, taken_bytes)
        self._engine.counters.device_kept_bytes = taken_bytes
        self._kept = kept
        return arena

    def bring_back(self, optimizer: Optimizer) -> None:
        """Move everything back to the host."""
        if self._kept:
            bring_back([entry.parameter for entry in self._kept], optimizer)

    def _may_stay(self, entry: ParameterEntry, optimizer: Optimizer, states: int) -> bool:
        """Return whether nobody would see that a parameter, its gradient and its state have other memory."""
        held = (
            self._masters.aliased(entry.unit)
            or gradient_is_held(entry)
            or state_is_held(optimizer.state, entry.parameter)
            or entry.node_is_held()
            # A graph that is alive may ask for its bytes.
            or len(entry.handles) > 0
        )
        # What has no state yet will have some, and it would not be counted.
        has_state = self._state_bytes(entry, optimizer) >= states * entry.size_bytes
        return not held and bool(entry.parameter.requires_grad) and has_state

    def _taken_bytes(self, entry: ParameterEntry, optimizer: Optimizer) -> int:
        return aligned(2 * entry.size_bytes + self._state_bytes(entry, optimizer))

    @staticmethod
    def _state_bytes(entry: ParameterEntry, optimizer: Optimizer) -> int:
        state: Any = dict.get(optimizer.state, entry.parameter, {})
        filed = isinstance(state, FiledState) and not state.opened
        in_file = sum(piece.bytes for piece in state.record.pieces) if filed else 0
        return in_file + sum(value.nbytes for value in dict.values(state) if isinstance(value, Tensor))
