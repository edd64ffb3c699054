"""Finds writes to the device's copies: they would be lost when the place is given to another unit."""

from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from tencache.errors import RefusedError
from tencache.plan.working_units import WorkingUnits
from tencache.runtime.tensors.device_copies import DeviceCopies
from tencache.runtime.tensors.parameter_entry import ParameterEntry, describe_write
from tencache.runtime.unrouted import Bookkeeping


class LeafWrites:
    """Compares the versions of leaves, and of their casts, with those that are known."""

    def __init__(self, entries: Sequence[ParameterEntry], device_copies: DeviceCopies, working: WorkingUnits) -> None:
        self._entries = entries
        self._device_copies = device_copies
        self._working = working
        self._versions = self._versions_now()

    def refuse(self, entries: Sequence[ParameterEntry]) -> None:
        """Refuse an operation that has written to its parameters' device copies."""
        versions = self._versions
        for entry in entries:
            if entry.leaf._version != versions[entry.index]:  # noqa: SLF001
                self.refuse_written()
            if entry.cast is not None:
                self._refuse_written_casts((entry,))

    def refuse_written(self) -> None:
        """Refuse a write to a device copy through a view that a forward made: it would be lost."""
        self._refuse_written_casts(self._entries)
        versions = self._versions_now()
        if versions == self._versions:
            return
        before, self._versions = self._versions, versions
        self._refuse(next(entry for entry in self._entries if versions[entry.index] != before[entry.index]))

    def _versions_now(self) -> dict[int, int]:
        return {entry.index: entry.leaf._version for entry in self._entries}  # noqa: SLF001

    def begin_anew(self) -> None:
        """Take the versions as they are, after entries have gone."""
        self._versions = self._versions_now()

    def _refuse_written_casts(self, entries: Sequence[ParameterEntry]) -> None:
        for entry in entries:
            if entry.cast is not None and entry.cast._version:  # noqa: SLF001
                self._device_copies.bindings.forget_cast(entry)
                self._refuse(entry)

    def _refuse(self, written: ParameterEntry) -> NoReturn:
        # A view of it may be alive, which is refused too: the write is the better reason.
        with Bookkeeping():
            for unit in self._working.forms([written.unit]):
                with suppress(RefusedError):
                    self._device_copies.drop((unit,))
        raise RefusedError(describe_write(written.name))
