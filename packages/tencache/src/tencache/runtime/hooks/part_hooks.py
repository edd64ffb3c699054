"""Hooks on the parts of a model, which begin and end a forward when a part is called by itself."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

_Hooks = OrderedDict[int, Callable[..., Any]]


class PartHooks:
    """A pair of hooks on each part of a model.

    While a forward runs they would do nothing, but torch calls a module that has hooks by a longer way. So they are
    taken off then, from the modules that have no others.
    """

    def __init__(self) -> None:
        self._handles: list[tuple[nn.Module, RemovableHandle, RemovableHandle]] = []
        self._off: list[tuple[_Hooks, int, Callable[..., Any]]] = []

    def add(self, module: nn.Module, before: Callable[..., None], after: Callable[..., None]) -> None:
        """Put a pair on a module: before the hooks of others, which may compute with parameters."""
        # At the end of a failed forward, too.
        pre = module.register_forward_pre_hook(before, prepend=True)
        self._handles.append((module, pre, module.register_forward_hook(after, always_call=True)))

    def take_off(self, running: nn.Module | None) -> None:
        """Take the pairs off while a module's forward runs; its own stays, to end the forward."""
        # By their containers, not by the module: a shallow copy of a module has the same ones.
        own: Any = None if running is None else running._forward_hooks  # noqa: SLF001
        for module, pre, post in self._handles:
            befores: Any = module._forward_pre_hooks  # noqa: SLF001
            afters: Any = module._forward_hooks  # noqa: SLF001
            # Alone, so that its place among others need not be remembered.
            if afters is not own and len(befores) == len(afters) == 1 and pre.id in befores and post.id in afters:
                self._off.append((befores, pre.id, befores.pop(pre.id)))
                self._off.append((afters, post.id, afters.pop(post.id)))

    def put_on(self) -> None:
        """Put back what was taken off."""
        for hooks, number, hook in self._off:
            hooks[number] = hook
        self._off.clear()

    def remove(self) -> None:
        """Remove all for good."""
        self.put_on()
        for _, pre, post in self._handles:
            pre.remove()
            post.remove()
        self._handles.clear()
