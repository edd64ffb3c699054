"""Random training programs, and what comes out of one, wrapped or not.

`python packages/tencache/tests/fuzz/training_programs.py 5000` tries so many and counts what became of them.
"""

import contextlib
import copy
import io
import itertools
import re
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from more_idioms import (
    CLIPS,
    MORE_BETWEEN,
    MORE_EVALUATIONS,
    MORE_INNER,
    MORE_OPTIMIZERS,
    REFUSED_INNER,
    SCHEDULERS,
    numbered_averages,
    run_inner,
    step_scheduler,
)
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import tencache
from tencache import RefusedError
from tencache.plan.kept_state import KeepOffer, choices, kept_bytes
from tencache.plan.planner import plan_ahead, with_early
from tencache.plan.step_plan import StepPlan
from tencache.plan.step_trace import StepTrace
from tencache.plan.virtual_clock import Bandwidths, best_plan
from tencache.runtime import attach
from tencache.runtime.cycle import plan_book
from tencache.runtime.memory import link
from tencache.runtime.optimizer import filed_state, known_optimizers
from tencache.runtime.optimizer.early_updates import EarlyUpdates
from tencache.runtime.optimizer.stand_in import StandIn
from tencache.runtime.tensors import activations, gradients, parameter_entry

sys.path.insert(0, str(Path(__file__).parents[1]))

WIDTH = 16
CELLS = 4
ROWS = 3


# What a layer makes of its weight before it uses it.
THROUGH: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "plain": lambda weight, _: weight,
    "to": lambda weight, x: weight.to(x.dtype),
    "contiguous": lambda weight, _: weight.contiguous(),
    "float": lambda weight, _: weight.float(),
    "type_as": lambda weight, x: weight.type_as(x),
    "dropout_off": lambda weight, _: functional.dropout(weight, 0.5, training=False),
    "view_as": lambda weight, _: weight.view_as(weight),
    "transposed": lambda weight, _: weight.T,
    "reshaped": lambda weight, _: weight.reshape(-1).view(WIDTH, WIDTH),
    "sliced": lambda weight, _: torch.cat([weight[:8], weight[8:]]),
    "chunked": lambda weight, _: torch.cat(weight.chunk(4, 1), 1),
    "indexed": lambda weight, _: weight[torch.arange(WIDTH - 1, -1, -1)],
    "expanded": lambda weight, _: weight.expand(2, -1, -1)[1],
    "detached": lambda weight, _: weight + weight.detach() * 0.5,
    "data": lambda weight, _: weight - weight.data.mean(),
    "bf16_and_back": lambda weight, _: weight.to(torch.bfloat16).to(weight.dtype),
    "double_and_back": lambda weight, _: weight.double().to(weight.dtype),
    "scaled": lambda weight, _: weight * 2,
    "normalised": lambda weight, _: functional.normalize(weight, dim=1),
    "masked": lambda weight, _: weight.masked_fill(torch.eye(WIDTH, dtype=torch.bool), 0),
    "mapped": lambda weight, _: torch.vmap(lambda row: row * 2)(weight),
    "stacked": lambda weight, _: torch.stack([weight, weight.T]).mean(0),
}
# What else a layer makes of its weight beside multiplying by it: under autocast some of these cast it, some do not.
ALSO: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "nothing": lambda y, _: y,
    "summed": lambda y, weight: y + weight.sum() * 0.01,
    "row_added": lambda y, weight: y + weight[0].to(y.dtype) * 0.1,
    "looked_up": lambda y, weight: y + functional.embedding(torch.arange(ROWS), weight).to(y.dtype) * 0.1,
    "cast_again": lambda y, weight: torch.tanh(y @ weight.to(y.dtype)),
    "linear": lambda y, weight: torch.tanh(functional.linear(y, weight.to(y.dtype))),
    "einsum": lambda y, weight: torch.tanh(torch.einsum("ij,jk->ik", y, weight.to(y.dtype))),
    "whole": lambda y, weight: y + _whole(y, weight),
    "unrecorded": lambda y, weight: y + _unrecorded(y, weight),
}
EVALUATIONS = (
    *("no_grad", "inference", "part", "part_inference", "weights", "state", "without_autocast"),
    *("functional", "transformed", "shallow_copy", "fails", "interrupted", "forward", "vector"),
    *MORE_EVALUATIONS,
)
HOOKS = (
    *("forward", "pre", "backward", "offloading", "rounding"),
    *("parameter", "parameter_in_place", "landed", "landed_write", "multi", "backward_reads"),
)
CASTING = ("autocast", "autocast_all", "autocast_step", "autocast_uncached", "autocast_scaled")
OPTIMIZERS = (
    *("AdamW", "SGD", "Adafactor", "RMSprop", "NAdam", "foreach", "fused", "norm", "noise", "count", "LBFGS"),
    *("assigning", "setting"),
    *MORE_OPTIMIZERS,
)


def _add_to_data(weight: torch.Tensor) -> None:
    weight.data += 0.125
    weight.data *= 0.5


def _init_recorded(weight: Any) -> None:
    with torch.enable_grad():
        nn.init.uniform_(weight, -0.1, 0.1)


WRITES: dict[str, Callable[[torch.Tensor], Any]] = {
    "nothing": lambda _: None,
    "in_place": lambda weight: weight.mul_(0.5),
    "data": lambda weight: weight.data.mul_(0.5),
    "assigned": lambda weight: setattr(weight, "data", weight.data * 0.5),
    "numpy": lambda weight: np.negative(weight.detach().numpy(), out=weight.detach().numpy()),
    "copy": lambda weight: weight.copy_(torch.ones_like(weight) / 8),
    "clamp": lambda weight: weight.clamp_(-0.1, 0.1),
    "init": lambda weight: nn.init.constant_(weight, 0.05),
    "data_added": _add_to_data,
    "foreach": lambda weight: torch._foreach_mul_([weight], 0.5),
    "row": lambda weight: weight.__setitem__(0, 0.25),
    "recorded_init": _init_recorded,
}


@dataclass(frozen=True)
class Layer:
    """One layer: its kind, what it makes of its weight, how often it is used, and how."""

    kind: str = "matmul"
    through: str = "plain"
    times: int = 1
    ahead: bool = False
    recompute: str = "no"
    frozen: bool = False
    also: str = "nothing"


