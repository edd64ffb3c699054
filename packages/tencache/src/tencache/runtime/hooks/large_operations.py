"""Operations that do not fit the device as one, run part by part: the same computation, fewer parameters at a time."""

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_RECURRENT: dict[str, Callable[..., Any]] = {
    name: getattr(torch, name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
}
_ASKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def in_parts(func: Callable[..., Any], args: Sequence[Any], device_type: str) -> Callable[..., Any] | None:
    """Return what computes the same by several smaller operations; None if there is no such way."""
    recurrent = _RECURRENT.get(getattr(func, "__name__", ""))
    # On a CPU their layers are operations of their own, one after another. CUDA's library computes them as one.
    if recurrent is not None:
        divisible = device_type == "cpu" and _Call(args).layers > 1
        return (lambda *given: _layer_by_layer(recurrent, _Call(given))) if divisible else None
    if isinstance(func, FunctionType) and func.__module__ == functional.__name__:
        return _opened(func)
    return None


def _opened(func: FunctionType) -> FunctionType:
    """Return a function of torch's with the same body, which does not hand itself over as one operation."""
    asks = {name: lambda *_: False for name in _ASKS if name in func.__globals__}
    opened = FunctionType(func.__code__, {**func.__globals__, **asks}, func.__name__, func.__defaults__)
    opened.__kwdefaults__ = func.__kwdefaults__
    return opened


class _Call:
    """The arguments of a recurrent operation, of a padded batch or of a packed one."""

    def __init__(self, args: Sequence[Any]) -> None:
        # (input, state, weights, ...) or (data, batch sizes, state, weights, ...)
        self.packed = isinstance(args[3], (list, tuple))
        self.data: Tensor = args[0]
        self.sizes = args[1:2] if self.packed else ()
        self.state, self.weights, self.bias, self.layers = args[1 + self.packed : 5 + self.packed]
        self.dropout, self.training, self.both_ways = args[5 + self.packed : 8 + self.packed]
        self.batch_first = not self.packed and args[8]

    def run_layer(self, recurrent: Callable[..., Any], layer: int, data: Tensor, state: Any) -> Any:
        """Return the outputs and the last state of one layer, run as a network of its own."""
        each = len(self.weights) // self.layers
        weights = self.weights[layer * each : (layer + 1) * each]
        settings = (self.bias, 1, 0.0, self.training, self.both_ways)
        return recurrent(data, *self.sizes, state, weights, *settings, *([] if self.packed else [False]))


def _layer_by_layer(recurrent: Callable[..., Any], call: _Call) -> tuple[Tensor, ...]:
    data = call.data.transpose(0, 1) if call.batch_first else call.data
    ends: list[tuple[Tensor, ...]] = []
    for layer, state in enumerate(_by_layer(call.state, call.layers)):
        if layer and call.dropout and call.training:
            data = torch.dropout(data, call.dropout, train=True)
        data, *end = call.run_layer(recurrent, layer, data, state)
        ends.append(tuple(end))
    joined = (torch.cat(parts) for parts in zip(*ends, strict=True))
    return (data.transpose(0, 1) if call.batch_first else data, *joined)


def _by_layer(state: Any, layers: int) -> list[Any]:
    """Return a state, or a pair of them, layer by layer."""
    if isinstance(state, Tensor):
        return list(state.reshape(layers, -1, *state.shape[1:]).unbind(0))
    return list(zip(*(_by_layer(one, layers) for one in state), strict=True))
