"""Divides the host's memory between parameters, gradients, staging and optimizer state."""

from collections.abc import Sequence
from dataclasses import dataclass

from tencache.errors import RefusedError
from tencache.quantity import parse_bytes, show_bytes
from tencache.runtime.tensors.units import UnitMembers

STAGING_SHARE = 8
SECOND_SHARE = 16
SAVED_SHARE = 8


@dataclass(frozen=True)
class HostSplit:
    """Which units live in the file, and what memory is left for staging and for optimizer state (None: no limit)."""

    filed: frozenset[int] = frozenset()
    staging_bytes: int = 2**62
    state_bytes: int | None = None
    # For second copies of what is updated within backward, where there is a file.
    second_bytes: int = 0
    # For what autograd saved and the device has no room for (None: no limit).
    saved_bytes: int | None = None


def split_tiers(
    groups: Sequence[UnitMembers],
    host: int | str | None,
    *,
    has_file: bool,
    early: bool = False,
    saved: bool = False,
) -> HostSplit:
    """Divide the host's memory: gradients first, then parameters, then optimizer state; the rest goes to the file.

    If updates may be `early`, a share is for second copies; if `saved` tensors may wait on the host, one is for them.
    """
    if host is None:
        return HostSplit()
    sizes = [group.size_bytes for group in groups]
    gradients = sum(
        group.size_bytes for group in groups if any(parameter.requires_grad for parameter in group.parameters)
    )
    host_bytes = parse_bytes(host)
    # Room for four of the largest unit: one being read, one uploaded, one written, and one asked for out of turn.
    staging_bytes = max(host_bytes // STAGING_SHARE, 4 * max(sizes)) if has_file else 0
    saved_bytes = host_bytes // SAVED_SHARE if saved else 0
    room = host_bytes - gradients - staging_bytes - saved_bytes
    if room < (0 if has_file else sum(sizes)):
        needed = gradients + saved_bytes + (2 * staging_bytes if has_file else sum(sizes))
        advice = "raise host=" if has_file else "raise host=, or give nvme= a folder on a disk"
        raise RefusedError(
            f"host={show_bytes(host_bytes)} is too little for this model, which needs {show_bytes(needed)}: {advice}"
        )
    filed = spread_over_file(sizes, room)
    kept = sum(size for unit, size in enumerate(sizes) if unit not in filed)
    second_bytes = min(host_bytes // SECOND_SHARE, room - kept) if has_file and early else 0
    state_bytes = room - kept - second_bytes
    return HostSplit(filed, staging_bytes or 2**62, state_bytes, second_bytes, saved_bytes if saved else None)


def spread_over_file(sizes: Sequence[int], room: int) -> frozenset[int]:
    """Choose units for the file, evenly along the model, until the others fit."""
    # Evenly, so that some units come from memory while others are read; filed in a row, they would be waited for.
    over = max(0.0, 1 - room / sum(sizes))
    filed, debt, kept = set(), 0.0, 0
    for unit, size in enumerate(sizes):
        debt += over * size
        if over and (debt >= size / 2 or kept + size > room):
            filed.add(unit)
            debt -= size
        else:
            kept += size
    return frozenset(filed)
