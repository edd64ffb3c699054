"""What the programs share: small models, batches, and the list that they are entered in."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

WIDTH, ROWS = 24, 6
Wrap = Callable[..., Any]
Idiom = Callable[[Wrap], Any]
IDIOMS: dict[str, Idiom] = {}


def idiom(function: Idiom) -> Idiom:
    """Let a function be one of the programs."""
    IDIOMS[function.__name__] = function
    return function


def mlp(*more: nn.Module, width: int = WIDTH) -> nn.Sequential:
    """Return a small network."""
    return nn.Sequential(nn.Linear(WIDTH, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, WIDTH), *more)


def batch(seed: int, *shape: int) -> torch.Tensor:
    """Return a batch."""
    return torch.randn(*(shape or (ROWS, WIDTH)), generator=torch.Generator().manual_seed(seed))


def fit(model: Any, optimizer: Any, steps: int = 4, loss: Callable[[Any, int], Any] | None = None) -> list[Any]:
    """Train, and return the losses."""
    seen = []
    for step in range(steps):
        value = loss(model, step) if loss else model(batch(step)).square().mean()
        value.backward()
        seen.append(value.detach().clone())
        optimizer.step()
        optimizer.zero_grad()
    return seen


def adam(model: Any, **options: Any) -> torch.optim.Optimizer:
    """Return the optimizer that most programs use."""
    return torch.optim.AdamW(model.parameters(), lr=1e-2, **options)


def weights(model: Any) -> list[torch.Tensor]:
    """Return copies of what a model has learned."""
    return [tensor.detach().clone() for tensor in model.state_dict().values() if isinstance(tensor, torch.Tensor)]