@dataclass(frozen=True)
class Turn:
    """What one step of the loop does."""

    batches: int = 1
    forwards: int = 1
    twice: bool = False
    penalty: bool = False
    clip: bool = False
    clip_by: str = "norm"
    evaluate: str = "no"
    write: str = "nothing"
    write_before_backward: str = "nothing"
    closure: bool = False
    set_to_none: bool = True
    skip: bool = False
    step_twice: bool = False
    # Two forwards in two autocasts, backward inside autocast, an evaluation between two forwards of one autocast.
    apart: bool = False
    backward_inside: bool = False
    look: bool = False
    hold: str = "nothing"
    write_before_step: str = "nothing"
    between: str = "nothing"
    overflow: bool = False
    zero_by_model: bool = False
    # How gradients are zeroed: by zero_grad(), or one by one.
    zero: str = "zero_grad"
    # Whether tensors that the loop holds, gradients among them, are read right after backward.
    read_held: bool = False
    # Gradients asked for by autograd.grad() and assigned; activations written to before backward.
    asked: bool = False
    spoil: bool = False
    # Whether a weight is frozen when the graph is made and not in backward, or the other way round.
    frozen_in: str = "nothing"


@dataclass(frozen=True)
class Program:
    """A model, an optimizer and a loop."""

    layers: tuple[Layer, ...]
    turns: tuple[Turn, ...]
    optimizer: str = "AdamW"
    precision: str = "float"
    hook: str = "no"
    alias: str = "no"
    scheduler: str = "no"
    average: str = "no"
    # One group of parameters, two, or one without the last layer's; and whether a second optimizer has half of them.
    groups: str = "one"
    second: bool = False
    growing: bool = False
    tied: bool = False
    budget: int = 40
    verify: bool = False
    # Whether half of the parameters, and all state, are in the file, or the state alone.
    file: bool | str = False
    rate: str = "number"
    scaler: bool = False
    leave_after: int = -1
    late: bool = True
    # Whether every update that could be computed within backward is, whatever the clock says of that.
    early: bool = True
    # Whether as much as fits stays on the device with its optimizer state, from the first step on.
    keep: bool = True
    threads: bool = True
    # The device's memory for saved tensors, in bytes; none means that all stay there.
    activations: int | None = None


class AnyLayer(nn.Module):
    """A layer as drawn."""

    def __init__(self, layer: Layer, weight: nn.Parameter | None) -> None:
        super().__init__()
        self.layer = layer
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / 4) if weight is None else weight
        self.inner: Any = (INNER | REFUSED_INNER)[layer.kind]()
        if layer.frozen:
            self.requires_grad_(requires_grad=False)

    def make(self, x: torch.Tensor) -> torch.Tensor:
        """Return what is used in place of the weight."""
        return THROUGH[self.layer.through](self.weight, x)

    def forward(self, x: torch.Tensor, made: torch.Tensor | None) -> torch.Tensor:
        """Use the layer as often as drawn."""
        for _ in range(self.layer.times):
            x = self.once(x, made)
        return x

    def once(self, x: torch.Tensor, made: torch.Tensor | None) -> torch.Tensor:
        """Use the layer, recomputed in backward or not."""
        if self.layer.recompute == "no":
            return self.compute(x, made)
        result: torch.Tensor = checkpoint(self.compute, x, made, use_reentrant=self.layer.recompute == "reentrant")
        return result

    def compute(self, x: torch.Tensor, made: torch.Tensor | None) -> torch.Tensor:
        """Use the layer once."""
        weight = self.make(x) if made is None else made
        y = torch.tanh(x @ (weight if weight.dtype == x.dtype else weight.to(x.dtype)))
        y = ALSO[self.layer.also](y, self.weight)
        if self.layer.kind in {"LSTM", "GRU"}:
            return y + self.inner(y)[0].repeat(1, WIDTH // CELLS)
        if self.layer.kind == "cell":
            return y + self.inner(y).repeat(1, WIDTH // CELLS)
        if self.layer.kind == "attention":
            return y + self.inner(y, y, y, need_weights=False)[0]
        return y + run_inner(self.layer.kind, self.inner, y)


def _whole(y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", enabled=False):
        return torch.tanh(y.to(weight.dtype) @ weight).to(y.dtype)


def _unrecorded(y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return y @ weight.to(y.dtype)


def _weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape) / 8)


class Adapted(nn.Module):
    """A frozen layer with a trained one of low rank beside it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(requires_grad=False)
        self.down, self.up = _weight(2, WIDTH), _weight(WIDTH, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of both."""
        result: torch.Tensor = self.base(x) + (x @ self.down.T.to(x.dtype)) @ self.up.T.to(x.dtype) * 2
        return result


class Block(nn.Module):
    """Attention from one fused projection, and a gated feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up, self.down = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result."""
        q, k, v = self.qkv(self.norm(x)).view(ROWS, 3, 2, WIDTH // 2).permute(1, 2, 0, 3)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).reshape(ROWS, WIDTH)
        y = x + self.out(y)
        result: torch.Tensor = y + self.down(functional.silu(self.gate(y)) * self.up(y))
        return result


class Experts(nn.Module):
    """Experts in one tensor, of which each row of the input uses one."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(WIDTH, 3), _weight(3, WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the chosen experts make of the rows."""
        share, chosen = self.router(x).softmax(-1).max(-1)
        result = torch.zeros_like(x)
        for number in range(3):
            if len(rows := (chosen == number).nonzero()[:, 0]):
                made = (x[rows] @ self.experts[number].to(x.dtype)) * share[rows, None].to(x.dtype)
                result = result.index_add(0, rows, made.to(x.dtype))
        return result


class Bag(nn.Module):
    """Means of embeddings, looked up by position."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(8, WIDTH, mode="mean")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add means to the rows."""
        result: torch.Tensor = x + self.bag(torch.arange(2 * ROWS).view(ROWS, 2) % 8).to(x.dtype)
        return result


class Product(torch.autograd.Function):
    """A product whose gradient is written out."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Multiply."""
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Multiply by the other."""
        x, weight = ctx.saved_tensors
        return gradients[0] @ weight, gradients[0].T @ x


class OwnFunction(nn.Module):
    """Uses a function of its own, as the refusal asks: with a view of the weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = _weight(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply."""
        result: torch.Tensor = Product.apply(x, self.weight.view_as(self.weight).to(x.dtype))
        return result


class Quantised(nn.Module):
    """Rounds its weight, and lets gradients pass."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = _weight(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply by the rounded weight."""
        rounded = self.weight + (torch.round(self.weight * 16) / 16 - self.weight).detach()
        return functional.linear(x, rounded.to(x.dtype))


class Symmetric(nn.Module):
    """Makes a weight symmetric."""

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the upper half, mirrored."""
        return weight.triu() + weight.triu(1).transpose(-1, -2)


class Convolved(nn.Module):
    """Gives its input a channel."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the inner module's result."""
        result: torch.Tensor = self.inner(x[:, None])
        return result[:, 0]


INNER: dict[str, Callable[[], nn.Module]] = {
    "matmul": nn.Identity,
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
    "two": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH, bias=False)),
    "norm": lambda: nn.LayerNorm(WIDTH),
    "batchnorm": lambda: nn.BatchNorm1d(WIDTH),
    "dropout": lambda: nn.Dropout(0.3),
    "LSTM": lambda: nn.LSTM(WIDTH, CELLS),
    "GRU": lambda: nn.GRU(WIDTH, CELLS, 2),
    "attention": lambda: nn.MultiheadAttention(WIDTH, 2),
    "prelu": nn.PReLU,
    "weight_norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)),
    "spectral_norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH)),
    "convolution": lambda: Convolved(nn.Conv1d(1, 1, 3, padding=1)),
    "in_place": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True), nn.Dropout(0.2, inplace=True)),
    "cell": lambda: nn.GRUCell(WIDTH, CELLS),
    "adapter": lambda: Adapted(nn.Linear(WIDTH, WIDTH)),
    "block": Block,
    "experts": Experts,
    "bag": Bag,
    "own_function": OwnFunction,
    "straight_through": Quantised,
    "symmetric": lambda: nn.utils.parametrize.register_parametrization(nn.Linear(WIDTH, WIDTH), "weight", Symmetric()),
    "orthogonal": lambda: nn.utils.parametrizations.orthogonal(nn.Linear(WIDTH, WIDTH)),
    "transformer": lambda: nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, dropout=0.1),
    **MORE_INNER,
}


