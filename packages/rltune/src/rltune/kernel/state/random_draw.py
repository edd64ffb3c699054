"""Random numbers that are the same on every machine, from two seeds that lie beside each other in an array."""

from __future__ import annotations

import math

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import I8


@kernel
def uniform(seeds: I8, at: int) -> float:
    """Draw from (0, 1) by L'Ecuyer's combined generator (CACM 1988), and move its seeds, at `at` and the next place."""
    a = (40014 * seeds[at]) % 2147483563
    b = (40692 * seeds[at + 1]) % 2147483399
    seeds[at], seeds[at + 1] = a, b
    return ((a - b) % 2147483562 + 1) / 2147483564.0


@kernel
def gumbel(seeds: I8, at: int) -> float:
    """Draw noise that turns the best of some scores into a sample of them."""
    return -math.log(-math.log(uniform(seeds, at)))
