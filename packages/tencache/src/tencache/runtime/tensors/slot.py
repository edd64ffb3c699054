"""A place in the arena that holds a unit."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from tencache.runtime.memory.copy_lanes import ARRIVED, Copy


@dataclass(eq=False, slots=True)
class Slot:
    """A unit's bytes on the device."""

    unit: int
    offset: int
    end: int
    data: Tensor
    count_users: Callable[[], int]
    idle_users: int
    # What copies write to: these bytes, or for a working copy a view of them in its type, which casts on the way.
    target: Tensor
    # The copy that fills these bytes last. A slot is used again in every step; its copy is not.
    copy: Copy = ARRIVED
    # Whether these bytes came in several copies, of which that one is the last.
    in_pieces: bool = False
    touched: int = 0
    checksum: int | None = None
    bound: set[int] = field(default_factory=set)

    def in_use(self) -> bool:
        """Return whether anything but the parameters' own leaves refers to these bytes."""
        # Each piece on its way has a view of its own, and would be taken for a user.
        if self.in_pieces:
            self.copy.wait_over()
            self.in_pieces = False
        # A leaf bound to the slot shares its storage but computes nothing by itself: binding it elsewhere harms nobody.
        return self.count_users() > self.idle_users + len(self.bound)
