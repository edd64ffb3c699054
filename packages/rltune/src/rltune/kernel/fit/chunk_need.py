"""What a chunk takes of a node, and whether maintenance is in the way."""

from __future__ import annotations

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import UNLIMITED, World


@kernel
def chunk_cpu(w: World, shape: int, kind: int, group: int) -> int:
    """Return the thousandths of a CPU that a chunk takes on a node of a group: all of them where nodes are not shared.

    Who holds all CPUs of a node keeps everybody else away, since every chunk then needs all of them.
    """
    asked = asked_cpu(w, shape, kind, group)
    return max(asked, w.group[group].cpu, 1) if w.whole_nodes else asked


@kernel
def asked_cpu(w: World, shape: int, kind: int, group: int) -> int:
    """Return the thousandths of a CPU that a chunk asks on a node of a group."""
    asked = w.chunk[shape, kind].cpu
    if asked >= 0:
        return asked
    if w.group[group].cpu >= UNLIMITED:
        return 0
    return w.group[group].cpu * w.chunk[shape, kind].gpus // w.group[group].gpus


@kernel
def free_cpu(w: World, group: int, cpu: int) -> int:
    """Return the free CPUs of a node to compare it by; where its group states none, all are the same."""
    return UNLIMITED if w.group[group].cpu >= UNLIMITED else cpu


@kernel
def chunk_mem(w: World, shape: int, kind: int, group: int) -> int:
    """Return the MiB that a chunk takes on a node of a group."""
    asked = w.chunk[shape, kind].mem
    if asked >= 0:
        return asked
    if w.group[group].mem >= UNLIMITED:
        return 0
    return w.group[group].mem * w.chunk[shape, kind].gpus // w.group[group].gpus


@kernel
def clear_of_pauses(w: World, group: int, start: float, estimate: float) -> bool:
    """Return whether a job started then would, by its estimate, run outside every maintenance window."""
    end = start + estimate / w.group[group].speed
    for i in range(w.group[group].pause_lo, w.group[group].pause_hi):
        if end > w.pause[i].start and start < w.pause[i].end:
            return False
    return True
