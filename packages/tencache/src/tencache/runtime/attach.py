"""A wrapped module and optimizer: the wiring of all parts, and the way back."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tencache.errors import PeerError, UpdateError
from tencache.plan.address_map import aligned
from tencache.plan.step_plan import StepPlan
from tencache.plan.step_trace import StepTrace, Unit
from tencache.plan.virtual_clock import Bandwidths
from tencache.plan.working_units import WorkingUnits, add_halves
from tencache.quantity import parse_bytes
from tencache.runtime.all_on_device import Mover, bring_back, move_all, needed_bytes
from tencache.runtime.attached_model import AttachedModel
from tencache.runtime.attached_optimizer import AttachedOptimizer
from tencache.runtime.counters import Counters
from tencache.runtime.cycle.engine import Engine
from tencache.runtime.hooks.byte_guard import ByteGuard
from tencache.runtime.hooks.operation_router import OperationRouter
from tencache.runtime.hooks.refusals import FastPaths
from tencache.runtime.hooks.saved_tensors import SavedTensors
from tencache.runtime.hooks.shared_reads import SharedReads
from tencache.runtime.memory.accelerator import Accelerator, find_accelerator
from tencache.runtime.memory.device_arena import POISON, Arena
from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.memory.link import Link, SimLink, StreamLink
from tencache.runtime.memory.nvme_file import FileTier
from tencache.runtime.optimizer.held_elsewhere import gradient_is_held, state_is_held
from tencache.runtime.optimizer.host_memory import make_store, room_for_second_copies
from tencache.runtime.optimizer.known_optimizers import may_be_late, may_be_sliced
from tencache.runtime.optimizer.sliced_step import SLICE_BYTES, Stepper
from tencache.runtime.partly_on_device import STEPS_BEFORE, PartlyOnDevice
from tencache.runtime.sharding import Sharding, divide
from tencache.runtime.stats import Stats, gather
from tencache.runtime.tensors.activations import Activations
from tencache.runtime.tensors.device_copies import DeviceCopies
from tencache.runtime.tensors.gradient_reduction import GradientReduction
from tencache.runtime.tensors.gradients import Gradients
from tencache.runtime.tensors.host_split import STAGING_SHARE, HostSplit, split_tiers
from tencache.runtime.tensors.masters import Masters
from tencache.runtime.tensors.parameter_entry import PIECE_BYTES
from tencache.runtime.tensors.pending_updates import describe_failure
from tencache.runtime.tensors.shards import Shards
from tencache.runtime.tensors.units import UnitMembers, group_parameters, make_entries, make_units, may_halve
from tencache.runtime.unrouted import Unrouted

PROBE_BYTES = 16 * 2**20


class Cached:
    """A wrapped model: its statistics, its plan, and the way back."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | None,
        *,
        budget: int | str,
        device: torch.device,
        bytes_per_s: float | None,
        host: int | str | None,
        nvme: str | Path | None,
        verify: bool,
        policy: str,
        overlap: bool,
        shard: Any = None,
        activations: int | None = None,
    ) -> None:
        named = list(model.named_parameters())
        total_bytes = sum(parameter.nbytes for _, parameter in named)
        groups = group_parameters(named, parse_bytes(budget, whole=total_bytes))
        # A share is one of the units with their alignment, so that 100 % always holds everything.
        aligned_bytes = sum(aligned(group.size_bytes) for group in groups)
        self.budget_bytes = parse_bytes(budget, whole=aligned_bytes)
        self.model = model
        self.optimizer = optimizer
        self.device = device
        self.counters = Counters()
        self.resident = False
        self._unwrapped = False
        # What checks or stores bytes elsewhere, and the policies to compare with, are to do what they are for.
        known = optimizer is not None and may_be_sliced(optimizer)
        self._may_stay = known and nvme is None and not verify and policy == "ahead" and shard is None
        # Saved tensors are seen by the hooks that go once everything stays on the device.
        self._may_stay = self._may_stay and activations is None
        self._activation_bytes = activations
        self._shard = shard
        self._sharding: Sharding | None = None
        self._activations: Activations | None = None
        self._may_keep = known and policy == "ahead" and shard is None
        late = overlap and optimizer is not None and may_be_late(optimizer)
        saved = activations is not None
        self._split = split_tiers(groups, host, has_file=nvme is not None, early=late, saved=saved)
        # Whatever fails, and however, the model is left as it was: there would be no handle to unwrap it with.
        with ExitStack() as undo:
            self._build(undo, groups, bytes_per_s, nvme, verify=verify, policy=policy, overlap=overlap)
            self._attach(undo)
            undo.pop_all()

    def _build(
        self,
        undo: ExitStack,
        groups: list[UnitMembers],
        bytes_per_s: float | None,
        nvme: str | Path | None,
        *,
        verify: bool,
        policy: str,
        overlap: bool,
    ) -> None:
        self._file = None if nvme is None else FileTier(nvme, verify=verify)
        if self._file is not None:
            undo.callback(self._file.close)
        accelerator = find_accelerator(self.device)
        self.pool = HostPool(accelerator, poison=POISON if verify else None)
        units = make_units(groups, self._split.filed)
        working = self._make_working_units(units, groups, policy)
        shards = None if self._shard is None else divide(self._shard, self.model, self.entries, units)
        if shards is not None:
            undo.callback(shards.give_up)
        self._reserve([unit for index, unit in enumerate(units) if shards is None or shards.is_mine(index)])
        self.link: Link = SimLink(bytes_per_s) if accelerator is None else StreamLink(accelerator)
        undo.callback(self.link.close)
        # A simulated link casts on the way. A real one carries bytes, and so does one whose bytes are checked.
        stage_casts = verify or accelerator is not None
        staging_bytes = self._split.staging_bytes
        self.masters = Masters(
            self.units, self.entries, self.pool, shards or self._file, staging_bytes, stage_casts=stage_casts
        )
        self.arena = Arena(self.budget_bytes, accelerator)
        speeds = self._expected_speeds(accelerator, overlap=overlap)
        window = speeds.gradient_window_bytes
        gradients = Gradients(self.link, self.pool, window, self.counters, stage_casts=stage_casts)
        self._make_engine(working, gradients, speeds, verify=verify, policy=policy)
        undo.callback(self._let_go)
        self._make_hooks(gradients, shards, accelerator, verify=verify, overlap=overlap)

    def _make_working_units(self, units: tuple[Unit, ...], groups: list[UnitMembers], policy: str) -> WorkingUnits:
        self.entries = make_entries(groups, self.device)
        # The policies to compare with move what they move elsewhere: whole parameters.
        halved = [entry.unit for entry in self.entries if policy == "ahead" and may_halve(entry, groups)]
        working = add_halves(units, halved)
        for entry in self.entries:
            entry.half = working.half_of.get(entry.unit)
        self.units = working.units
        return working

    def _expected_speeds(self, accelerator: Accelerator | None, *, overlap: bool) -> Bandwidths:
        """Return what plans are made for: the link as it was measured, and the memory that each way has."""
        up, down = self._measure_link(accelerator)
        late = overlap and self.optimizer is not None and may_be_late(self.optimizer)
        return Bandwidths(
            up,
            down,
            # The largest gradient must not stop the small ones behind it.
            gradient_window_bytes=self.budget_bytes // 8 + max(entry.size_bytes for entry in self.entries),
            staging_bytes=self._split.staging_bytes,
            second_bytes=room_for_second_copies(self.optimizer, self._split, has_file=self._file is not None),
            piece_bytes=PIECE_BYTES,
            updates="within" if late else "after",
            activation_bytes=self._activation_bytes,
        )

    def _make_engine(
        self, working: WorkingUnits, gradients: Gradients, speeds: Bandwidths, *, verify: bool, policy: str
    ) -> None:
        if (limit_bytes := self._activation_bytes) is not None:
            host_bytes = self._split.saved_bytes
            self._activations = Activations(
                self.link, self.pool, self.device, limit_bytes, self.counters, host_bytes=host_bytes, verify=verify
            )
        with Unrouted():
            self.engine = Engine(
                working,
                self.entries,
                DeviceCopies(self.units, self.arena, self.link, self.masters, self.counters, verify=verify),
                gradients,
                self.masters,
                self.link,
                self.counters,
                speeds,
                policy,
                stepped=self.optimizer is not None,
                activations=self._activations,
            )

    def _make_hooks(
        self,
        gradients: Gradients,
        shards: Shards | None,
        accelerator: Accelerator | None,
        *,
        verify: bool,
        overlap: bool,
    ) -> None:
        """Make what routes operations, keeps what autograd saves, and steps."""
        self._reduction = GradientReduction(self.entries, gradients)
        saved = SavedTensors(self.engine, self.arena)
        guard = ByteGuard(self.engine.device_copies, self.engine.leaves) if verify else None
        reads = None if shards is None else SharedReads(shards, self.masters)
        paths = FastPaths(self.model)
        self._router = OperationRouter(
            self.engine, self.masters, saved, self.device, paths, self._reduction, guard, reads
        )
        if shards is not None and reads is not None and self.optimizer is not None:
            self._sharding = Sharding(shards, reads, self.engine, self.masters, self.model, self.optimizer)
        self._stepper = self._make_stepper(self._split, overlap=overlap)
        self._on_model = AttachedModel(self.model, self.entries, self._router, self.device)
        self._partly = PartlyOnDevice(
            self.entries, self.engine, self.masters, self.pool, saved, self._on_model, accelerator
        )
        self._on_optimizer = self._around_optimizer()

    def stats(self) -> Stats:
        """Return hits, stalls, bytes against their floor, and the memory of each tier."""
        self.link.resolve(wait=True)
        store = None if self._stepper is None else self._stepper.store
        return gather(
            self.counters,
            self.link,
            self.pool,
            self._file,
            store,
            budget_bytes=self.budget_bytes,
            resident=self.resident,
        )

    @property
    def plan(self) -> StepPlan | None:
        """Return the plan that training steps follow; None until the first step has been profiled."""
        return self.engine.plans.get("train")

    @property
    def trace(self) -> StepTrace | None:
        """Return the last training cycle that was recorded; cycles that only repeat a settled plan are not."""
        return self.engine.plans.traces.get("train")

    def unwrap(self) -> nn.Module:
        """Restore the model and the optimizer as if they had never been wrapped, with what they learned."""
        if self._unwrapped:
            return self.model
        self._unwrapped = True
        # What step() has promised comes first. If it failed, the model is given back all the same, and then it is said.
        self.masters.pending.wait_quietly()
        failure = self.masters.pending.forgive()
        # First the ways in, then the bytes: nothing may start a copy while they are moved back.
        if self._on_optimizer is not None:
            self._on_optimizer.detach()
        self._remove_hooks()
        self._reduction.hand_back()
        with Unrouted():
            self.engine.kept.before_change(self.entries)
        if self.resident and self.optimizer is not None:
            bring_back([entry.parameter for entry in self.entries], self.optimizer)
        else:
            # Gradients that are still on their way land in pinned buffers: they must be there before those are copied.
            self._wait_for_copies()
            self._restore_parameters()
            if self.optimizer is not None:
                self._partly.bring_back(self.optimizer)
        lost = self._bring_shards()
        self._on_model.return_buffers()
        if self._activations is not None:
            self._activations.close()
        self.link.close()
        if self._file is not None:
            self._file.close()
        self._let_go()
        if failure is not None:
            raise UpdateError(describe_failure(failure)) from failure
        if lost is not None:
            raise lost
        return self.model

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Clip gradients by their norm over all parameters, and return it: for a model divided over processes.

        Every process calls it, between `backward()` and `step()`. Not divided, it is `nn.utils.clip_grad_norm_`.
        """
        if self._sharding is not None:
            return self._sharding.clip_grad_norm_(max_norm, norm_type)
        return nn.utils.clip_grad_norm_(self.model.parameters(), max_norm, norm_type)

    def _bring_shards(self) -> PeerError | None:
        """Bring the optimizer state that other processes hold, and let them go; return what was lost of it."""
        if self._sharding is None:
            return None
        try:
            self._sharding.bring_all()
        except PeerError as error:
            return error
        self._sharding.shards.leave()
        return None

    def _stay_if_all_fits(self, optimizer: Optimizer) -> None:
        """Move everything to the device for good if it fits; called after a step, when the state's size is known."""
        # Autocast goes on with the casts that it has of the leaves, even of old values; the parameters have none.
        if torch.is_autocast_enabled(self.device.type):
            return
        may_stay, self._may_stay = self._may_stay, False
        # DDP would go on with its own buckets, which are on the host.
        if not may_stay or self._reduction.inside_ddp:
            return
        self.masters.pending.wait_all()
        parameters = [entry.parameter for entry in self.entries]
        with Unrouted():
            # What user code holds would not see what happens on the device.
            if any(self.masters.aliased(unit) for unit in range(len(self.units))) or any(
                gradient_is_held(entry) or state_is_held(optimizer.state, entry.parameter) or entry.node_is_held()
                for entry in self.entries
            ):
                return
            needed = needed_bytes(parameters, optimizer)
            if needed > self.budget_bytes:
                return
            self._wait_for_copies()
            self.engine.kept.before_change(self.entries)
            self._on_model.remove_hooks()
            self._on_model.release_parameters()
            # The arena goes before the device's memory is asked for again: for a moment both would not fit.
            self._let_go()
            move_all(parameters, optimizer, Mover(self.link, self.device))
        self.counters.device_peak_bytes = max(self.counters.device_peak_bytes, needed)
        self.resident = True
        if self._on_optimizer is not None:
            self._on_optimizer.stay_on_device()

    def _after_step(self, optimizer: Optimizer) -> None:
        """Let on the device what is to stay there: all, if it fits, or what pays."""
        self._stay_if_all_fits(optimizer)
        if self._may_keep and not self.resident and self.counters.steps >= STEPS_BEFORE:
            self._keep_what_pays(optimizer)

    def _keep_what_pays(self, optimizer: Optimizer) -> None:
        # As above: autocast goes on with casts that it has.
        if torch.is_autocast_enabled(self.device.type) or self._stepper is None:
            return
        self._may_keep = False
        if self._reduction.inside_ddp:
            return
        self.masters.pending.wait_all()
        with Unrouted():
            self._wait_for_copies()
            self.arena = self._partly.keep_what_pays(optimizer, self._stepper, Mover(self.link, self.device))

    def _let_go(self) -> None:
        # Every reference that this package holds, one by one: the hooks make cycles of references, and memory of this
        # size cannot wait for the garbage collector.
        self.engine.device_copies.clear()
        self.engine.gradients.forget()
        self.masters.forget()
        for entry in self.entries:
            entry.forget()
        self.arena.close()
        self.pool.close()

    def _reserve(self, units: Sequence[Unit]) -> None:
        masters = [unit.bytes for unit in units if unit.tier == "host"]
        gradients = [entry.size_bytes for entry in self.entries if entry.parameter.requires_grad]
        self.pool.reserve(masters + gradients)

    def _make_stepper(self, split: HostSplit, *, overlap: bool) -> Stepper | None:
        if self.optimizer is None:
            return None
        store, twice = make_store(self._file, split, self.optimizer)
        if not twice:
            self.engine.plans.speeds = replace(self.engine.plans.speeds, second_bytes=0)
        # A slice's state must fit the staging memory beside what is read ahead and written behind.
        slice_bytes = min(SLICE_BYTES, split.staging_bytes // STAGING_SHARE)
        return Stepper(self.optimizer, self.engine, self.masters, store, slice_bytes, overlap=overlap)

    def _around_optimizer(self) -> AttachedOptimizer | None:
        if self.optimizer is None or self._stepper is None:
            return None
        return AttachedOptimizer(
            self.optimizer, self.model, self._stepper, self.engine, self.masters, self._reduction, self._sharding
        )

    def _attach(self, undo: ExitStack) -> None:
        undo.callback(self._restore_parameters)
        with torch.no_grad():
            self.masters.adopt()
        undo.callback(self._remove_hooks)
        self._on_model.attach(self.engine, self._stepper, self._reduction)
        undo.callback(self._on_model.return_buffers)
        self._on_model.move_buffers()
        if self._on_optimizer is not None:
            undo.callback(self._on_optimizer.detach)
            self._on_optimizer.attach(self._after_step)
        if self._sharding is not None:
            self._sharding.begin()

    def _remove_hooks(self) -> None:
        self._on_model.remove_hooks()
        if self._on_optimizer is not None:
            self._on_optimizer.remove_hooks()

    def _restore_parameters(self) -> None:
        with Unrouted():
            self.masters.release_all()
            self._on_model.release_parameters()

    def _wait_for_copies(self) -> None:
        # A copy that failed has been reported where it was needed; the parameters on the host are whole.
        self.engine.gradients.flush()
        self.link.drain()

    def _measure_link(self, accelerator: Accelerator | None) -> tuple[float, float]:
        """Return the bytes per second up and down that plans are made for."""
        size_bytes = min(PROBE_BYTES, self.budget_bytes)
        # Memory of its own, for a moment: the pool counts what the model asks for.
        pool = HostPool(accelerator)
        speeds = self.link.speeds(pool.take(size_bytes)[:size_bytes], self.arena.carve(0, size_bytes))
        pool.close()
        return speeds
