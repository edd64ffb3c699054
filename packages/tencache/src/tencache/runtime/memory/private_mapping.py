"""Memory of this process alone, in huge pages where the system has them.

What Python maps by default is shared with forked processes, and in small pages: a device's driver then keeps, and
walks, 512 times as many.
"""

import ctypes
import mmap
from contextlib import suppress

HUGE_BYTES = 2 * 2**20


def map_private(size_bytes: int, *, forked: bool = True) -> memoryview:
    """Return fresh memory that begins at a page; if not `forked`, processes that are forked later do not have it."""
    size_bytes = -(-max(size_bytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    # Huge pages begin at multiples of their size. What is left over before the first is never touched.
    spare = HUGE_BYTES if size_bytes >= HUGE_BYTES else 0
    mapping = mmap.mmap(-1, size_bytes + spare, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(mapping)) % HUGE_BYTES if spare else 0
    if spare:
        # A system without huge pages says no, and small ones do.
        with suppress(OSError):
            mapping.madvise(mmap.MADV_HUGEPAGE)
    if not forked:
        # After a fork, a write by either process gives one of them another page than the one the device copies to.
        mapping.madvise(mmap.MADV_DONTFORK)
    return memoryview(mapping)[start : start + size_bytes]