class Model(nn.Module):
    """The layers, one after another."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.growing = program.growing
        self.calls = 0
        self.failing: type[BaseException] | None = None
        self.saved = torch.empty(0)
        self.first = nn.Embedding(8, WIDTH)
        layers: list[AnyLayer] = []
        for layer in program.layers:
            layers.append(AnyLayer(layer, layers[0].weight if program.tied and layers else None))
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        self.calls += 1
        x = self.first(tokens)
        layers: Any = self.layers
        made = [layer.make(x) if layer.layer.ahead else None for layer in layers]
        if self.failing is not None:
            raise self.failing("as told")
        for _ in range(1 + (self.growing and self.calls % 3 == 0)):
            for layer, weight in zip(layers, made, strict=True):
                x = layer(x, weight)
        x = self.saved = torch.exp(x * 0.1)
        loss: torch.Tensor = self.head(x).float().square().mean()
        return loss


class Norm(torch.optim.SGD):
    """Divides by the norm of all gradients."""

    def step(self, closure: Any = None) -> Any:
        """Scale, then step."""
        gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        norm = sum(float(gradient.norm()) for gradient in gradients)
        for gradient in gradients:
            gradient.div_(norm + 1)
        return super().step(closure)


class Noise(torch.optim.SGD):
    """Draws random numbers."""

    def step(self, closure: Any = None) -> Any:
        """Add noise, then step."""
        for parameter in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
            parameter.grad.add_(torch.randn_like(parameter.grad), alpha=0.1)
        return super().step(closure)


class Count(torch.optim.SGD):
    """Counts its steps on itself."""

    calls = 0

    def step(self, closure: Any = None) -> Any:
        """Step by less each time."""
        self.calls += 1
        self.param_groups[0]["lr"] = 0.1 / self.calls
        return super().step(closure)


class Assigning(torch.optim.Optimizer):
    """Gives each parameter new data, and holds that of the first."""

    def __init__(self, parameters: list[nn.Parameter], lr: float, momentum: float) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    def update(self, parameter: Any, value: torch.Tensor) -> None:
        """Let a value be the parameter's."""
        parameter.data = value

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Step, and ask for the loss before."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in [parameter for parameter in group["params"] if parameter.grad is not None]:
                mean = self.state[parameter].get("mean", torch.zeros_like(parameter.grad)) * group["momentum"]
                self.state[parameter]["mean"] = mean = mean + parameter.grad
                self.update(parameter, parameter.data - mean * group["lr"])
        return loss


class Setting(Assigning):
    """Sets each parameter to memory that the state holds, too."""

    def update(self, parameter: Any, value: torch.Tensor) -> None:
        """Let a value be the parameter's."""
        self.state[parameter]["own"] = value
        parameter.set_(value)


def make_optimizer(name: str, parameters: list[Any]) -> torch.optim.Optimizer:
    """Return the optimizer as drawn."""
    mine: dict[str, Any] = {
        "norm": Norm,
        "noise": Noise,
        "count": Count,
        "assigning": Assigning,
        "setting": Setting,
    }
    if name in mine:
        return mine[name](parameters, lr=0.05, momentum=0.9)  # type: ignore[no-any-return]
    if name in {"foreach", "fused"}:
        return torch.optim.AdamW(parameters, lr=0.02, **{name: True})
    if name in MORE_OPTIMIZERS:
        kind, options = MORE_OPTIMIZERS[name]
        return getattr(torch.optim, kind)(parameters, **options)  # type: ignore[no-any-return]
    if name == "LBFGS":
        return torch.optim.LBFGS(parameters, lr=0.1, max_iter=2)
    return getattr(torch.optim, name)(parameters, lr=0.02)  # type: ignore[no-any-return]


def _state_of(run: "Run", number: int) -> dict[str, Any]:
    """Return one parameter's optimizer state."""
    state: dict[str, Any] = run.optimizer.state.get(run.weight(number), {})
    return state


def _tensors_in(state: dict[str, Any]) -> list[torch.Tensor]:
    return [value for value in state.values() if isinstance(value, torch.Tensor)]


def _write_state(run: "Run", number: int) -> None:
    state = _state_of(run, number)
    # Of a state in the file a copy is given out, so it is written by setting it.
    for key, value in list(state.items()):
        if isinstance(value, torch.Tensor) and value.dim():
            state[key] = value.mul(0.5)


def _write_gradient(run: "Run", number: int) -> None:
    if (gradient := run.weight(number).grad) is not None:
        gradient.mul_(3)


def _reload_model(run: "Run", _: int) -> None:
    run.model.load_state_dict({key: value * 0.75 for key, value in run.model.state_dict().items()})


def _add_group(run: "Run", number: int) -> None:
    extra = nn.Parameter(torch.full((3,), float(number)))
    extra.grad = torch.ones(3)
    run.optimizer.add_param_group({"params": [extra], "lr": 0.5})
    run.extra.append(extra)


def _halve_gradient(weight: Any) -> None:
    weight.grad.mul_(0.5)


def _shrink(weight: Any) -> None:
    weight.mul_(0.99)


def _zero_first_row(gradient: torch.Tensor) -> None:
    gradient[0] = 0


def _reload_saved(run: "Run") -> None:
    file = io.BytesIO()
    torch.save([run.model.state_dict(), run.optimizer.state_dict()], file)
    file.seek(0)
    model, optimizer = torch.load(file, weights_only=False)
    run.model.load_state_dict(model)
    run.optimizer.load_state_dict(optimizer)


