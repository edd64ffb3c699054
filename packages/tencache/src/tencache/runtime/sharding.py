"""Training with parameters, gradients and optimizer state divided over processes."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from tencache.errors import RefusedError
from tencache.plan.step_trace import Unit
from tencache.runtime.cycle.engine import Engine
from tencache.runtime.hooks.shared_reads import SharedReads
from tencache.runtime.memory.peers import Peers
from tencache.runtime.optimizer.known_optimizers import may_be_sliced
from tencache.runtime.tensors.masters import Masters
from tencache.runtime.tensors.other_memory import held_outside
from tencache.runtime.tensors.parameter_entry import ParameterEntry
from tencache.runtime.tensors.shards import NORMS, Shards, share_out
from tencache.runtime.unrouted import Unrouted


def check_sharding(group: Any, model: nn.Module, optimizer: Optimizer | None) -> None:
    """Refuse what cannot be divided."""
    if not dist.is_available() or not dist.is_initialized():
        raise RefusedError("shard= needs processes to divide over: call torch.distributed.init_process_group() first")
    if optimizer is None or not may_be_sliced(optimizer):
        name = "no optimizer" if optimizer is None else type(optimizer).__name__
        raise RefusedError(f"shard= with {name}: only torch's own optimizers can be divided over processes")
    if held_outside(list(model.parameters())):
        raise RefusedError(
            "a parameter shares memory with a tensor outside the model, such as a state_dict() taken before wrap(), "
            "and with shard= that would not see the training: delete it"
        )
    if "cpu" not in {device.type for device in _group(group)._device_types}:  # noqa: SLF001  no public name gives it
        raise RefusedError(
            "parameters are shared on the host, which this group cannot: use gloo, or cpu:gloo,cuda:nccl"
        )


def divide(group: Any, model: nn.Module, entries: Sequence[ParameterEntry], units: Sequence[Unit]) -> Shards:
    """Copy the first process's parameters to all, and decide who holds which."""
    peers = Peers(_group(group))
    with torch.no_grad():
        peers.share_from_first([parameter.detach() for parameter in model.parameters()])
    return Shards(peers, entries, share_out([unit.bytes for unit in units], peers.size))


def _group(group: Any) -> Any:
    return dist.group.WORLD if group is True else group


class Sharding:
    """What a wrapped model does otherwise when it is divided."""

    def __init__(
        self,
        shards: Shards,
        reads: SharedReads,
        engine: Engine,
        masters: Masters,
        model: nn.Module,
        optimizer: Optimizer,
    ) -> None:
        self.shards = shards
        self._reads = reads
        self._engine = engine
        self._masters = masters
        self._optimizer = optimizer
        by_id = {id(entry.parameter): entry for entry in engine.entries}
        self._in_order = [by_id[id(parameter)] for parameter in model.parameters()]
        engine.gradients.contribute = shards.contribute

    def begin(self) -> None:
        """Let the other processes ask: parameters are where they are to be."""
        self.shards.serve(self._masters.held_bytes, lambda entry: dict(self._optimizer.state.get(entry.parameter, {})))

    def before_step(self) -> None:
        """Wait until every process is in its step, and all gradients are with who needs them."""
        with Unrouted():
            self._settle()
            self.shards.begin_step()

    def refuse_early_zero(self) -> None:
        """Refuse to drop gradients that other processes have by now."""
        if self.shards.has_gradients:
            raise RefusedError("zero_grad() between backward() and step() while divided over processes: call it after")

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Clip the gradients of all processes by their norm, which is returned; called by every process."""
        with Unrouted(), torch.no_grad():
            self._settle()
            # In the order of the model's parameters, as torch adds up their norms.
            entries = [entry for entry in self._in_order if entry.parameter.requires_grad]
            # Twice: when all have called this, all gradients have been sent, and so have arrived.
            self.shards.exchange(NORMS, torch.zeros(1))
            self.shards.check_complete()
            own = torch.full((len(entries),), torch.nan)
            for place, entry in enumerate(entries):
                if entry.parameter.grad is not None:
                    own[place] = torch.linalg.vector_norm(entry.parameter.grad, norm_type)
            every = torch.stack(self.shards.exchange(NORMS, own))
            norms = [every[:, place][~every[:, place].isnan()] for place in range(len(entries))]
            total: Tensor = torch.linalg.vector_norm(torch.cat(norms), norm_type)
            held = [entry.parameter for entry in entries if entry.parameter.grad is not None]
            nn.utils.clip_grads_with_norm_(held, max_norm, total)
            return total

    def whole_state(self, _: Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Return a state dict with the states that other processes hold."""
        numbers = self._numbers(state_dict)
        state = {}
        for number, entry in sorted(numbers.items()):
            if number in state_dict["state"]:
                state[number] = state_dict["state"][number]
            elif found := self._fetched(entry):
                state[number] = found
        return {**state_dict, "state": state}

    def keep_own_state(self, optimizer: Optimizer) -> None:
        """Drop the states that other processes hold, after all were loaded."""
        for entry in self._engine.entries:
            if not self.shards.is_mine(entry.unit):
                optimizer.state.pop(entry.parameter, None)

    def bring_all(self) -> None:
        """Bring the states that other processes hold into the optimizer, for unwrapping."""
        for entry in self._engine.entries:
            if found := self._fetched(entry):
                self._optimizer.state[entry.parameter] = found

    def _fetched(self, entry: ParameterEntry) -> dict[str, Any]:
        return {} if self.shards.is_mine(entry.unit) else self.shards.fetch_state(entry)

    def _numbers(self, state_dict: dict[str, Any]) -> dict[int, ParameterEntry]:
        """Return the entries by the numbers that parameters have in a state dict."""
        by_id = {id(entry.parameter): entry for entry in self._engine.entries}
        pairs = zip(self._optimizer.param_groups, state_dict["param_groups"], strict=True)
        return {
            number: by_id[id(parameter)]
            for group, named in pairs
            for parameter, number in zip(group["params"], named["params"], strict=True)
            if id(parameter) in by_id
        }

    def _settle(self) -> None:
        self._engine.end_op()
        self._engine.gradients.flush()
        self._engine.gradients.wait_all(self._engine.entries)
        self._reads.check()
        self._masters.close_all(lambda _: False)
        # No fetch may be under way when others update what it reads.
        self._engine.link.up.wait_empty()
