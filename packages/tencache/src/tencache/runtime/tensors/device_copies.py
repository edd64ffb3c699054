"""What lies in the arena now: loads by a plan's rows or on demand, waits, and never overwrites what is in use."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from threading import Event

from torch import Tensor

from tencache.errors import CorruptedError, RefusedError
from tencache.plan.address_map import AddressMap, AddressWindow, aligned
from tencache.plan.placing import NoRoomError, place_all
from tencache.plan.step_plan import Load, describe_too_large
from tencache.plan.step_trace import Unit
from tencache.runtime.counters import Counters
from tencache.runtime.memory.checksum import checksum
from tencache.runtime.memory.copy_lanes import Copy
from tencache.runtime.memory.device_arena import POISON, Arena, user_counter
from tencache.runtime.memory.link import Link
from tencache.runtime.tensors.leaf_bindings import LeafBindings
from tencache.runtime.tensors.masters import Masters
from tencache.runtime.tensors.parameter_entry import cut_pieces
from tencache.runtime.tensors.slot import Slot

KNOWN_PLACES = 4096


class InUseError(Exception):
    """A plan's row would overwrite bytes that something still refers to."""


class DeviceCopies:
    """The arena's contents."""

    def __init__(
        self,
        units: Sequence[Unit],
        arena: Arena,
        link: Link,
        masters: Masters,
        counters: Counters,
        *,
        verify: bool,
    ) -> None:
        self.units = units
        self.arena = arena
        self.slots: dict[int, Slot] = {}
        # Next values that are here, or on their way, before step() has asked for them: nothing computes with these.
        self._ahead: dict[int, Slot] = {}
        self._starts: list[int] = []
        self._by_start: list[Slot] = []
        self._places: dict[tuple[int, int], Slot] = {}
        self._used_bytes = 0
        self._link = link
        self._masters = masters
        self._counters = counters
        self._verify = verify
        self._ticks = 0
        # Units that were touched while on their way. Whether the device waits for them is known when it comes to it.
        self._on_their_way: set[int] = set()
        self.bindings = LeafBindings(self)
        if verify:
            arena.poison()

    def load(self, row: Load) -> None:
        """Carry out a row: evict what lies at its addresses, unless it is in use, and start the copy."""
        self._make_room(row)
        self._submit(row.unit, row.offset)

    def load_ahead(self, row: Load, second: Tensor, pieces: Sequence[Event] = ()) -> None:
        """Carry out a row with a unit's next value, of which pieces may still be computed.

        Until `confirm` the unit counts as absent.
        """
        self._make_room(row)
        slot = self._place(row.unit, row.offset)
        # Checksums are of whole units.
        views = self._masters.piece_views(row.unit, slot.target, second) if pieces and not self._verify else None
        if views is None:
            source, release = self._masters.lease(row.unit, second)
            copies = [Copy(slot.target, _after(pieces, source), self.units[row.unit].bytes, release)]
        else:
            copies = [_piece_copy(*views, cut, done) for cut, done in zip(_cuts(views[1]), pieces, strict=True)]
        for copy in copies[:-1]:
            copy.fence = self._link.fence()
            self._link.up.put(copy)
        self._put_up(slot, copies[-1], self._ahead)
        slot.in_pieces = len(copies) > 1

    def confirm(self, units: Iterable[int]) -> None:
        """Let next values be the values: step() has asked for them."""
        for unit in units:
            if (slot := self._ahead.pop(unit, None)) is not None:
                self.slots[unit] = slot

    def drop_ahead(self) -> None:
        """Drop the next values that nobody asked for."""
        for slot in list(self._ahead.values()):
            self._remove(slot)

    def _make_room(self, row: Load) -> None:
        gone = self._overlapped(row.offset, row.offset + aligned(row.bytes))
        for old in (self.slots.get(row.unit), self._ahead.get(row.unit)):
            if old is not None and old not in gone:
                gone.append(old)
        # All are asked before any is removed: a row that cannot be carried out must leave everything in place.
        for slot in gone:
            if slot.in_use():
                raise InUseError
        for slot in gone:
            self._remove(slot)

    def has(self, unit: int, offset: int) -> bool:
        """Return whether a unit lies at an offset."""
        slot = self.slots.get(unit)
        return slot is not None and slot.offset == offset

    def can_hold(self, units: Iterable[int]) -> bool:
        """Return whether the arena is large enough for these units at once."""
        return sum(aligned(self.units[unit].bytes) for unit in units) <= self.arena.size_bytes

    def require(self, units: Sequence[int], held: Sequence[int], beside: Sequence[int] = ()) -> bool:
        """Bring these units to the device and wait for them; return whether a load had to be made on demand.

        Where that is so, they are placed as if those `beside` were needed too, which may be asked for next.
        """
        slots = self.slots
        missing = False
        for unit in (*units, *beside):
            missing = missing or unit not in slots
        if missing:
            self._load_on_demand(units, held, beside)
        for unit in units:
            self._await(slots[unit])
        return missing

    def touch_ready(self, units: Sequence[int]) -> bool:
        """Count touches of units that have all arrived; return False, and do nothing, if one has not."""
        if self._verify:
            return False
        slots, arrived = self.slots, self._link.arrived
        for unit in units:
            slot = slots.get(unit)
            if slot is None or not arrived(slot.copy):
                return False
        self._link.note_stream()
        touches = len(units)
        counters = self._counters
        counters.touches += touches
        counters.hits += touches
        counters.ready += touches
        self._ticks += 1
        for unit in units:
            slots[unit].touched = self._ticks
        return True

    def count(self, units: Sequence[int]) -> None:
        """Count touches: a hit was on the device or on its way before it was asked for, and ready if it had arrived."""
        counters = self._counters
        counters.touches += len(units)
        for unit in units:
            slot = self.slots.get(unit)
            if slot is None:
                continue
            counters.hits += 1
            if self._link.arrived(slot.copy):
                counters.ready += 1
            else:
                self._on_their_way.add(unit)

    def drop(self, units: Iterable[int]) -> None:
        """Drop device copies that have become stale; refuse if a view of one is still alive."""
        for unit in units:
            slot = self.slots.get(unit)
            if slot is None:
                continue
            # Removed first, even if that is refused: its bytes are out of date, and must not be computed with again.
            self._remove(slot)
            if slot.in_use():
                raise RefusedError(
                    f"views of {self.units[unit].name} are still alive where the parameter has changed, or may have: "
                    "keep no view of a parameter beyond the forward that made it, nor in hooks on saved tensors (use "
                    ".clone())"
                )

    def begin_anew(self, arena: Arena, beside_bytes: int) -> None:
        """Begin with another arena, beside so many bytes of the budget that are not in it."""
        self.clear()
        self.arena = arena
        self._used_bytes = beside_bytes
        self._on_their_way.clear()
        if self._verify:
            arena.poison()

    def any_in_use(self) -> bool:
        """Return whether anything refers to a device copy."""
        return any(slot.in_use() for slot in self._by_start)

    def clear(self) -> None:
        """Forget everything."""
        self.slots.clear()
        self._ahead.clear()
        self._starts.clear()
        self._by_start.clear()
        self._places.clear()
        self.bindings.clear()
        self._used_bytes = 0

    def held(self, suspects: Iterable[int]) -> list[int]:
        """Return those of these units that something refers to."""
        return [unit for unit in suspects if unit in self.slots and self.slots[unit].in_use()]

    def at(self, offset: int) -> Slot:
        """Return the slot that covers an offset."""
        index = bisect_right(self._starts, offset) - 1
        if index >= 0 and offset < self._by_start[index].end:
            return self._by_start[index]
        raise RefusedError(
            "a view of a parameter outlived its place on the device: keep views of parameters inside one forward"
        )

    def check_read(self, tensor: Tensor) -> None:
        """Raise if a tensor lies in the arena, but is no view of what is there now."""
        offset = tensor.data_ptr() - self.arena.base
        if not 0 <= offset < self.arena.size_bytes or not tensor.numel():
            return
        index = bisect_right(self._starts, offset) - 1
        slot = self._by_start[index] if index >= 0 and offset < self._by_start[index].end else None
        if slot is None or tensor.untyped_storage()._cdata != slot.data.untyped_storage()._cdata:  # noqa: SLF001
            there = "free" if slot is None else f"that of {self.units[slot.unit].name}"
            raise CorruptedError(
                f"an operation reads a device copy of shape {tuple(tensor.shape)} whose place is {there} by now; a "
                "tensor has escaped from tencache: please report this program"
            )
        self._link.await_on_device(slot.copy)
        self._check(slot)

    def settle(self) -> None:
        """Wait until no copy reads the host's memory any more."""
        # The optimizer writes to that memory next. Copies into slots that are gone were queued earlier in the same
        # lane; should one still be running, the bytes that it spoils lie in a place that nobody reads.
        # What goes ahead is read from second copies, which nobody writes to.
        for slot in self.slots.values():
            self._link.await_on_host(slot.copy)

    def _await(self, slot: Slot) -> None:
        self._ticks += 1
        slot.touched = self._ticks
        if self._link.arrived(slot.copy):
            self._link.note_stream()
            # It came in the moment between the touch and here: nothing waits.
            self._counters.ready += slot.unit in self._on_their_way
        else:
            self._link.note_stall(slot.copy, self._stalled if slot.unit in self._on_their_way else self._stalled_anyway)
            self._link.await_on_device(slot.copy)
        self._on_their_way.discard(slot.unit)
        if self._verify:
            self._check(slot)

    def _stalled(self, seconds: float) -> None:
        self._counters.load_stall_s += seconds
        self._counters.ready += seconds == 0

    def _stalled_anyway(self, seconds: float) -> None:
        """Count the wait for a load on demand, which is never ready."""
        self._counters.load_stall_s += seconds

    def _check(self, slot: Slot) -> None:
        if checksum(slot.data) != slot.checksum:
            raise CorruptedError(
                f"{self.units[slot.unit].name}: its bytes on the device are not those that were sent; something wrote "
                "to the arena, or to the parameter's .data while it was on its way"
            )

    def _submit(self, unit: int, offset: int) -> None:
        slot = self._place(unit, offset)
        source, release = self._masters.lease(unit)
        self._put_up(slot, Copy(slot.target, source, self.units[unit].bytes, release), self.slots)

    def _put_up(self, slot: Slot, copy: Copy, where: dict[int, Slot]) -> None:
        slot.copy = copy
        if self._verify:
            copy.source = _Summed(slot, copy.source)
        # What goes ahead may still be computed.
        copy.at_once = where is self.slots and self._masters.is_ready(slot.unit)
        # Everything that computes with what lay there has been issued by now: the copy goes after it.
        copy.fence = self._link.fence()
        self._add(slot, where)
        self._link.up.put(copy)

    def _place(self, unit: int, offset: int) -> Slot:
        """Return the slot of a unit at an offset: a plan comes back to the same ones in every step."""
        slot = self._places.get((unit, offset))
        if slot is None:
            # Loads on demand can put a unit anywhere: without a limit, slots that nobody uses would pile up.
            if len(self._places) >= KNOWN_PLACES:
                self._places.clear()
            data = self.arena.carve(offset, self.units[unit].bytes)
            count, target = user_counter(data), self._masters.copy_target(unit, data)
            # Counted while nothing is bound to it: whatever is above this number later is somebody's view.
            slot = Slot(unit, offset, offset + data.numel(), data, count, count(), target)
            self._places[unit, offset] = slot
        return slot

    def _add(self, slot: Slot, where: dict[int, Slot]) -> None:
        index = bisect_left(self._starts, slot.offset)
        self._starts.insert(index, slot.offset)
        self._by_start.insert(index, slot)
        where[slot.unit] = slot
        self._used_bytes += slot.end - slot.offset
        self._counters.device_peak_bytes = max(self._counters.device_peak_bytes, self._used_bytes)

    def _remove(self, slot: Slot) -> None:
        index = bisect_left(self._starts, slot.offset)
        del self._starts[index], self._by_start[index]
        del (self._ahead if self._ahead.get(slot.unit) is slot else self.slots)[slot.unit]
        self._used_bytes -= slot.end - slot.offset
        if self._verify:
            # A copy that is still on its way into it would undo this. One that failed has been reported.
            slot.copy.wait_over()
            if slot.copy.error is None:
                self._link.await_on_device(slot.copy)
            slot.data.fill_(POISON)

    def _overlapped(self, start: int, end: int) -> list[Slot]:
        first = max(bisect_right(self._starts, start) - 1, 0)
        last = bisect_left(self._starts, end)
        return [slot for slot in self._by_start[first:last] if slot.end > start]

    def _load_on_demand(self, units: Sequence[int], held: Sequence[int], beside: Sequence[int]) -> None:
        # Asked of every slot, not only of the suspects: what user code keeps was perhaps never seen as held.
        stuck = {*held, *(unit for unit, slot in self.slots.items() if slot.in_use())}
        try:
            placed = self._places_for((*units, *beside), stuck)
        except NoRoomError:
            try:
                placed = self._places_for(units, stuck)
            except NoRoomError:
                raise RefusedError(self._describe_no_room(units, stuck - set(units))) from None
        for unit, window in placed:
            if unit in units:
                self._counters.demand_loads += 1
                self.load(Load(unit, window.offset, window.bytes, 0, 0))

    def _places_for(self, units: Sequence[int], stuck: set[int]) -> list[tuple[int, AddressWindow]]:
        addresses = AddressMap(self.arena.size_bytes // aligned(1) * aligned(1))
        for slot in self.slots.values():
            addresses.place(slot.unit, addresses.window_at(slot.offset, slot.data.numel()), lambda _: 0)
        needed = tuple(dict.fromkeys((*units, *stuck)))
        sizes = {unit: self.units[unit].bytes for unit in {*needed, *self.slots}}
        return place_all(addresses, sizes, needed, stuck, self._recency, lambda _: 0)

    def _recency(self, window: AddressWindow) -> tuple[int, int]:
        touched = max((self.slots[unit].touched for unit in window.evicts if unit in self.slots), default=0)
        return touched, window.offset

    def _describe_no_room(self, units: Sequence[int], others: set[int]) -> str:
        wanted = sum(self.units[unit].bytes for unit in units)
        if others and wanted <= self.arena.size_bytes:
            return self._describe_escape(sorted(others))
        return describe_too_large([self.units[unit].name for unit in units], wanted, self.arena.size_bytes)

    def _describe_escape(self, units: Iterable[int]) -> str:
        names = ", ".join(self.units[unit].name for unit in units)
        return (
            f"views of {names} are still alive where their place on the device is needed: keep no view of a parameter "
            "beyond the forward that made it (use .clone()), or raise the budget"
        )


def _cuts(data: Tensor) -> list[tuple[int, int]]:
    return cut_pieces(data.numel(), data.element_size())


def _piece_copy(target: Tensor, data: Tensor, cut: tuple[int, int], computed: Event) -> Copy:
    """Return the copy of a piece, which waits until it is computed."""
    part, source = target[cut[0] : cut[1]], data[cut[0] : cut[1]]
    return Copy(part, _after((computed,), lambda: source), part.nbytes)


def _after(computed: Iterable[Event], source: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Return a source that waits until its bytes are computed."""

    def waiting() -> Tensor:
        for event in computed:
            event.wait()
        return source()

    return waiting


class _Summed:
    """A source that notes the checksum of what it sends."""

    def __init__(self, slot: Slot, source: Callable[[], Tensor]) -> None:
        self._slot = slot
        self._source = source

    def __call__(self) -> Tensor:
        # On the lane's thread, and before the copy: whoever waits for the copy also finds its checksum.
        data = self._source()
        self._slot.checksum = checksum(data[: self._slot.data.numel()])
        return data
