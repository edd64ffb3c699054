"""What is put on an optimizer while its model is wrapped: a step that moves, a zero_grad that waits, plain states."""

from collections.abc import Callable
from types import MethodType
from typing import Any

from torch import nn
from torch.optim import Optimizer

from tencache.errors import RefusedError
from tencache.runtime.cycle.engine import Engine
from tencache.runtime.optimizer.filed_state import FiledState
from tencache.runtime.optimizer.known_optimizers import own_step
from tencache.runtime.optimizer.sliced_step import Stepper
from tencache.runtime.sharding import Sharding
from tencache.runtime.tensors.gradient_reduction import GradientReduction
from tencache.runtime.tensors.masters import Masters
from tencache.runtime.unrouted import Unrouted


class AttachedOptimizer:
    """An optimizer whose `step` and `zero_grad` are those of a wrapped model."""

    def __init__(
        self,
        optimizer: Optimizer,
        model: nn.Module,
        stepper: Stepper,
        engine: Engine,
        masters: Masters,
        reduction: GradientReduction,
        sharding: Sharding | None,
    ) -> None:
        self._optimizer = optimizer
        self._model = model
        self._stepper = stepper
        self._engine = engine
        self._masters = masters
        self._reduction = reduction
        self._sharding = sharding
        self._handles: list[Any] = []
        self._own = {name: optimizer.__dict__.get(name) for name in ("step", "zero_grad")}
        self._on_device = False
        self._zero_of_model: Callable[..., None] | None = None

    def attach(self, after_step: Callable[[Optimizer], None]) -> None:
        """Put everything on; `after_step` is called at the end of each step."""
        optimizer = self._optimizer
        hooked = own_step(optimizer) is None and getattr(type(optimizer).step, "hooked", False)

        def step(_: Optimizer, closure: Callable[[], Any] | None = None) -> Any:
            loss = self._step(closure)
            if not self._on_device:
                after_step(optimizer)
            return loss

        # Hooks run once a step, not once a slice; an optimizer of another making may not have any.
        around: Any = Optimizer.profile_hook_step(step) if hooked else step
        optimizer.step = MethodType(around, optimizer)  # type: ignore[method-assign]
        optimizer.zero_grad = self._zeroing(optimizer.zero_grad)  # type: ignore[method-assign]
        self._watch_states()
        # Through the parameters' own `.grad` it would wait for updates that it does not touch.
        if "zero_grad" not in self._model.__dict__:
            self._zero_of_model = self._zeroing(self._model.zero_grad)
            self._model.__dict__["zero_grad"] = self._zero_of_model

    def stay_on_device(self) -> None:
        """Let the optimizer step by itself from now on: everything that it needs is on the device."""
        self._on_device = True
        # Nothing is on its way any more, and copies of the model would have this one's.
        self._give_back_zero_grad()

    def detach(self) -> None:
        """Give the optimizer, and the model's zero_grad, back as they were."""
        self._stepper.close()
        self._give_back_zero_grad()
        for name, own in self._own.items():
            if own is None:
                self._optimizer.__dict__.pop(name, None)
            else:
                setattr(self._optimizer, name, own)
        for parameter, state in self._optimizer.state.items():
            if isinstance(state, FiledState):
                self._optimizer.state[parameter] = dict(state.items())

    def _give_back_zero_grad(self) -> None:
        """Take ours off the model; one of its own stays."""
        if self._zero_of_model is not None and self._model.__dict__.get("zero_grad") is self._zero_of_model:
            del self._model.__dict__["zero_grad"]

    def remove_hooks(self) -> None:
        """Remove the hooks on loading and saving its state."""
        for handle in self._handles:
            handle.remove()

    def _step(self, closure: Callable[[], Any] | None) -> Any:
        self._reduction.refuse_unfinished()
        if self._on_device:
            self._engine.counters.steps += 1
            return self._stepper.step_on_device(closure)
        if self._sharding is not None:
            if closure is not None:
                raise RefusedError("step(closure) while divided over processes: call backward() before step()")
            self._sharding.before_step()
        return self._stepper.step(None if closure is None else self._reduced(closure))

    def _watch_states(self) -> None:
        optimizer, stepper = self._optimizer, self._stepper
        if stepper.sliced:
            self._handles.append(optimizer.register_load_state_dict_pre_hook(lambda *_: stepper.look()))
        if self._sharding is not None:
            self._handles += [
                optimizer.register_state_dict_post_hook(self._sharding.whole_state),
                optimizer.register_load_state_dict_post_hook(self._sharding.keep_own_state),
            ]
        if stepper.store is not None:
            self._handles += [
                optimizer.register_state_dict_post_hook(_plain_state),
                optimizer.register_load_state_dict_post_hook(lambda _: stepper.forget()),
            ]

    def _reduced(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """Return what does the same, and refuses gradients that not every process has."""

        def reduced() -> Any:
            loss = closure()
            self._reduction.refuse_unfinished()
            return loss

        return reduced

    def _zeroing(self, zero_grad: Callable[..., None]) -> Callable[..., None]:
        """Return what does the same, once the gradients that it drops or writes to are not on their way any more."""
        # Optimizers of another making may have arguments of their own.
        known = getattr(zero_grad, "__func__", None) in {Optimizer.zero_grad, nn.Module.zero_grad}

        def zero(*args: Any, **kwargs: Any) -> None:
            if self._sharding is not None:
                self._sharding.refuse_early_zero()
            # A gradient that landed after it was zeroed would be counted in the next step.
            self._engine.gradients.wait_all(self._engine.entries)
            self._masters.looks.at_all()
            # Dropped ones are kept by the updates that need them.
            if not known or not (args[0] if args else kwargs.get("set_to_none", True)):
                self._masters.pending.wait_all()
            with Unrouted():
                zero_grad(*args, **kwargs)

        return zero


def _plain_state(_: Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return the state dict with tensors in place of what is in the file, as if nothing were wrapped."""
    state = {
        key: dict(value.items()) if isinstance(value, FiledState) else value
        for key, value in state_dict["state"].items()
    }
    return {**state_dict, "state": state}
