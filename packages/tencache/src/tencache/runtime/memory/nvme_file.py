"""The NVMe tier: one nameless file, read and written past the page cache by two threads.

The file has no name from the start, so a killed process leaves nothing behind, and its extents are allocated before
they are used, so a full disk is an error when training is set up, not in the middle of a step.
"""

import errno
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from tencache.errors import CorruptedError, Notice, RefusedError
from tencache.quantity import show_bytes
from tencache.runtime.memory.checksum import checksum
from tencache.runtime.memory.copy_lanes import Copy, Lane

_Work = Callable[[], Tensor]
_Call = Callable[[int, list[Any], int], int]
BLOCK_BYTES = 4096
_MEMORY_FILESYSTEMS = ("tmpfs", "ramfs")


def blocks(size_bytes: int) -> int:
    """Return the size rounded up to whole blocks."""
    return -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES


@dataclass(frozen=True)
class Extent:
    """A place in the file."""

    offset: int
    bytes: int


class FileTier:
    """Reads and writes extents, in order, one thread for each way."""

    def __init__(self, directory: str | Path, *, verify: bool = False) -> None:
        self.directory = Path(directory)
        self.size_bytes = 0
        self.direct = True
        self._sums: dict[Extent, int] | None = {} if verify else None
        self._fd = self._open()
        self._process = os.getpid()
        self.reads = Lane("file-read", _work)
        self.writes = Lane("file-write", _work)

    def reserve(self, size_bytes: int) -> None:
        """Take disk space for extents that are still to come, or refuse if the disk is full."""
        self._extend(Extent(self.size_bytes, blocks(size_bytes)))

    def allocate(self, size_bytes: int) -> Extent:
        """Return new blocks at the file's end, or refuse if the disk is full."""
        extent = Extent(self.size_bytes, blocks(size_bytes))
        self._extend(extent)
        self.size_bytes += extent.bytes
        return extent

    def place(self, unit: int, size_bytes: int) -> Extent:
        """Return blocks for a unit."""
        del unit
        return self.allocate(size_bytes)

    def _extend(self, extent: Extent) -> None:
        try:
            os.posix_fallocate(self._fd, extent.offset, extent.bytes)
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}:
                raise
            raise RefusedError(
                f"{self.directory}: no room for {show_bytes(extent.bytes)} more after {show_bytes(self.size_bytes)} "
                f"({error.strerror}): free some, give another nvme=, or raise host="
            ) from error

    def read(self, extent: Extent, buffer: Tensor, after: Copy | None = None) -> Copy:
        """Fill a page-aligned buffer, once the write it follows is done."""

        def work() -> Tensor:
            # Reads and writes are two threads' work, in no given order. Writes never wait for reads: no deadlock.
            if after is not None:
                after.wait()
            self._transfer(os.preadv, extent, buffer)
            self._check(extent, buffer)
            return buffer

        return self._queue(self.reads, buffer, work)

    def write(self, extent: Extent, buffer: Tensor, landed: Callable[[], None] | None = None) -> Copy:
        """Write a page-aligned buffer, and call back once its bytes may be overwritten."""
        if os.getpid() != self._process:
            raise RefusedError(
                "a forked process cannot change parameters or optimizer state in the file, which its parent uses: "
                "start the process before wrap(), or leave out nvme="
            )

        def work() -> Tensor:
            # Summed on this thread just before the write, so that a change by anyone until then counts as intended.
            if self._sums is not None:
                self._sums[extent] = checksum(buffer)
            self._transfer(os.pwritev, extent, buffer)
            return buffer

        return self._queue(self.writes, buffer, work, landed)

    def close(self) -> None:
        """Finish what is queued and give the disk space back."""
        self.reads.close()
        self.writes.close()
        os.close(self._fd)

    @staticmethod
    def _queue(lane: Lane, buffer: Tensor, work: _Work, landed: Callable[[], None] | None = None) -> Copy:
        copy = Copy(buffer, work, buffer.numel(), landed)
        lane.put(copy)
        return copy

    def _transfer(self, call: _Call, extent: Extent, buffer: Tensor) -> None:
        # The kernel may move less than asked, with direct access in whole blocks: the rest stays aligned.
        view = memoryview(buffer.numpy())  # type: ignore[arg-type]
        done = 0
        while done < extent.bytes:
            moved = call(self._fd, [view[done:]], extent.offset + done)
            if moved == 0:
                raise OSError(errno.EIO, f"the file in {self.directory} ended early")
            done += moved

    def _check(self, extent: Extent, buffer: Tensor) -> None:
        if self._sums is not None and checksum(buffer) != self._sums[extent]:
            raise CorruptedError(
                f"bytes {extent.offset} to {extent.offset + extent.bytes} of the file in {self.directory} are not what "
                "was written there: check the disk"
            )

    def _open(self) -> int:
        memory = _filesystem(self.directory) in _MEMORY_FILESYSTEMS
        try:
            fd = self._open_direct()
        except OSError as error:
            raise RefusedError(
                f"nvme={str(self.directory)!r} cannot be written ({error.strerror}): give a folder that exists and is "
                "yours to write"
            ) from error
        if memory:
            text = f"{self.directory} is memory, not a disk: the file tier works there but saves no memory"
            warnings.warn(text, Notice, stacklevel=4)
        elif not self.direct:
            text = f"{self.directory} refuses O_DIRECT: the file tier goes through the page cache, slower and larger"
            warnings.warn(text, Notice, stacklevel=4)
        return fd

    def _open_direct(self) -> int:
        try:
            return self._open_nameless(os.O_DIRECT)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        self.direct = False
        return self._open_nameless(0)

    def _open_nameless(self, flags: int) -> int:
        # Without O_TMPFILE the name lives for an instant only: a process killed right there leaves an empty file.
        try:
            return os.open(self.directory, os.O_TMPFILE | os.O_RDWR | flags, 0o600)
        except OSError as error:
            if error.errno not in {errno.EOPNOTSUPP, errno.EISDIR}:
                raise
        fd, name = tempfile.mkstemp(prefix="tencache-", dir=self.directory)
        os.close(fd)
        try:
            return os.open(name, os.O_RDWR | flags)
        finally:
            Path(name).unlink()


def _work(copy: Copy) -> None:
    copy.source()


def _filesystem(directory: Path) -> str:
    """Return the type of the file system that holds a folder; an empty text where the system does not tell."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    mounts = sorted((line.split()[1:3] for line in lines), key=lambda mount: len(mount[0]))
    inside = [kind for point, kind in mounts if directory.resolve().is_relative_to(point)]
    return inside[-1] if inside else ""
