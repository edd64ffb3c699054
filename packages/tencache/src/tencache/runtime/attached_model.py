"""What is put on a model while it is wrapped: hooks on its parts and parameters, and its buffers on the device."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from tencache.errors import RefusedError
from tencache.runtime.cycle.engine import Engine
from tencache.runtime.hooks.operation_router import OperationRouter
from tencache.runtime.hooks.refusals import describe_direct
from tencache.runtime.hooks.unasked_functions import UnaskedFunctions
from tencache.runtime.hooks.wrapped_parameter import WrappedParameter
from tencache.runtime.optimizer.held_elsewhere import gradient_is_held
from tencache.runtime.optimizer.sliced_step import Stepper
from tencache.runtime.tensors.gradient_reduction import GradientReduction
from tencache.runtime.tensors.parameter_entry import ParameterEntry
from tencache.runtime.unrouted import Unrouted


class AttachedModel:
    """A model whose parameters route their operations, and whose forwards begin and end with the engine's."""

    def __init__(
        self,
        model: nn.Module,
        entries: Sequence[ParameterEntry],
        router: OperationRouter,
        device: torch.device,
    ) -> None:
        self._model = model
        self._entries = entries
        self._router = router
        self._device = device
        self._watches: dict[int, Any] = {}
        self._unasked = UnaskedFunctions()
        self._buffers: list[tuple[nn.Module, str, torch.device]] = []

    def attach(self, engine: Engine, stepper: Stepper | None, reduction: GradientReduction) -> None:
        """Put hooks on every part and every parameter."""
        for module in self._model.modules():
            # A part may be called by itself, as generate() does with an encoder.
            if module is self._model:
                self._router.parts.add(module, self._router.before_forward, self._router.after_forward)
            elif any(True for _ in module.parameters()):
                self._router.parts.add(module, self._router.before_part, self._router.after_part)
        for entry in self._entries:
            self._attach_entry(entry, _sender(engine, self._router, stepper, reduction, entry))
        self._unasked.begin()

    def remove_hooks(self) -> None:
        """Remove them; the parameters still route their operations."""
        self._router.parts.remove()
        for handle in self._watches.values():
            handle.remove()

    def release_parameters(self) -> None:
        """Let parameters be plain ones again."""
        self._unasked.end()
        self._release(self._entries)

    def let_go(self, entries: Sequence[ParameterEntry]) -> None:
        """Let some parameters be plain ones from now on."""
        for entry in entries:
            if (watch := self._watches.pop(entry.index, None)) is not None:
                watch.remove()
        self._release(entries)

    @staticmethod
    def _release(entries: Sequence[ParameterEntry]) -> None:
        for entry in entries:
            parameter: Any = entry.parameter
            parameter.__class__ = nn.Parameter
            parameter.__dict__.pop("_tencache_owner", None)
            parameter.__dict__.pop("_tencache_entry", None)
            # A gradient that user code holds stays what it holds.
            if parameter.grad is not None and not gradient_is_held(entry):
                parameter.grad = parameter.grad.clone()

    def move_buffers(self) -> None:
        """Move the model's buffers to a real device for good, and note where they were."""
        if self._device.type == "cpu":
            return
        for module in self._model.modules():
            for name, buffer in module._buffers.items():  # noqa: SLF001
                if buffer is not None:
                    self._buffers.append((module, name, buffer.device))
                    module._buffers[name] = buffer.to(self._device)  # noqa: SLF001

    def return_buffers(self) -> None:
        """Move them back."""
        for module, name, home in self._buffers:
            buffer = module._buffers[name]  # noqa: SLF001
            if buffer is not None:
                module._buffers[name] = buffer.to(home)  # noqa: SLF001

    def _attach_entry(self, entry: ParameterEntry, send: Callable[[Tensor], None]) -> None:
        if entry.dtype.is_floating_point or entry.dtype.is_complex:
            # Hooks can only be registered on what requires a gradient; bind() sets it as the parameter has it.
            entry.leaf.requires_grad_()
            leaf: Any = entry.leaf
            leaf.register_post_accumulate_grad_hook(send)
            entry.share_hooks()
            self._watches[entry.index] = _watch(entry)
        parameter: Any = entry.parameter
        parameter._tencache_owner = self._router  # noqa: SLF001
        parameter._tencache_entry = entry  # noqa: SLF001
        # Last: from here on every operation is routed, and needs both attributes.
        parameter.__class__ = WrappedParameter


def _sender(
    engine: Engine,
    router: OperationRouter,
    stepper: Stepper | None,
    reduction: GradientReduction,
    entry: ParameterEntry,
) -> Callable[[Tensor], None]:
    def send(leaf: Tensor) -> None:
        with Unrouted():
            # Taken away at once: left there, autograd would add the next micro-batch's to it, on the device.
            gradient, leaf.grad = leaf.grad, None
            # Frozen since the forward: torch has dropped its gradient, and calls hooks all the same.
            if gradient is None:
                if hooks := entry.landing_hooks():
                    router.run_hooks(entry, hooks)
                return
            if engine.device_copies.arena.closed or entry.on_device:
                _add_gradient(entry, gradient)
                return
            # Who holds what it is added to may read it without asking for `.grad`.
            held = gradient_is_held(entry)
            engine.gradient(entry, gradient)
            del gradient
            if held:
                engine.gradients.wait(entry)
            if hooks := entry.landing_hooks():
                router.run_hooks(entry, hooks)
            if reduction.active:
                # Waiting for other processes is no compute.
                engine.cycle.recorder.pause()
                reduction.arrived(entry)
                engine.cycle.recorder.resume()
            elif stepper is not None:
                stepper.arrived(entry)
            if stepper is not None:
                stepper.read_ahead()

    return send


def _add_gradient(entry: ParameterEntry, gradient: Tensor) -> None:
    """Add a gradient of a graph from before the device was let go to its parameter, as torch does."""
    parameter: Any = entry.parameter
    gradient = gradient.to(parameter.device)
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad += gradient
    for hook in list((getattr(parameter, "_post_accumulate_grad_hooks", None) or {}).values()):
        hook(parameter)


def _watch(entry: ParameterEntry) -> Any:
    """Refuse a gradient that arrives at the parameter itself: it belongs to the device's copy."""
    parameter: Any = entry.parameter

    def refuse(_: Tensor) -> NoReturn:
        raise RefusedError(describe_direct(entry.name))

    trained = parameter.requires_grad
    handle = parameter.requires_grad_().register_post_accumulate_grad_hook(refuse)
    entry.watch_id = handle.id
    parameter.requires_grad_(trained)
    return handle