def _swap_average(run: "Run") -> None:
    """Evaluate with other weights, and put the own ones back."""
    own = {name: parameter.data.clone() for name, parameter in run.model.named_parameters()}
    for parameter in run.model.parameters():
        parameter.data.mul_(0.9)
    run.seen.append(run.model(torch.arange(ROWS)).detach().clone())
    for name, parameter in run.model.named_parameters():
        parameter.data = own[name]


def _assign_held(run: "Run", number: int) -> None:
    """Give a weight data that the loop goes on holding."""
    run.kept.append(run.weight(number).data * 0.5)
    run.weight(number).data = run.kept[-1]


def _set_held(run: "Run", number: int) -> None:
    """Set a weight to memory that the loop goes on holding."""
    run.kept.append(run.weight(number).detach() * 0.5)
    with torch.no_grad():
        run.weight(number).set_(run.kept[-1])


def _swap_views(run: "Run") -> None:
    """Evaluate with other weights, and put back views of the own ones."""
    own = [parameter.data for parameter in run.model.parameters()]
    for parameter in run.model.parameters():
        parameter.data = parameter.data * 0.9
    run.seen.append(run.model(torch.arange(ROWS)).detach().clone())
    for parameter, data in zip(run.model.parameters(), own, strict=True):
        parameter.data = data


def _in_one_buffer(weights: list[Any]) -> torch.Tensor:
    """Lay weights into one buffer, and return that."""
    flat = torch.stack([weight.detach() for weight in weights])
    for weight, row in zip(weights, flat, strict=True):
        weight.data = row
    return flat


def _in_an_array(weight: Any) -> Any:
    """Let a weight be in memory that torch did not allocate, and return that as an array."""
    # numpy has no bfloat16.
    array = weight.detach().view(torch.uint8).numpy().copy()
    weight.data = torch.from_numpy(array).view(weight.dtype)
    return array


def _gradient_in_an_array(run: "Run", number: int) -> None:
    weight = run.weight(number)
    array = np.zeros(weight.nbytes, np.uint8)
    weight.grad = torch.from_numpy(array).view(weight.dtype).view(weight.shape)
    run.kept.append(array)


def _zero_by_hand(parameter: Any, how: str) -> None:
    if how == "delete":
        del parameter.grad
    elif parameter.grad is not None:
        parameter.grad.detach_()
        parameter.grad.zero_()


def _description(weight: torch.Tensor) -> list[float]:
    facts = [weight.requires_grad, weight.is_leaf, weight.norm() > 0, weight[0, 0].item() == weight.tolist()[0][0]]
    return [float(fact) for fact in facts]


def _change_settings(run: "Run", _: int) -> None:
    for group in run.optimizer.param_groups:
        group["weight_decay"] = group.get("weight_decay", 0.0) + 0.1
        group["lr"] = group["lr"] * 0.5


# What a loop does between step() and the next forward, with parameters, gradients, state and settings.
BETWEEN: dict[str, Callable[["Run", int], Any]] = {
    "nothing": lambda _, __: None,
    "read_state": lambda run, number: run.seen.extend(t.clone() for t in _tensors_in(_state_of(run, number))),
    "hold_state": lambda run, number: run.kept.extend(_tensors_in(_state_of(run, number))),
    "hold_state_dict": lambda run, _: run.held.append(run.optimizer.state_dict()),
    "copy_state_dict": lambda run, _: run.held.append(copy.deepcopy(run.optimizer.state_dict())),
    "write_state": _write_state,
    "reload_state": lambda run, _: run.optimizer.load_state_dict(copy.deepcopy(run.optimizer.state_dict())),
    "reload_model": _reload_model,
    "read_gradient": lambda run, number: run.seen.append(copy.deepcopy(run.weight(number).grad)),
    "write_gradient": _write_gradient,
    "hold_gradient": lambda run, number: run.kept.append(run.weight(number).grad),
    "write_held": lambda run, _: [tensor.mul_(0.5) for tensor in run.kept if isinstance(tensor, torch.Tensor)],
    "assign_gradient": lambda run, number: setattr(run.weight(number), "grad", torch.ones_like(run.weight(number))),
    "rate_in_place": lambda run, _: [
        group["lr"].mul_(0.5) for group in run.optimizer.param_groups if isinstance(group["lr"], torch.Tensor)
    ],
    "settings": _change_settings,
    "add_group": _add_group,
    "freeze": lambda run, number: run.weight(number).requires_grad_(not run.weight(number).requires_grad),
    "reload_saved": lambda run, _: _reload_saved(run),
    "clear_state": lambda run, _: run.optimizer.state.clear(),
    "copy_weight": lambda run, number: run.seen.append(copy.deepcopy(run.weight(number)).detach()),
    "swap_average": lambda run, _: _swap_average(run),
    "swap_views": lambda run, _: _swap_views(run),
    "assign_held": _assign_held,
    "set_held": _set_held,
    "gradient_array": _gradient_in_an_array,
    "describe": lambda run, number: run.seen.append(torch.tensor(_description(run.weight(number)))),
    "version": lambda run, _: run.seen.append(
        torch.tensor([parameter._version > 0 for parameter in run.model.parameters()])
    ),
    **MORE_BETWEEN,
}


