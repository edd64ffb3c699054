"""Ways to train, each run with and without tencache on the same device: every bit must be the same.

The twin to compare with has all of its parameters on the device. Around each step of an optimizer on the host they are
sent up and down, one by one, and waited for.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import AdamW, Optimizer

from tencache.bench.gpt import GPT, GPTConfig, batches

CONFIG = GPTConfig(vocabulary=96, context=12, width=32, heads=4, layers=4)
BUDGET = "40%"
Wrap = Callable[..., Any]


@dataclass(frozen=True)
class TrainingWay:
    """What the model is, and what the loop does besides."""

    config: GPTConfig = field(default_factory=lambda: CONFIG)
    micro_batches: int = 1
    clip: float | None = None
    evaluate: bool = False
    autocast: bool = False
    # The device's memory for what autograd saves; one byte lets all of it go that can.
    activations: int | None = None


WAYS = {
    "plain": TrainingWay(),
    "tied weights": TrainingWay(replace(CONFIG, tied=True)),
    "accumulation": TrainingWay(micro_batches=3),
    "clipping": TrainingWay(clip=0.5),
    "checkpointing": TrainingWay(replace(CONFIG, recompute="nonreentrant")),
    "reentrant checkpointing": TrainingWay(replace(CONFIG, recompute="reentrant")),
    "evaluation": TrainingWay(evaluate=True),
    "autocast": TrainingWay(autocast=True),
    # Large enough to be worth a copy.
    "saved tensors on the host": TrainingWay(replace(CONFIG, context=64, width=128), activations=1),
}


class Trained(Protocol):
    """A model, or what stands for one."""

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the loss."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters that the optimizer has, with their gradients."""


class DeviceTwin:
    """A model on the device beside the one on the host that the optimizer updates."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._host = model
        self._device = copy.deepcopy(model).to(device)
        # Where torch makes new parameters on the device, it makes two of a tied one.
        own = dict(self._device.named_parameters(remove_duplicate=False))
        first = {parameter: name for name, parameter in model.named_parameters()}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            owner, _, leaf = name.rpartition(".")
            setattr(self._device.get_submodule(owner), leaf, own[first[parameter]])

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the loss, after the host's parameters were sent up."""
        with torch.no_grad():
            for mine, theirs in self._pairs():
                mine.copy_(theirs)
        loss: Tensor = self._device(tokens)
        return loss

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return the host's parameters, after the gradients were sent down."""
        for mine, theirs in self._pairs():
            theirs.grad = None if mine.grad is None else mine.grad.cpu()
            mine.grad = None
        return self._host.parameters()

    def _pairs(self) -> Iterator[tuple[nn.Parameter, nn.Parameter]]:
        return zip(self._device.parameters(), self._host.parameters(), strict=True)


def runs_alike(way: TrainingWay, device: torch.device, wrap_it: Wrap, steps: int = 4) -> bool | None:
    """Return whether the wrapped run has the bits of its twin; None where the twin does not repeat its own."""
    # Of the kernels for attention only this one adds in the same order every time, on every device.
    with sdpa_kernel(SDPBackend.MATH):
        first, second = (_run(way, device, None, steps) for _ in range(2))
        if not _same(first, second):
            return None
        return _same(first, _run(way, device, wrap_it, steps))


def _run(way: TrainingWay, device: torch.device, wrap_it: Wrap | None, steps: int) -> list[Tensor]:
    """Return every loss, parameter and piece of optimizer state."""
    torch.manual_seed(0)
    model = GPT(way.config)
    optimizer = AdamW(model.parameters(), lr=1e-2)
    cached = None if wrap_it is None else wrap_it(model, optimizer, activations=way.activations)
    seen = _train(way, model if cached is not None else DeviceTwin(model, device), optimizer, device, steps)
    if cached is not None:
        cached.unwrap()
    state = [value for values in optimizer.state.values() for value in values.values() if isinstance(value, Tensor)]
    return [*seen, *(parameter.detach() for parameter in model.parameters()), *state]


def _train(way: TrainingWay, model: Trained, optimizer: Optimizer, device: torch.device, steps: int) -> list[Tensor]:
    seen = []
    for step in range(steps):
        tokens = batches(way.config, 1, size=2 * way.micro_batches, seed=step)[0].to(device)
        for part in tokens.chunk(way.micro_batches):
            with _precision(way, device):
                loss = model(part)
            (loss / way.micro_batches).backward()  # type: ignore[no-untyped-call]
            seen.append(loss.detach().cpu())
        if way.evaluate:
            with torch.no_grad():
                seen.append(model(tokens).cpu())
        parameters = list(model.parameters())
        if way.clip is not None:
            seen.append(nn.utils.clip_grad_norm_(parameters, way.clip).cpu())
        optimizer.step()
        optimizer.zero_grad()
    return seen


def _precision(way: TrainingWay, device: torch.device) -> AbstractContextManager[Any]:
    return torch.autocast(device.type, torch.bfloat16) if way.autocast else nullcontext()


def _same(one: list[Tensor], two: list[Tensor]) -> bool:
    # As bytes: what is not a number is compared too.
    pairs = zip(one, two, strict=True)
    return len(one) == len(two) and all(torch.equal(_bytes(first), _bytes(second)) for first, second in pairs)


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
