"""What is known of an optimizer: whether it may be stepped in slices, or late, and how to call its own step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

# Optimizers that are known to update each parameter by itself. Of any other, even of a subclass of these, nothing is
# known: it may take a norm over all gradients, draw random numbers or count its steps. Its step runs as a whole.
PER_PARAMETER = frozenset(
    [
        torch.optim.ASGD,
        torch.optim.Adadelta,
        torch.optim.Adafactor,
        torch.optim.Adagrad,
        torch.optim.Adam,
        torch.optim.AdamW,
        torch.optim.Adamax,
        torch.optim.NAdam,
        torch.optim.RAdam,
        torch.optim.RMSprop,
        torch.optim.Rprop,
        torch.optim.SGD,
    ]
)
# Those that compute element by element: the same on any thread, however many others there are.
ELEMENTWISE = PER_PARAMETER - {torch.optim.Adafactor}
# The mean size of a parameter from which its update takes longer than the interpreter's part of it.
WORTH_BYTES = 256 * 1024


def may_be_sliced(optimizer: Optimizer) -> bool:
    """Return whether an optimizer may be called for some of its parameters at a time."""
    return type(optimizer) in PER_PARAMETER and own_step(optimizer) is None and not _couples(optimizer)


def _couples(optimizer: Optimizer) -> bool:
    """Return whether what an update of one parameter comes to depends on others."""
    # torch's fused SGD begins the momentum of those parameters alone that all begin with it in the same call.
    return type(optimizer) is torch.optim.SGD and any(
        group.get("fused") and group["momentum"] for group in optimizer.param_groups
    )


def may_be_late(optimizer: Optimizer) -> bool:
    """Return whether an optimizer's updates may be computed after its step has returned."""
    return may_be_sliced(optimizer) and type(optimizer) in ELEMENTWISE


def worth_a_thread(optimizer: Optimizer) -> bool:
    """Return whether updates on a thread of their own are worth it.

    Those of small parameters are work of the interpreter, which two threads cannot do at once: sharing it costs more.
    """
    sizes = [parameter.nbytes for group in optimizer.param_groups for parameter in group["params"]]
    return bool(sum(sizes) >= WORTH_BYTES * len(sizes))


def own_step(optimizer: Optimizer) -> Any:
    """Return the step that someone has put on this one object, if it does more than the class's."""
    step = optimizer.__dict__.get("step")
    # A scheduler's only notes that it was called.
    return None if getattr(step, "_wrapped_by_lr_sched", False) else step


def state_tensors(optimizer: Optimizer) -> int:
    """Return how many tensors of its size each parameter's state will have, found by a step on a small parameter."""
    probe = nn.Parameter(torch.zeros(4, 4))
    probe.grad = torch.zeros(4, 4)
    kind: Any = type(optimizer)
    small = kind([probe])
    small.param_groups[0].update({key: value for key, value in optimizer.param_groups[0].items() if key != "params"})
    _without_hooks(kind.step)(small)
    return sum(getattr(value, "shape", None) == probe.shape for value in small.state[probe].values())


def raw_step(optimizer: Optimizer) -> Callable[..., Any]:
    """Return the step to run, as a function of the optimizer and a closure."""
    own = own_step(optimizer)
    return _without_hooks(type(optimizer).step) if own is None else lambda _, *closure: own(*closure)


def _without_hooks(step: Any) -> Callable[..., Any]:
    """Return the step below the wrapper that runs step hooks: they run once a step, not once a slice."""
    inner: Callable[..., Any] = step.__wrapped__ if getattr(step, "hooked", False) else step
    return inner