class Run:
    """One run of a program."""

    def __init__(self, program: Program) -> None:
        torch.manual_seed(0)
        self.program = program
        self.model = Model(program)
        if program.precision == "bf16":
            self.model.to(torch.bfloat16)
        if program.precision == "double":
            self.model.to(torch.float64)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.second = torch.optim.SGD(trained[::2], lr=0.02, momentum=0.9) if program.second else None
        trained = trained[1::2] if program.second else trained
        self.optimizer = make_optimizer(program.optimizer, _grouped(self.model, trained, program.groups))
        self.average: Any = torch.optim.swa_utils.AveragedModel(self.model) if program.average == "swa" else None
        self.seen: list[Any] = []
        self.kept: list[Any] = []
        self.batch = 0
        if program.alias == "before":
            self.kept.append(self.weight(0).detach())
        elif program.alias == "before_rows":
            self.kept.append(self.weight(0).detach()[3:])
        elif program.alias == "array":
            self.kept.append(_in_an_array(self.weight(0)))
        elif program.alias == "one_buffer":
            self.kept.append(_in_one_buffer(list(dict.fromkeys(layer.weight for layer in self.model.layers))))
        self.held: list[Any] = []
        self.extra: list[nn.Parameter] = []
        self.leave: Callable[[], Any] = lambda: None
        if program.rate == "tensor" and program.optimizer in {"AdamW", "NAdam", "SGD", "fused"}:
            for group in self.optimizer.param_groups:
                group["lr"] = torch.tensor(float(group["lr"]))
        halves = program.precision == "autocast_scaled"
        self.scaler: Any = torch.amp.GradScaler(
            "cpu", init_scale=2.0**12 if halves else 16.0, enabled=program.scaler or halves, growth_interval=2
        )
        self.scheduler = SCHEDULERS[program.scheduler](self.optimizer) if program.scheduler != "no" else None

    def weight(self, index: int) -> Any:
        """Return a layer's weight."""
        layers: Any = self.model.layers
        return layers[index % len(layers)].weight

    def train(self) -> None:
        """Run the loop."""
        torch.manual_seed(1)
        self._hook()
        if self.program.alias in {"detach", "data", "numpy"}:
            weight = self.weight(1).detach()
            views = {"detach": weight, "data": self.weight(1).data, "numpy": weight.numpy()}
            self.kept.append(views[self.program.alias])
        with numbered_averages(self, self.program.average) as update_average, self._autocast("autocast_all"):
            for number, turn in enumerate(self.program.turns):
                self._turn(turn, number)
                update_average()
        self.seen += [_as_tensor(view).clone() for view in self.kept if view is not None]

    def _hook(self) -> None:
        kind, layer = self.program.hook, self.weight_module()
        if kind == "forward":
            layer.register_forward_hook(lambda _m, _a, out: out * 1.5)
        elif kind == "pre":
            layer.register_forward_pre_hook(lambda module, args: (args[0] + module.weight.mean(), *args[1:]))
        elif kind == "backward":
            layer.register_full_backward_hook(lambda _m, inputs, _: tuple(g if g is None else g * 0.5 for g in inputs))
        elif kind == "backward_reads":
            layer.register_full_backward_hook(
                lambda module, *_: self.seen.append(module.weight.norm().detach().clone())
            )
        elif kind == "multi":
            parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
            torch.autograd.graph.register_multi_grad_hook(parameters, self._note_gradients)
        else:
            self._hook_gradient(kind)

    def _note_gradients(self, gradients: Any) -> None:
        self.seen += [gradient.sum().clone() for gradient in gradients if gradient is not None]

    def _hook_gradient(self, kind: str) -> None:
        weight = self.weight(0)
        if kind == "parameter":
            weight.register_hook(lambda gradient: gradient * 0.5)
        elif kind == "parameter_in_place":
            weight.register_hook(_zero_first_row)
        elif weight.requires_grad and kind == "landed":
            weight.register_post_accumulate_grad_hook(_halve_gradient)
        elif weight.requires_grad and kind == "landed_write":
            weight.register_post_accumulate_grad_hook(_shrink)

    def weight_module(self) -> nn.Module:
        """Return the last layer."""
        return self.model.layers[-1]

    def _autocast(self, where: str) -> contextlib.AbstractContextManager[Any]:
        precision = self.program.precision
        if precision == "autocast_uncached" and where == "autocast":
            return torch.autocast("cpu", torch.bfloat16, cache_enabled=False)
        if precision == "autocast_scaled" and where == "autocast":
            return torch.autocast("cpu", torch.float16)
        return torch.autocast("cpu", torch.bfloat16) if precision == where else contextlib.nullcontext()

    def _saved_hooks(self) -> contextlib.AbstractContextManager[Any]:
        if self.program.hook == "rounding":
            return saved_tensors_hooks(_rounded, lambda tensor: tensor)
        return save_on_cpu() if self.program.hook == "offloading" else contextlib.nullcontext()

    def _tokens(self) -> torch.Tensor:
        self.batch += 1
        return torch.randint(0, 8, (ROWS,), generator=torch.Generator().manual_seed(self.batch))

    def _forward(self, turn: Turn) -> torch.Tensor:
        """Return the loss of one or two forwards, under one autocast or two."""
        if turn.apart:
            return self._forward(replace(turn, apart=False)) + self._losses(replace(turn, forwards=1, penalty=False))
        return self._losses(turn)

    def _losses(self, turn: Turn) -> torch.Tensor:
        with self._autocast("autocast"), self._saved_hooks():
            loss = sum((self._one_forward(turn) for _ in range(turn.forwards)), torch.zeros(()))
            if turn.penalty:
                loss = loss + sum(parameter.float().square().sum() for parameter in self.model.parameters()) * 1e-2
        return loss

    def _one_forward(self, turn: Turn) -> torch.Tensor:
        if turn.look:
            with torch.no_grad():
                self.seen.append(self.model(self._tokens()).clone())
        return self.model(self._tokens())  # type: ignore[no-any-return]

    def _gradients(self, turn: Turn, number: int) -> torch.Tensor:
        loss = torch.zeros(())
        for _ in range(turn.batches):
            loss = self._forward_while_frozen(turn, number)
            with torch.no_grad():
                WRITES[turn.write_before_backward](self.weight(number))
                if turn.spoil:
                    self.model.saved.mul_(2)
            with self._autocast("autocast") if turn.backward_inside else contextlib.nullcontext():
                self._backward(loss, retain_graph=turn.twice or turn.step_twice)
            self._freeze(turn, number, "backward", frozen=False)
            if turn.twice:
                self._backward(loss, retain_graph=turn.step_twice)
            self.seen.append(loss.detach().clone())
            if turn.read_held:
                self.seen += [_as_tensor(held).clone() for held in self.kept if held is not None]
        # Recomputing the reentrant way does not go with autograd.grad().
        if turn.asked and all(layer.recompute != "reentrant" for layer in self.program.layers):
            self._ask(turn)
        with torch.no_grad():
            BETWEEN[turn.hold](self, number)
            WRITES[turn.write_before_step](self.weight(number))
        if turn.overflow and (gradient := self.weight(number).grad) is not None:
            gradient[0, 0] = float("inf")
        if turn.clip:
            if not turn.closure:
                self.scaler.unscale_(self.optimizer)
            self.seen.append(CLIPS[turn.clip_by](list(self.model.parameters())))
        return loss

    def _forward_while_frozen(self, turn: Turn, number: int) -> torch.Tensor:
        """Compute the loss, with a weight that is trained frozen now or from now until after backward."""
        self._freeze(turn, number, "forward", frozen=True)
        loss = self._forward(turn)
        self._freeze(turn, number, "forward", frozen=False)
        self._freeze(turn, number, "backward", frozen=True)
        return loss

    def _freeze(self, turn: Turn, number: int, when: str, *, frozen: bool) -> None:
        if turn.frozen_in == when and not self.program.layers[number % len(self.program.layers)].frozen:
            self.weight(number).requires_grad_(not frozen)

    def _ask(self, turn: Turn) -> None:
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        gradients = torch.autograd.grad(self._forward(turn), trained, allow_unused=True)
        for parameter, gradient in zip(trained, gradients, strict=True):
            if gradient is not None and parameter.grad is not None:
                parameter.grad = parameter.grad + gradient

    def _backward(self, loss: torch.Tensor, *, retain_graph: bool) -> None:
        self.scaler.scale(loss).backward(retain_graph=retain_graph)

    def _step(self) -> None:
        if self.second is not None:
            self.second.step()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.seen.append(torch.tensor(self.scaler.get_scale()))

    def _turn(self, turn: Turn, number: int) -> None:
        self._evaluate(turn, number)
        with self._autocast("autocast_step"):
            self._learn(turn, number)
        if number == self.program.leave_after:
            self.leave()
        with torch.no_grad():
            WRITES[turn.write](self.weight(number))
            BETWEEN[turn.between](self, number)
        if turn.zero == "zero_grad":
            zeroed: Any = self.model if turn.zero_by_model or self.second is not None else self.optimizer
            zeroed.zero_grad(set_to_none=turn.set_to_none)
        else:
            for parameter in self.model.parameters():
                _zero_by_hand(parameter, turn.zero)
        if self.scheduler is not None:
            step_scheduler(self.scheduler, self.seen[-1].float().sum())

    def _learn(self, turn: Turn, number: int) -> None:
        if turn.closure or self.program.optimizer == "LBFGS":
            self._step_with_closure(turn, number)
        else:
            loss = self._gradients(turn, number)
            if not turn.skip:
                self._step()
            if turn.step_twice:
                # Torch raises where a weight was saved: it has changed since.
                loss.backward()
                self.seen += [copy.deepcopy(parameter.grad) for parameter in self.model.parameters()]

    def _step_with_closure(self, turn: Turn, number: int) -> None:
        def closure() -> torch.Tensor:
            self.optimizer.zero_grad()
            return self._gradients(turn, number)

        self.optimizer.step(closure)  # type: ignore[arg-type]

    def _evaluate(self, turn: Turn, number: int) -> None:
        modes: dict[str, Any] = {"inference": torch.inference_mode, "part_inference": torch.inference_mode}
        if turn.evaluate == "no":
            return
        casting = self._autocast("autocast") if turn.evaluate != "without_autocast" else contextlib.nullcontext()
        with modes.get(turn.evaluate, torch.no_grad)(), casting:
            if turn.evaluate == "weights":
                self.seen += [parameter.sum().clone() for parameter in self.model.parameters()]
            elif turn.evaluate.startswith("part"):
                x = torch.ones(ROWS, WIDTH, dtype=self.weight(0).dtype)
                self.seen.append(self.model.layers[number % len(self.model.layers)](x, None).clone())
            elif turn.evaluate == "state":
                self.kept.append(self.model.state_dict()["head.weight"])
            else:
                self._evaluate_otherwise(turn.evaluate)

    def _evaluate_otherwise(self, how: str) -> None:
        tokens = self._tokens()
        if how == "functional":
            others = {name: parameter.detach() * 0.9 for name, parameter in self.model.named_parameters()}
            self.seen.append(torch.func.functional_call(self.model, others, (tokens,)).clone())
        # torch.func wants functions of one's own in another form, and no saved-tensor hooks.
        elif how == "transformed" and self._may_transform():
            others = {name: parameter.detach().clone() for name, parameter in self.model.named_parameters()}
            slopes = torch.func.grad(lambda some: torch.func.functional_call(self.model, some, (tokens,)))(others)
            self.seen += [slope.clone() for slope in slopes.values()]
            self.model.saved = torch.empty(0)
        elif how == "shallow_copy":
            self.seen.append(copy.copy(self.model)(tokens).clone())
        elif how in {"fails", "interrupted"}:
            self.model.failing = ArithmeticError if how == "fails" else KeyboardInterrupt
            with contextlib.suppress(self.model.failing), torch.enable_grad():
                self.model(tokens)
            self.model.failing = None
        elif how in MORE_EVALUATIONS:
            MORE_EVALUATIONS[how](self)
        elif how == "vector":
            self.seen.append(nn.utils.parameters_to_vector(self.model.parameters()).clone())
        else:
            self.seen.append((self.model.forward if how == "forward" else self.model)(tokens).clone())

    def _may_transform(self) -> bool:
        plain = all(layer.kind != "own_function" and layer.recompute == "no" for layer in self.program.layers)
        return plain and self.program.hook not in {"backward", "backward_reads"}

    def outcome(self) -> dict[str, Any]:
        """Return everything to compare."""
        gradients = [parameter.grad for parameter in self.model.parameters()]
        state = [self.optimizer.state_dict()] + ([] if self.second is None else [self.second.state_dict()])
        return {
            "seen": self.seen,
            "model": self.model.state_dict(),
            "optimizer": state,
            "gradients": gradients,
            "held": self.held,
            "extra": self.extra,
        }


