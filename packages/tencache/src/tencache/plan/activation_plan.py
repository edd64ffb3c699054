"""Which of the tensors that autograd saves go to the host after forward, and when each comes back, or is made again.

The tensor that is needed last goes first: byte for byte that is the fewest that can go. What comes back does so as
early as there is room for it until it is used. What is computed again from others is dropped once it was saved, and
those must be there when it is used. Pure: no torch, no clock.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tencache.plan.step_trace import Saved


@dataclass(frozen=True)
class Offload:
    """One saved tensor that goes to the host: its number, and how many operations are over when it may come back."""

    saved: int
    trigger: int


# Shares of what would go to the host that are tried to be computed again instead, the cheapest first.
AGAIN_SHARES = (0.25, 0.5, 0.75, 1.0)
# What computing again costs in forward: it is done once more, and compared, before bytes are dropped.
CHECKS = 2.0


def plan_offloads(saves: Sequence[Saved], budget_bytes: int, again: Collection[int] = ()) -> tuple[Offload, ...]:
    """Return what goes to the host so that the others fit the budget, in the order in which it comes back.

    What is computed `again` does not go.
    """
    saves = needed_for(saves, again)
    gone = _needed_last(saves, budget_bytes, again)
    if not gone:
        return ()
    on_device = _occupied(saves, gone.union(again))
    rows = []
    for number in sorted(gone, key=lambda number: (saves[number].used, -number)):
        save, trigger = saves[number], saves[number].used
        # Not before the operation after it was saved: until then it has not gone.
        while trigger > save.saved + 2 and on_device[trigger - 1] + save.bytes <= budget_bytes:
            trigger -= 1
            on_device[trigger] += save.bytes
        rows.append(Offload(number, trigger))
    return tuple(sorted(rows, key=lambda row: (row.trigger, saves[row.saved].used, -row.saved)))


def needed_for(saves: Sequence[Saved], again: Collection[int]) -> Sequence[Saved]:
    """Return what was saved, each used by when what is computed again from it is used."""
    found = list(saves)
    # What one is computed from was saved before it.
    for number in sorted(again, reverse=True):
        for one in found[number].of:
            found[one] = replace(found[one], used=min(found[one].used, found[number].used))
    return found


def again_choices(saves: Sequence[Saved], budget_bytes: int | None) -> list[frozenset[int]]:
    """Return which tensors could be computed again instead of sent to the host: more and more, the cheapest first."""
    gone = frozenset() if budget_bytes is None else _needed_last(saves, budget_bytes)
    going_bytes = sum(saves[number].bytes for number in gone)
    costs = {number: save.again_s / save.bytes for number, save in enumerate(saves) if save.again_s is not None}
    cheapest = sorted(
        (number for number in costs if saves[number].used > saves[number].saved + 1), key=costs.__getitem__
    )
    found = {_until(cheapest, saves, share * going_bytes) for share in AGAIN_SHARES} if gone else set()
    return sorted((choice for choice in found if choice), key=len)


def _until(numbers: Sequence[int], saves: Sequence[Saved], enough_bytes: float) -> frozenset[int]:
    taken: set[int] = set()
    for number in numbers:
        if sum(saves[one].bytes for one in taken) >= enough_bytes:
            break
        taken.add(number)
    return frozenset(taken)


def peak_saved_bytes(saves: Sequence[Saved]) -> int:
    """Return the most bytes that are saved at one time."""
    return max(_occupied(saves, frozenset()), default=0)


def floor_offloaded_bytes(saves: Sequence[Saved], budget_bytes: int | None) -> int:
    """Return the fewest bytes that any plan must send to the host, and back, within a budget.

    What an operation uses, and what it saves, is on the device with it, even where that alone is more than the budget.
    What can be computed again need not go.
    """
    if budget_bytes is None:
        return 0
    may_go = sum(saves[number].bytes for number in _needed_last(saves, budget_bytes))
    need_not = sum(save.bytes for save in saves if save.again_s is not None)
    return max(min(peak_saved_bytes(saves) - budget_bytes, may_go) - need_not, 0)


def _needed_last(saves: Sequence[Saved], budget_bytes: int, again: Collection[int] = ()) -> frozenset[int]:
    """Return those that go if, whenever more is saved than fits, what is needed last goes."""
    gone: set[int] = set()
    here: set[int] = set()
    here_bytes = 0
    for number, save in enumerate(saves):
        if number in again:
            continue
        over = {old for old in here if saves[old].used <= save.saved}
        here_bytes += save.bytes - sum(saves[old].bytes for old in over)
        here = (here - over) | {number}
        # What is used by the next operation cannot go in time.
        while here_bytes > budget_bytes and (may_go := [one for one in here if saves[one].used > save.saved + 1]):
            last = max(may_go, key=lambda one: (saves[one].used, -one))
            gone.add(last)
            here.remove(last)
            here_bytes -= saves[last].bytes
    return frozenset(gone)


def _occupied(saves: Sequence[Saved], gone: frozenset[int]) -> list[int]:
    """Return the bytes on the device at each operation, if these go right after they were saved."""
    steps = [0] * (max((save.used for save in saves), default=0) + 2)
    for number, save in enumerate(saves):
        apart = [(save.saved, save.saved + 1), (save.used, save.used + 1)]
        for begin, end in apart if number in gone else [(save.saved, save.used + 1)]:
            steps[begin] += save.bytes
            steps[end] -= save.bytes
    total, found = 0, []
    for change in steps:
        total += change
        found.append(total)
    return found


class ActivationTraffic:
    """What offloaded tensors do to the two ways on the virtual clock: each goes once it is saved, and comes back."""

    def __init__(self, saves: Sequence[Saved], budget_bytes: int | None, again: Collection[int] = ()) -> None:
        self.rows = () if budget_bytes is None else plan_offloads(saves, budget_bytes, again)
        self._saves = saves = needed_for(saves, again)
        # Seconds that computing again adds to operations.
        self._again_s: dict[int, float] = {}
        for number in again:
            self._add_again(saves[number])
        self._budget_bytes = budget_bytes
        gone = {row.saved for row in self.rows}
        self._leaving: dict[int, list[int]] = {}
        for number in sorted(gone):
            self._leaving.setdefault(saves[number].saved, []).append(number)
        self._left_at: dict[int, float] = {}
        self._back_at: dict[int, float] = {}
        self._next = 0

    def _add_again(self, save: Saved) -> None:
        assert save.again_s is not None
        for op, seconds in ((save.saved, CHECKS * save.again_s), (save.used, save.again_s)):
            self._again_s[op] = self._again_s.get(op, 0.0) + seconds

    def again_s(self, op: int) -> float:
        """Return the seconds that computing again adds to an operation."""
        return self._again_s.get(op, 0.0)

    @property
    def bytes(self) -> int:
        """Return the bytes that go down, and come up again, in one step."""
        return sum(self._saves[row.saved].bytes for row in self.rows)

    def begin(self) -> None:
        """Begin a cycle."""
        self._next = 0
        self._left_at.clear()
        self._back_at.clear()

    def leaving(self, op: int) -> list[tuple[int, int]]:
        """Return the number and the bytes of each tensor that goes down after an operation."""
        return [(number, self._saves[number].bytes) for number in self._leaving.get(op, ())]

    def left(self, number: int, at: float) -> None:
        """Take in when a tensor has arrived on the host."""
        self._left_at[number] = at

    def due(self, done: int) -> list[tuple[int, int, float]]:
        """Return the number, the bytes and the earliest time of each that may come back after so many operations."""
        begin = self._next
        while self._next < len(self.rows) and self.rows[self._next].trigger <= done:
            self._next += 1
        rows = self.rows[begin : self._next]
        return [(row.saved, self._saves[row.saved].bytes, self._left_at.get(row.saved, 0.0)) for row in rows]

    def came_back(self, number: int, at: float) -> None:
        """Take in when a tensor is on the device again."""
        self._back_at[number] = at

    def ready_at(self, op: int) -> float:
        """Return when everything is back that an operation uses."""
        return max((at for number, at in self._back_at.items() if self._saves[number].used == op), default=0.0)
