"""Who occupies which addresses of the arena: segments that cover it without gap or overlap."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

ALIGN_BYTES = 512


def aligned(size_bytes: int) -> int:
    """Return the size rounded up to the alignment of every slot."""
    return -(-size_bytes // ALIGN_BYTES) * ALIGN_BYTES


@dataclass(frozen=True)
class Segment:
    """A range of addresses: a unit, or nothing since event `free_since`."""

    offset: int
    bytes: int
    unit: int | None = None
    free_since: int = 0

    @property
    def end(self) -> int:
        """Return one past the last address."""
        return self.offset + self.bytes


@dataclass(frozen=True)
class AddressWindow:
    """A place for a unit: where, and which segments it would overlap."""

    offset: int
    bytes: int
    segments: tuple[Segment, ...]

    @property
    def evicts(self) -> tuple[int, ...]:
        """Return the units that would have to go."""
        return tuple(segment.unit for segment in self.segments if segment.unit is not None)

    def ready_since(self, free_since: Callable[[int], int]) -> int:
        """Return after which operation the place is free, given the same for each unit in it."""
        return max(
            segment.free_since if segment.unit is None else free_since(segment.unit) for segment in self.segments
        )


class AddressMap:
    """The arena's address map."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._segments = [Segment(0, size_bytes)]
        self._where: dict[int, Segment] = {}

    def __contains__(self, unit: int) -> bool:
        return unit in self._where

    def offsets(self) -> dict[int, int]:
        """Return where each unit begins."""
        return {unit: segment.offset for unit, segment in self._where.items()}

    def windows(self, size_bytes: int, blocked: Callable[[int], bool]) -> Iterator[AddressWindow]:
        """Yield the places that could hold so many bytes without moving a blocked unit."""
        size_bytes = aligned(size_bytes)
        for offset in self._starts(size_bytes):
            segments = self._overlapped(offset, size_bytes)
            if not any(segment.unit is not None and blocked(segment.unit) for segment in segments):
                yield AddressWindow(offset, size_bytes, segments)

    def place(self, unit: int, window: AddressWindow, free_since: Callable[[int], int]) -> None:
        """Put a unit there; whatever it overlaps is removed, and what remains of those ranges becomes free."""
        first, last = window.segments[0], window.segments[-1]
        index = bisect_right(self._segments, first.offset, key=lambda segment: segment.offset) - 1
        new = Segment(window.offset, window.bytes, unit)
        pieces = [*self._left(first, window, free_since), new, *self._right(last, window, free_since)]
        self._segments[index : index + len(window.segments)] = pieces
        self._join(index)
        for gone in window.evicts:
            del self._where[gone]
        self._where[unit] = new

    def window_at(self, offset: int, size_bytes: int) -> AddressWindow:
        """Return the window that begins at this address."""
        size_bytes = aligned(size_bytes)
        return AddressWindow(offset, size_bytes, self._overlapped(offset, size_bytes))

    def remove(self, unit: int, free_since: int) -> None:
        """Free a unit's addresses."""
        segment = self._where.pop(unit)
        index = self._segments.index(segment)
        self._segments[index] = Segment(segment.offset, segment.bytes, None, free_since)
        self._join(index)

    def _join(self, index: int) -> None:
        """Join neighbouring gaps into one, so that the map does not break into ever smaller pieces."""
        for right in range(min(index + 3, len(self._segments) - 1), max(index - 1, 0), -1):
            one, two = self._segments[right - 1], self._segments[right]
            if one.unit is None and two.unit is None:
                since = max(one.free_since, two.free_since)
                self._segments[right - 1 : right + 1] = [Segment(one.offset, one.bytes + two.bytes, None, since)]

    def _starts(self, size_bytes: int) -> Iterable[int]:
        found = set()
        for segment in self._segments:
            found.add(segment.offset)
            found.add((segment.end - size_bytes) // ALIGN_BYTES * ALIGN_BYTES)
        return sorted(start for start in found if start >= 0 and start + size_bytes <= self.size_bytes)

    def _overlapped(self, offset: int, size_bytes: int) -> tuple[Segment, ...]:
        index = bisect_right(self._segments, offset, key=lambda segment: segment.offset) - 1
        end = index
        while end < len(self._segments) and self._segments[end].offset < offset + size_bytes:
            end += 1
        return tuple(self._segments[index:end])

    @staticmethod
    def _left(first: Segment, window: AddressWindow, free_since: Callable[[int], int]) -> list[Segment]:
        if first.offset == window.offset:
            return []
        since = first.free_since if first.unit is None else free_since(first.unit)
        return [Segment(first.offset, window.offset - first.offset, None, since)]

    @staticmethod
    def _right(last: Segment, window: AddressWindow, free_since: Callable[[int], int]) -> list[Segment]:
        end = window.offset + window.bytes
        if last.end == end:
            return []
        since = last.free_since if last.unit is None else free_since(last.unit)
        return [Segment(end, last.end - end, None, since)]