def _grouped(model: Model, trained: list[nn.Parameter], how: str) -> list[Any]:
    """Return the parameters as an optimizer is given them."""
    if how == "two" and len(trained) > 1:
        return [{"params": trained[::2]}, {"params": trained[1::2], "lr": 0.005}]
    if how == "held_back":
        last = {id(parameter) for parameter in model.layers[-1].parameters()}
        return [parameter for parameter in trained if id(parameter) not in last] or trained
    return trained


def _as_tensor(view: Any) -> torch.Tensor:
    return view if isinstance(view, torch.Tensor) else torch.as_tensor(np.asarray(view))


def layers() -> st.SearchStrategy[Layer]:
    """Draw a layer; plain ones are the most likely."""
    return st.builds(
        Layer,
        kind=st.one_of(_mostly("matmul", *INNER), _mostly("linear", *MORE_INNER), _rarely("two", *REFUSED_INNER)),
        through=_mostly("plain", *THROUGH),
        times=_mostly(1, 2, 3),
        ahead=_mostly(False, True),
        recompute=_mostly("no", "reentrant", "nonreentrant"),
        frozen=_mostly(False, True),
        also=_mostly("nothing", *ALSO),
    ).map(_recomputed_from_within)


def _recomputed_from_within(layer: Layer) -> Layer:
    """Return the layer, its weight not given to the recomputed function: of the reentrant kind that is refused."""
    return replace(layer, ahead=layer.ahead and layer.recompute != "reentrant")


