"""Whether user code holds a gradient or a piece of optimizer state, and so would see that its update comes late."""

import sys
from typing import Any

import torch
from torch import Tensor, nn

from tencache.runtime.memory.device_arena import users
from tencache.runtime.memory.outside_memory import is_seen_outside
from tencache.runtime.tensors.parameter_entry import ParameterEntry
from tencache.runtime.unrouted import Unrouted

_PLAIN = (int, float, bool, str, type(None))


def gradient_is_held(entry: ParameterEntry) -> bool:
    """Return whether anything but `.grad`, and the buffer that it is a view of, refers to a landed gradient."""
    if entry.parameter.grad is None:
        return False
    if _grad_references(entry.parameter) > _IDLE_GRAD:
        return True
    buffer = entry.gradient_buffer
    own = buffer is not None and _same_storage(buffer, entry.parameter.grad)
    if users(entry.parameter.grad) > _IDLE_USERS + own:
        return True
    return not own and is_seen_outside(entry.parameter.grad)


def state_is_held(states: Any, key: Tensor) -> bool:
    """Return whether anything but the optimizer refers to a parameter's state, or to a part of it."""
    state = dict.get(states, key)
    if state is None:
        return False
    # One more than on the sample: the name that it has here.
    return _references(states, key) > _IDLE_VALUE + 1 or any(_value_is_held(state, name) for name in dict.keys(state))


def _value_is_held(state: dict[str, Any], name: str) -> bool:
    value = dict.__getitem__(state, name)
    if isinstance(value, Tensor):
        return _references(state, name) > _IDLE_VALUE + 1 or users(value) > _IDLE_USERS
    # Lists and other containers could be held, and written to, in ways that are not counted here.
    return not isinstance(value, _PLAIN)


def _same_storage(one: Tensor, other: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _references(values: dict[Any, Any], key: Any) -> int:
    return sys.getrefcount(dict.__getitem__(values, key))


def _grad_references(parameter: nn.Parameter) -> int:
    return sys.getrefcount(parameter.grad)


def _idle_grad() -> int:
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    with Unrouted():
        return _grad_references(parameter)


# Counted on samples that nobody else holds: how many references torch itself keeps differs between its versions.
_IDLE_GRAD = _idle_grad()
_IDLE_VALUE = _references({0: torch.zeros(1)}, 0)
_IDLE_USERS = users(torch.zeros(1))
