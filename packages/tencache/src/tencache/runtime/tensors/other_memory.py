"""Parameters whose data is in memory of the user's: assigned by `.data`, or referred to since before they were wrapped.

Such a parameter stays there, so that whoever else refers to that memory sees every update, and every write of theirs
is seen. What goes to the device is gathered from there first.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from torch import Tensor, nn

from tencache.errors import RefusedError
from tencache.runtime.memory.device_arena import users
from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.memory.outside_memory import is_seen_outside
from tencache.runtime.tensors.parameter_entry import ROUNDING_ALIGN, ParameterEntry


class OtherMemory:
    """Which parameters are elsewhere, and the way from there to the device."""

    def __init__(self, pool: HostPool) -> None:
        self._pool = pool
        self._at: dict[int, int] = {}
        self._entries: dict[int, ParameterEntry] = {}
        self._units: Counter[int] = Counter()
        # Those whose memory is an array's, a file's or another process's: who else refers to it is not counted.
        self._for_good: set[int] = set()
        # Uploads that will read the parameters' own data when their turn comes.
        self._awaited: Counter[int] = Counter()

    def note(self, entry: ParameterEntry) -> None:
        """Take in that a parameter's data is elsewhere."""
        self._units[entry.unit] += entry.index not in self._at
        self._at[entry.index] = entry.parameter.data_ptr()
        self._entries[entry.index] = entry
        if is_seen_outside(entry.parameter):
            self._for_good.add(entry.index)
        else:
            self._for_good.discard(entry.index)

    def forget(self, entry: ParameterEntry) -> None:
        """Take in that a parameter's data is in its unit's memory."""
        if self._at.pop(entry.index, None) is not None:
            self._units[entry.unit] -= 1
            del self._entries[entry.index]
            self._for_good.discard(entry.index)

    def has(self, entry: ParameterEntry) -> bool:
        """Return whether a parameter is elsewhere."""
        return entry.index in self._at

    def count(self, unit: int) -> int:
        """Return how many of a unit's parameters are elsewhere."""
        return self._units[unit]

    def units(self) -> list[int]:
        """Return the units of which a parameter is elsewhere."""
        return [unit for unit, count in self._units.items() if count]

    def was_moved(self, entry: ParameterEntry) -> bool:
        """Return whether a parameter has got yet other memory in a way that nobody saw."""
        return entry.parameter.data_ptr() != self._at[entry.index]

    def returning(self) -> set[int]:
        """Return the indices of the parameters to whose memory nobody but parameters that are there refers."""
        entries = {index: entry for index, entry in self._entries.items() if index not in self._for_good}
        held = held_outside([entry.parameter for entry in entries.values()])
        return {
            index for index, entry in entries.items() if entry.parameter not in held and not self._awaited[entry.unit]
        }

    def gathered(
        self, unit: int, entries: Sequence[ParameterEntry], size_bytes: int
    ) -> tuple[Callable[[], Tensor], Callable[[], None]]:
        """Return a source of a unit's bytes, gathered when it is asked, and what to call once they are copied."""
        self._awaited[unit] += 1
        staged: list[Tensor] = []

        # A buffer for each upload: one that is still being read must not be written to.
        def gather() -> Tensor:
            staged.append(self._pool.take(size_bytes))
            for entry in entries:
                entry.view(staged[0]).copy_(entry.parameter.detach())
            return staged[0]

        def over() -> None:
            self._awaited[unit] -= 1
            self._pool.give(staged.pop())

        return gather, over


def held_outside(parameters: Sequence[nn.Parameter]) -> set[nn.Parameter]:
    """Return the parameters that share memory with something that is no parameter of the model."""
    storages = Counter(_storage(parameter) for parameter in parameters)
    # One more than the parameters: the storage object that counting makes.
    counted = {parameter for parameter in parameters if users(parameter) > storages[_storage(parameter)] + 1}
    return counted | {parameter for parameter in parameters if is_seen_outside(parameter)}


def refuse_shared(entry: ParameterEntry, value: Tensor, others: Iterable[ParameterEntry]) -> None:
    """Refuse data that is another parameter's: in which order both are updated would matter."""
    begin, end = value.data_ptr(), value.data_ptr() + value.nbytes
    for other in others:
        start = other.parameter.data_ptr()
        if other is not entry and begin < start + other.size_bytes and start < end:
            raise RefusedError(describe_shared(entry.name, other.name))


def refuse_unaligned(entry: ParameterEntry, value: Tensor) -> None:
    """Refuse data at an address where torch may round differently than where the device's copy is."""
    # Products with a vector begin with what is not aligned, and so add up in another order.
    if value.data_ptr() % ROUNDING_ALIGN:
        raise RefusedError(
            f"{entry.name} is given data that does not begin at a multiple of {ROUNDING_ALIGN} bytes: torch may round "
            "differently there; use .copy_()"
        )


def describe_shared(name: str, other: str) -> str:
    """Return a sentence that says why a parameter cannot have the memory of another."""
    return (
        f"{name}.data is set to memory of {other}: tie them as one before wrap() (b.weight = a.weight), or use .copy_()"
    )


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001  no public name gives it