def turns() -> st.SearchStrategy[Turn]:
    """Draw a step."""
    return st.builds(
        Turn,
        batches=_mostly(1, 2, 3),
        forwards=_mostly(1, 2),
        twice=_mostly(False, True),
        penalty=_mostly(False, True),
        clip=_mostly(False, True),
        clip_by=st.sampled_from(list(CLIPS)),
        evaluate=_mostly("no", *EVALUATIONS),
        write=_mostly("nothing", *WRITES),
        write_before_backward=_rarely("nothing", *WRITES),
        closure=_mostly(False, True),
        set_to_none=_mostly(True, False),
        skip=_mostly(False, True),
        step_twice=_rarely(False, True),
        apart=_mostly(False, True),
        backward_inside=_mostly(False, True),
        look=_mostly(False, True),
        hold=_mostly("nothing", *BETWEEN),
        write_before_step=_rarely("nothing", *WRITES),
        between=st.sampled_from(["nothing"] * len(BETWEEN) + list(BETWEEN) + ["write_held", "rate_in_place"] * 3),
        overflow=_rarely(False, True),
        zero_by_model=_mostly(False, True),
        zero=_mostly("zero_grad", "detach", "delete"),
        read_held=_mostly(False, True),
        asked=_mostly(False, True),
        spoil=_rarely(False, True),
        frozen_in=_mostly("nothing", "forward", "backward"),
    )


def programs() -> st.SearchStrategy[Program]:
    """Draw a program."""
    return st.builds(
        Program,
        layers=st.lists(layers(), min_size=2, max_size=5).map(tuple),
        turns=st.one_of(
            st.lists(turns(), min_size=2, max_size=4).map(tuple),
            # A loop that goes on as it began; what comes between backward and step() comes again, or only once.
            st.builds(lambda same: (same,) * 4, turns()),
            st.builds(
                lambda same, other: (same, same, replace(same, hold=other.hold, clip=other.clip), same),
                turns(),
                turns(),
            ),
        ),
        optimizer=st.sampled_from(OPTIMIZERS),
        precision=st.one_of(st.just("float"), st.just("autocast"), st.sampled_from(["bf16", "double", *CASTING])),
        hook=_mostly("no", *HOOKS),
        alias=_mostly("no", "detach", "data", "numpy", "before", "before_rows", "one_buffer", "array"),
        scheduler=_mostly("no", *SCHEDULERS),
        average=_mostly("no", "lerp", "swa"),
        groups=_mostly("one", "two", "held_back"),
        second=_mostly(False, True),
        growing=_mostly(False, True),
        tied=_mostly(False, True),
        budget=st.sampled_from([40, 60, 80, 100, 130, 200, 300, 1000]),
        verify=_mostly(False, True),
        file=_mostly(False, True, "state"),
        rate=_mostly("number", "tensor"),
        scaler=_mostly(False, True),
        leave_after=_mostly(-1, 0, 1, 2),
        late=_mostly(True, False),
        early=_mostly(True, False),
        keep=_mostly(True, False),
        threads=st.booleans(),
        activations=_mostly(None, 1, 1024, 4096, 10**6),
    ).map(_without_what_is_not_seen)


def _without_what_is_not_seen(program: Program) -> Program:
    """Return the program without what docs/tencache/refusals.md says is not seen."""
    # Autocast goes on with the casts of the leaves that it has: of parameters that are unwrapped meanwhile it has none.
    # A hook on several gradients holds nodes of the graph, which are others once the model is unwrapped.
    if program.precision == "autocast_all" or program.hook == "multi":
        program = replace(program, leave_after=-1)
    # A state dict that is held has dictionaries of its own for what is in the file.
    holds = any("hold_state_dict" in {turn.hold, turn.between} for turn in program.turns)
    if program.file and holds:
        program = replace(program, turns=tuple(map(_without_state_assigned, program.turns)))
    # An error that torch raises, and nothing else, is missing here.
    given = any(layer.ahead and layer.recompute == "nonreentrant" for layer in program.layers)
    if given and program.precision.startswith("autocast"):
        program = replace(program, turns=tuple(replace(turn, frozen_in="nothing") for turn in program.turns))
    # torch leaves parts of the momentum unwritten here: what is compared would be what the memory held before.
    if program.optimizer == "fused_sgd" and program.precision == "bf16":
        program = replace(program, precision="float")
    # LBFGS takes one group.
    if program.optimizer in {"LBFGS", "wolfe"} and program.groups == "two":
        program = replace(program, groups="one")
    # torch's averages copy the model, which cannot be done while a part keeps a weight that it has computed.
    if any(layer.kind in {"old_weight_norm", "pruned"} for layer in program.layers) and program.average == "swa":
        program = replace(program, average="lerp")
    return program


def _without_state_assigned(turn: Turn) -> Turn:
    """Return the turn, values of the optimizer's state not assigned."""
    kept = {name: getattr(turn, name) for name in ("hold", "between")}
    return replace(turn, **{name: "nothing" if kind == "write_state" else kind for name, kind in kept.items()})


def _mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.one_of(st.just(usual), st.just(usual), st.just(usual), st.sampled_from([usual, *others]))


def _rarely(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([usual] * (30 * len(others)) + list(others))


def _rounded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.bfloat16).to(tensor.dtype) if tensor.is_floating_point() else tensor


def _slowly(step: Callable[..., None]) -> Callable[..., None]:
    """Return a step that takes its time where nobody waits for it."""

    def slow(self: StandIn, *arguments: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.002)
        step(self, *arguments)

    return slow


def _all_early(trace: StepTrace, budget_bytes: int, speeds: Bandwidths, _: Any) -> StepPlan:
    """Return a plan with every update within backward that may be there."""
    if speeds.updates != "within":
        return best_plan(trace, budget_bytes, speeds)
    return with_early(plan_ahead(trace, budget_bytes), 1.0, 2**62)


def _done_at_once(arrived: Callable[..., None]) -> Callable[..., None]:
    """Return what takes in a gradient, and lets an update that this begins be over before the loop goes on."""

    def patient(self: EarlyUpdates, *arguments: Any) -> None:
        arrived(self, *arguments)
        self._masters.pending.wait_quietly()

    return patient


def _want_early(self: plan_book.PlanBook, **_: bool) -> None:
    self._early_wanted = True


@contextlib.contextmanager
def _always_early() -> Iterator[None]:
    """Compute early what may be, however often it is thrown away and however little there is to gain."""
    with (
        patch.object(plan_book, "best_plan", _all_early),
        patch.object(plan_book.PlanBook, "compute_early", _want_early),
        patch.object(EarlyUpdates, "arrived", _done_at_once(EarlyUpdates.arrived)),
    ):
        yield


def _choose_most(self: plan_book.PlanBook, offer: KeepOffer) -> frozenset[int]:
    """Return the units of as much state as there is room for."""
    trace = self.traces.get("train")
    found = [] if trace is None else choices(trace, offer)
    most = max(found, key=kept_bytes, default=())
    return frozenset(unit for one in most for unit in one.units)


@contextlib.contextmanager
def _keep_most() -> Iterator[None]:
    with patch.object(plan_book.PlanBook, "choose_kept", _choose_most), patch.object(attach, "STEPS_BEFORE", 1):
        yield


