"""What torch keeps of a parameter while it changes: casts, for autocast and for backward, and data from before."""

from collections.abc import Iterable

import torch
from torch import Tensor

from tencache.runtime.tensors.device_copies import DeviceCopies
from tencache.runtime.tensors.masters import Masters
from tencache.runtime.tensors.parameter_entry import ParameterEntry


class KeptBytes:
    """Copies bytes that are about to be lost, from the host's memory, where they still are."""

    def __init__(self, device_copies: DeviceCopies, masters: Masters) -> None:
        self._device_copies = device_copies
        self._masters = masters

    def before_change(self, entries: Iterable[ParameterEntry]) -> None:
        """Keep the casts of parameters that are about to change."""
        for entry in entries:
            # Nearly always so, and asked of every parameter in every step.
            if entry.cast is None and not len(entry.handles):
                continue
            cast = self._device_copies.bindings.forget_cast(entry)
            if cast is not None and autocast_is_open():
                with torch.no_grad():
                    cast.data = self._data(entry).to(cast.dtype).to(cast.device)
            for handle in [handle for handle in entry.handles if handle.copied]:
                handle.keep(self._data(entry).to(entry.leaf.device))

    def before_assignment(self, entry: ParameterEntry) -> None:
        """Keep all that was saved of a parameter that is about to get other data."""
        self.before_change([entry])
        for handle in list(entry.handles):
            handle.keep_at_assignment(self._data(entry).to(entry.leaf.device))

    def _data(self, entry: ParameterEntry) -> Tensor:
        self._masters.open(entry.unit)
        return entry.parameter.detach()


def autocast_is_open() -> bool:
    """Return whether this thread is in an autocast, even a disabled one inside another: only then it keeps casts."""
    nesting = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return nesting > 1
