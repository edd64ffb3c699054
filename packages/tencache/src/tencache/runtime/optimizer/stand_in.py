"""A second optimizer object with the first one's settings: it steps some parameters, and leaves the first as it is."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

# Those that are set on the instance while it is wrapped, and those that each slice has its own of.
_LEFT_OUT = frozenset({"step", "zero_grad", "state", "param_groups"})
# What schedulers note on an optimizer, for their own warnings.
_NO_SETTINGS = frozenset({"_opt_called", "_step_count"})


class StandIn:
    """Steps slices of an optimizer's parameters with its settings, as they are now or as they were when frozen."""

    def __init__(self, optimizer: Optimizer, raw_step: Callable[..., Any], *, frozen: bool) -> None:
        keep: Callable[[Any], Any] = _frozen if frozen else lambda value: value
        self._raw_step = raw_step
        self._optimizer: Any = object.__new__(type(optimizer))
        # With what GradScaler puts there: grad_scale and found_inf.
        self._optimizer.__dict__.update(
            {key: keep(value) for key, value in optimizer.__dict__.items() if key not in _LEFT_OUT}
        )
        self.groups = [
            {key: keep(value) for key, value in group.items() if key != "params"} for group in optimizer.param_groups
        ]

    def still_holds(self, optimizer: Optimizer) -> bool:
        """Return whether an optimizer's settings are what they were when this was made of it."""
        now = StandIn(optimizer, self._raw_step, frozen=False)
        groups = [{key: value for key, value in group.items() if key != "params"} for group in now.groups]
        return _same(self.groups, groups) and _same(_settings(self._optimizer), _settings(optimizer))

    def step(self, members: Sequence[Sequence[Tensor]], state: defaultdict[Tensor, Any]) -> None:
        """Step these parameters, given group by group."""
        # Groups without members are left out: not every optimizer expects an empty one.
        pairs = zip(self.groups, members, strict=True)
        self._optimizer.param_groups = [{**group, "params": list(some)} for group, some in pairs if some]
        self._optimizer.state = state
        # Emptied whatever happens: nothing is to be kept alive until the next slice.
        try:
            self._raw_step(self._optimizer)
        finally:
            self._optimizer.param_groups = []
            self._optimizer.state = defaultdict(dict)


def _frozen(value: Any) -> Any:
    """Return a setting that later changes do not reach."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if type(value) in {tuple, list}:
        return type(value)(_frozen(item) for item in value)
    return value


def _settings(optimizer: Any) -> dict[str, Any]:
    """Return what an optimizer has beside its groups that a step may depend on, as what GradScaler puts there."""
    values = optimizer.__dict__.items()
    return {key: value for key, value in values if key not in _LEFT_OUT | _NO_SETTINGS and _is_setting(value)}


def _is_setting(value: Any) -> bool:
    return isinstance(value, (Tensor, bool, int, float, str))


def _same(one: Any, other: Any) -> bool:
    """Return whether two settings are the same to the last bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        alike = (one.dtype, one.shape, one.device) == (other.dtype, other.shape, other.device)
        return alike and one.flatten().tolist().__repr__() == other.flatten().tolist().__repr__()
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    # Numbers by their text: it tells -0.0 from 0.0, and is the same for what is not a number.
    return repr(one) == repr(other)


def settings_can_be_frozen(optimizer: Optimizer) -> bool:
    """Return whether every setting is a number, a text, a tensor of the host or a tuple of such."""
    settings = [value for group in optimizer.param_groups for key, value in group.items() if key != "params"]
    # With what GradScaler puts there. What is on a device is ordered by streams, and another thread has its own.
    settings += [value for value in optimizer.__dict__.values() if isinstance(value, Tensor)]
    return all(_is_plain(value) for value in settings)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_is_plain(item) for item in value)
    if isinstance(value, Tensor):
        return value.device.type == "cpu"
    return value is None or isinstance(value, (bool, int, float, str))


def same_elsewhere() -> bool:
    """Return whether operations on another thread now would do what they do on this one."""
    ambient = (
        torch.is_autocast_enabled("cpu"),
        torch.is_inference_mode_enabled(),
        torch._C._len_torch_function_stack() > 0,  # noqa: SLF001  no public name gives it
        torch._C._len_torch_dispatch_stack() > 0,  # noqa: SLF001  no public name gives it
        # set_flush_denormal() belongs to the thread that called it.
        float(torch.full((1,), 1e-310, dtype=torch.float64) * 1) == 0.0,
    )
    return not any(ambient)