@contextlib.contextmanager
def wrapped(run: Run) -> Iterator[tencache.Cached]:
    """Wrap a run's model and optimizer."""
    from tencache_cases import half_in_file, state_in_file

    program = run.program
    # As in a model of many megabytes: several slices in an optimizer's step, several copies of gradients, in pieces.
    small = patch.multiple(attach, SLICE_BYTES=1024), patch.multiple(gradients, SMALL_BYTES=512)
    pieces = patch.multiple(parameter_entry, PIECE_BYTES=256)
    filed = patch.multiple(filed_state, SMALLEST_BYTES=64)
    # And updates that are still to come when the loop goes on.
    slow = patch.object(StandIn, "step", _slowly(StandIn.step)) if program.late else contextlib.nullcontext()
    early = _always_early() if program.early else contextlib.nullcontext()
    keep = _keep_most() if program.keep else contextlib.nullcontext()
    # Large parameters are updated, and large copies carried out, on threads of their own.
    at_once = {} if not program.threads else {"AT_ONCE_BYTES": 0}
    large = patch.object(known_optimizers, "WORTH_BYTES", 0), patch.dict(vars(link), at_once)
    saved = patch.object(activations, "WORTH_BYTES", 64)
    with (
        tempfile.TemporaryDirectory() as folder,
        saved,
        small[0],
        small[1],
        pieces,
        filed,
        slow,
        early,
        keep,
        large[0],
        large[1],
    ):
        halves = state_in_file if program.file == "state" else half_in_file
        options: dict[str, Any] = {**halves(run.model), "nvme": folder} if program.file else {}
        budget = f"{program.budget}%"
        options["activations"] = program.activations
        cached = tencache.wrap(run.model, run.optimizer, budget=budget, verify=program.verify, **options)
        try:
            yield cached
        finally:
            cached.unwrap()


@dataclass(frozen=True)
class Failure:
    """An error, and what a run had seen until then."""

    error: Exception
    seen: list[Any]

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


def try_unwrapped(program: Program) -> dict[str, Any] | Failure:
    """Return what the plain run comes to, or the error that it raises."""
    run = Run(program)
    try:
        run.train()
    except Exception as error:  # noqa: BLE001  whatever it is, the wrapped run must raise too
        return Failure(error, run.seen)
    return run.outcome()


def try_wrapped(program: Program) -> dict[str, Any] | Failure:
    """Return what the wrapped run comes to, or its error."""
    run = Run(program)
    try:
        with wrapped(run) as cached:
            run.leave = cached.unwrap
            run.train()
            first = run.outcome()
            first = {**first, "model": {key: value.clone() for key, value in first["model"].items()}}
    except Exception as error:  # noqa: BLE001  judged by the caller
        return Failure(error, run.seen)
    return {**run.outcome(), "wrapped": first["model"]}


def judge(program: Program) -> str:
    """Return "same", "raised" as unwrapped, "refused: why", "undefined: why" or "wrong: how"."""
    from tencache_cases import same_tensors

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, found = try_unwrapped(program), try_wrapped(program)
    if isinstance(found, Failure):
        if isinstance(found.error, RefusedError):
            return f"refused: {found.error}"
        return _judge_failure(expected, found) if isinstance(expected, Failure) else f"wrong: raises {found}"
    if isinstance(expected, Failure):
        return f"wrong: does not raise {expected}"
    expected["wrapped"] = expected["model"]
    parts = [key for key in expected if not same_tensors(expected[key], found[key])]
    if parts and _is_undefined(program, expected):
        return "undefined: the unwrapped run differs from itself"
    return f"wrong: other {', '.join(parts)}" if parts else "same"


def _judge_failure(expected: Failure, found: Failure) -> str:
    """Return "raised" if a run fails as the plain one does: by the same kind of error, having seen the same."""
    from tencache_cases import same_tensors

    if type(found.error) is not type(expected.error):
        return f"wrong: raises {found}, not {expected}"
    return "raised" if same_tensors(found.seen, expected.seen) else f"wrong: has seen other things before {found}"


def _is_undefined(program: Program, expected: dict[str, Any]) -> bool:
    """Return whether a second plain run is another one: fused SGD in bf16 leaves parts of its momentum unwritten."""
    from tencache_cases import same_tensors

    again = try_unwrapped(program)
    return isinstance(again, Failure) or any(not same_tensors(expected[key], again[key]) for key in again)


# So many are drawn from one seed. hypothesis varies what it has drawn: a long draw from one is of few kinds.
EACH = 5


def drawn(count: int, start: int = 0) -> list[Program]:
    """Return so many programs."""
    found: list[Program] = []
    for number in itertools.count():
        # The first of each is the simplest there is.
        found += _drawn_once(EACH + 1, start * 100_000 + number)[1:]
        if len(found) >= count:
            return found[:count]
    raise AssertionError


def _drawn_once(count: int, start: int) -> list[Program]:
    found: list[Program] = []

    @seed(start)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def one(program: Program) -> None:
        found.append(program)

    one()
    return found


def collect(count: int, start: int = 0) -> list[tuple[Program, str]]:
    """Judge so many programs."""
    return [(program, judge(program)) for program in drawn(count, start)]


def main() -> None:
    """Try so many programs of a seed, in so many seconds at most, and print what became of them."""
    torch.set_num_threads(1)
    given = [int(argument) for argument in sys.argv[1:]]
    count, start, most_s = (*given, *(500, 0, 10**9)[len(given) :])
    began = time.monotonic()
    found: list[tuple[Program, str]] = []
    for program in drawn(count, start):
        if time.monotonic() - began > most_s:
            break
        found.append((program, judge(program)))
        # At once: a long run may be broken off.
        if found[-1][1].startswith("wrong"):
            sys.stdout.write(f"{found[-1][1].splitlines()[0]}\n    {brief(program)}\n")
            sys.stdout.flush()
    kinds = Counter(verdict.split(":")[0] for _, verdict in found)
    sys.stdout.write(f"{len(found)} programs of seed {start}: {dict(kinds)}\n")
    for reason, times in Counter(_reason(verdict) for _, verdict in found).most_common(25):
        sys.stdout.write(f"{times:>6} {reason}\n")


def brief(value: Any) -> str:
    """Return what differs from the plainest program."""
    if isinstance(value, tuple):
        return f"({', '.join(brief(item) for item in value)})"
    if not is_dataclass(value):
        return repr(value)
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    defaults = {field.name: field.default for field in fields(value)}
    text = ", ".join(f"{name}={brief(part)}" for name, part in parts.items() if part != defaults[name])
    return f"{type(value).__name__}({text})"


def _reason(verdict: str) -> str:
    return " ".join(re.sub(r"[\d.]+ KiB|layers\S+", "...", verdict).split()[:10])


if __name__ == "__main__":
    main()
