"""What the host has for the optimizer: memory for its state and for second copies, and places in the file."""

import warnings

from torch.optim import Optimizer

from tencache.errors import Notice
from tencache.runtime.memory.nvme_file import FileTier
from tencache.runtime.optimizer.filed_state import StateStore
from tencache.runtime.optimizer.known_optimizers import may_be_late, may_be_sliced, state_tensors
from tencache.runtime.tensors.host_split import HostSplit


def room_for_second_copies(optimizer: Optimizer | None, split: HostSplit, *, has_file: bool) -> int:
    """Return the host's memory that parameters, gradients and optimizer state leave."""
    if has_file:
        return split.second_bytes
    if split.state_bytes is None or optimizer is None or not may_be_late(optimizer):
        return split.staging_bytes
    state_bytes: int = state_tensors(optimizer) * sum(_trained_bytes(optimizer))
    return max(split.state_bytes - state_bytes, 0)


def make_store(file: FileTier | None, split: HostSplit, optimizer: Optimizer) -> tuple[StateStore | None, bool]:
    """Return what keeps state in the file, if anything does, and whether each state has room for a second place there.

    Without, no update whose state is there is made before it is asked for.
    """
    if file is None or split.state_bytes is None:
        return None, True
    if not may_be_sliced(optimizer):
        text = f"{type(optimizer).__name__} is not known to update parameters one by one: its state stays in memory"
        warnings.warn(text, Notice, stacklevel=7)
        return None, True
    store = StateStore(file, split.state_bytes, split.staging_bytes)
    twice = store.reserve(_trained_bytes(optimizer), state_tensors(optimizer), twice=split.second_bytes > 0)
    return store, twice


def _trained_bytes(optimizer: Optimizer) -> list[int]:
    return [parameter.nbytes for group in optimizer.param_groups for parameter in group["params"]]
