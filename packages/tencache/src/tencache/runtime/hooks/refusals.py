"""What is refused when a model is wrapped, each with a sentence that says what to change."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim import Optimizer

from tencache.errors import RefusedError
from tencache.runtime.hooks.wrapped_parameter import WrappedParameter

COMPILED = (
    "torch.compile and tencache cannot both decide where parameters are: wrap the model without compiling it, or "
    "unwrap it before compiling"
)


def check_model(model: nn.Module) -> None:
    """Refuse models whose parameters cannot be managed."""
    for name, module in model.named_modules():
        if isinstance(module, DataParallel):
            raise RefusedError(
                f"{name or 'the model'} is a DataParallel, which copies parameters to every device: use "
                "DistributedDataParallel, with a process for each device"
            )
        if isinstance(module, DistributedDataParallel):
            raise RefusedError(
                f"{name} is a DistributedDataParallel inside the model, which reduces only a part of the gradients: "
                "put it around the whole model"
            )
        if isinstance(module, torch.jit.ScriptModule):
            raise RefusedError(
                f"{name or 'the model'} is a module of torch.jit, which reads parameters by itself: wrap the module "
                "that it was made of"
            )
        if type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None:
            raise RefusedError(f"{name or 'the model'} is compiled. {COMPILED}")
    named = list(model.named_parameters())
    if not named:
        raise RefusedError("the model has no parameters: there is nothing to cache")
    for name, parameter in named:
        _check_parameter(name, parameter)
    _check_apart(named)


def check_optimizer(optimizer: Optimizer, model: nn.Module) -> None:
    """Refuse optimizers of another model."""
    own = {id(parameter) for parameter in model.parameters()}
    if any(id(parameter) not in own for group in optimizer.param_groups for parameter in group["params"]):
        raise RefusedError("the optimizer holds parameters that the model does not: wrap the model that it trains")


class FastPaths:
    """The layers for which torch has a second way to compute them, taken only where no parameter is wrapped."""

    def __init__(self, model: nn.Module) -> None:
        self._layers = [
            (name, module)
            for name, module in model.named_modules()
            if isinstance(module, (nn.MultiheadAttention, nn.TransformerEncoderLayer))
        ]

    def refuse(self) -> None:
        """Refuse an evaluation that would be rounded otherwise than the unwrapped one."""
        for name, module in self._layers:
            if not module.training and torch.backends.mha.get_fastpath_enabled():
                raise RefusedError(
                    f"{name or 'the model'} is evaluated by torch's fast path, which does not see wrapped parameters "
                    "and rounds differently: call torch.backends.mha.set_fastpath_enabled(False)"
                )


def differentiating_functions() -> bool:
    """Return whether this is inside torch.func.grad, vjp, jvp or the like; vmap alone makes no graph."""
    transforms = torch._C._functorch  # noqa: SLF001  no public name gives it
    if transforms.peek_interpreter_stack() is None:
        return False
    stack: Any = transforms.get_interpreter_stack()
    return any(one.key() != transforms.TransformType.Vmap for one in stack)


def describe_transform(name: str) -> str:
    """Return a sentence that says why a parameter cannot be differentiated by torch.func."""
    return (
        f"{name} is used inside torch.func.grad or the like, whose graph would keep its device copy: give the model "
        "detached copies of its parameters by functional_call(), or unwrap it"
    )


def refuse_if_compiling() -> None:
    """Refuse to run inside a compiled region, or one that is traced."""
    if torch._C._get_tracing_state() is not None:  # noqa: SLF001  the public name has no type
        raise RefusedError("torch.jit.trace would keep device copies as constants: unwrap() the model to trace it")
    if torch.compiler.is_compiling() or torch._C._dynamo.eval_frame.get_eval_frame_callback() is not None:  # noqa: SLF001
        raise RefusedError(COMPILED)


def _check_parameter(name: str, parameter: nn.Parameter) -> None:
    if isinstance(parameter, WrappedParameter):
        raise RefusedError(f"{name} is wrapped already: call unwrap() first")
    if type(parameter) is not nn.Parameter:
        raise RefusedError(f"{name} is a {type(parameter).__name__}: only plain parameters can be moved byte by byte")
    if parameter.device.type != "cpu":
        raise RefusedError(f"{name} is on {parameter.device}: leave the model on the CPU, wrap() moves what is needed")
    if not _dense(parameter):
        raise RefusedError(f"{name} has strides {parameter.stride()} with gaps or overlaps: call .contiguous() on it")


def refuse_hooks(model: nn.Module) -> None:
    """Refuse gradient hooks, where the model is to be divided over processes."""
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):  # noqa: SLF001
            raise RefusedError(describe_hook(name))


def describe_hook(name: str) -> str:
    """Return a sentence that says why a gradient hook cannot work where the model is divided over processes."""
    return (
        f"{name} has a gradient hook, and with shard= its gradient is with another process: change gradients in the "
        "loss, or leave out shard="
    )


def describe_direct(name: str) -> str:
    """Return a sentence for a function that is given a parameter where tencache cannot see it."""
    return (
        f"{name} reached autograd without its device copy, through what torch does not let tencache see (a custom "
        "autograd.Function, torch.jit, sparse or nested tensors): give it weight.view_as(weight) instead of weight"
    )


def _dense(parameter: nn.Parameter) -> bool:
    """Return whether the strides are a permutation of those of a contiguous tensor."""
    expected = 1
    for stride, size in sorted(zip(parameter.stride(), parameter.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _check_apart(named: Sequence[tuple[str, nn.Parameter]]) -> None:
    """Refuse parameters that share memory without being the same object: wrapping would part them."""
    ranges = sorted(
        (parameter.data_ptr(), parameter.data_ptr() + parameter.nbytes, name)
        for name, parameter in named
        if parameter.numel()
    )
    for (_, end, name), (start, _, other) in pairwise(ranges):
        if start < end:
            raise RefusedError(
                f"{name} and {other} share memory but are two parameters: tie them as one (b.weight = a.weight)"
            )
