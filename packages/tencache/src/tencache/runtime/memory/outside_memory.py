"""Memory that something other than torch may refer to, which torch's counts do not tell."""

from pathlib import Path

from torch import Tensor

_MAPPINGS = Path("/proc/self/maps")


def is_seen_outside(tensor: Tensor) -> bool:
    """Return whether an array, another process or a file may share a tensor's memory."""
    if tensor.device.type != "cpu":
        return False
    storage = tensor.untyped_storage()
    # What torch has allocated for this process alone can be resized, and is not shared.
    if not storage.nbytes() or (storage.resizable() and not storage.is_shared()):
        return False
    # Checkpoints are mapped privately: what is written to them is seen by nobody else.
    return not _is_private_file(storage.data_ptr())


def _is_private_file(address: int) -> bool:
    """Return whether an address lies in a file that is mapped for this process alone."""
    for line in _MAPPINGS.read_text().splitlines():
        span, rights, _, _, inode, *_ = line.split()
        begin, end = (int(part, 16) for part in span.split("-"))
        if begin <= address < end:
            return rights[3] == "p" and inode != "0"
    return False
