"""The optimizer's state as user code sees it: whoever looks waits until no update is pending."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from torch import Tensor

from tencache.runtime.tensors.looks import Looks
from tencache.runtime.tensors.pending_updates import PendingUpdates


class WatchedState(defaultdict[Tensor, Any]):
    """Stands in for `optimizer.state` while wrapped. `peek` and `put` are for the step itself, and do not wait."""

    def __init__(self, pending: PendingUpdates, looks: Looks, values: Mapping[Tensor, Any]) -> None:
        super().__init__(dict)
        self._pending = pending
        self._looks = looks
        self._known = 0
        self._in_order: Sequence[Tensor] = ()
        for key, value in values.items():
            self.put(key, value)

    def peek(self, key: Tensor) -> Any:
        """Return a parameter's state as it lies, or None."""
        return dict.get(self, key)

    def put(self, key: Tensor, value: Any) -> None:
        """Set a parameter's state."""
        super().__setitem__(key, value)

    def begin_step(self, parameters: Sequence[Tensor]) -> None:
        """Note what is known when a step of these parameters begins; what it adds comes in their order, as in torch."""
        self._put_in_order()
        self._known, self._in_order = len(self), parameters

    def _put_in_order(self) -> None:
        """Put states that the last step has added, by now all of them, in the order of the parameters."""
        if len(self) > self._known:
            new = set(map(id, list(dict.__iter__(self))[self._known :]))
            for key in [parameter for parameter in self._in_order if id(parameter) in new]:
                self.put(key, dict.pop(self, key))
        # What user code adds stays where it is.
        self._in_order = ()

    def plain(self) -> defaultdict[Tensor, Any]:
        """Return the same state in the container that torch made for it."""
        return defaultdict(dict, self.items())

    def _look(self) -> None:
        self._looks.at_all()
        self._pending.wait_all()
        if self._in_order:
            self._put_in_order()

    def __reduce__(self) -> Any:
        return (defaultdict, (dict, dict(self.items())))

    def __copy__(self) -> Any:
        return self.plain()

    def __deepcopy__(self, memo: Any) -> Any:
        return deepcopy(self.plain(), memo)

    def __getitem__(self, key: Tensor) -> Any:
        self._look()
        return super().__getitem__(key)

    def __setitem__(self, key: Tensor, value: Any) -> None:
        self._look()
        super().__setitem__(key, value)

    def __delitem__(self, key: Tensor) -> None:
        self._look()
        super().__delitem__(key)

    def __iter__(self) -> Iterator[Tensor]:
        self._look()
        return super().__iter__()

    def get(self, key: Tensor, default: Any = None) -> Any:
        """Return a parameter's state, or the default."""
        self._look()
        return super().get(key, default)

    def items(self) -> Any:
        """Return parameters and their states."""
        self._look()
        return super().items()

    def values(self) -> Any:
        """Return the states."""
        self._look()
        return super().values()

    def pop(self, *arguments: Any) -> Any:
        """Remove a parameter's state, and return it."""
        self._look()
        return super().pop(*arguments)

    def popitem(self) -> Any:
        """Remove and return one."""
        self._look()
        return super().popitem()

    def setdefault(self, *arguments: Any) -> Any:
        """Return a parameter's state, set first if there is none."""
        self._look()
        return super().setdefault(*arguments)

    def update(self, *arguments: Any, **named: Any) -> None:
        """Set several."""
        self._look()
        super().update(*arguments, **named)

    def clear(self) -> None:
        """Remove all."""
        self._look()
        super().clear()

    def copy(self) -> Any:
        """Return a plain container with the same states."""
        return self.plain()
