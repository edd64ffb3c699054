"""Free nodes by how many GPUs they have free: per group and level a bitset of nodes and a count.

Finding the best-fitting of ten thousand nodes is then a walk over a few levels and words. Words hold 32 nodes, so that
all arithmetic stays within int64 and the kernels also run as plain Python.
"""

from __future__ import annotations

import numpy as np

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import State, World

_DE_BRUIJN = 0x077CB531
_PLACE = np.zeros(32, dtype=np.int64)
for _bit in range(32):
    _PLACE[(((1 << _bit) * _DE_BRUIJN) & 0xFFFFFFFF) >> 27] = _bit


@kernel
def lowest_bit(word: int) -> int:
    """Return the place of the lowest set bit of a word of 32."""
    return _PLACE[(((word & -word) * _DE_BRUIJN) & 0xFFFFFFFF) >> 27]


@kernel
def index_add(w: World, s: State, node: int) -> None:
    """Enter a node at the level of its free GPUs."""
    group = s.node[node].group
    level = s.node[node].gpu
    place = node - w.group[group].lo
    s.bits[w.group[group].bits_at + level * w.group[group].words + place // 32] |= 1 << (place % 32)
    s.level[w.group[group].level_at + level] += 1


@kernel
def index_remove(w: World, s: State, node: int) -> None:
    """Take a node out of the level of its free GPUs."""
    group = s.node[node].group
    level = s.node[node].gpu
    place = node - w.group[group].lo
    s.bits[w.group[group].bits_at + level * w.group[group].words + place // 32] &= ~(1 << (place % 32))
    s.level[w.group[group].level_at + level] -= 1
