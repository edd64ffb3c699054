"""How scattered the free GPUs lay, above all while somebody waited for them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.metrics.distribution import Distribution

if TYPE_CHECKING:
    from rltune.jobs import Floats
    from rltune.metrics.timeline import Timeline


@dataclass(frozen=True)
class Fragmentation:
    """1 - sum(free^2) / (sum free)^2 over nodes, weighted by time: 0 = all free GPUs on one node.

    An idle cluster of N alike nodes has 1 - 1/N, which harms nobody; so `while_waiting` is the one to look at.
    """

    while_waiting: Distribution  # over the time in which GPUs are free and a job waits for GPUs
    overall: Distribution  # over the time in which GPUs are free
    idle_while_waiting: float  # share of all GPU-seconds of the span that were free while a job waited for GPUs

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def fragmentation(line: Timeline, held_s: Floats, gpus: int) -> Fragmentation:
    """Measure over the states of a timeline, each held for `held_s`."""
    some = (line.free > 0) & (held_s > 0)
    free, held, waits = line.free[some], held_s[some], line.waiting[some] > 0
    scattered = 1.0 - line.free_squared[some] / free.astype(np.float64) ** 2
    room = gpus * float(held_s.sum())
    idle = float(free[waits] @ held[waits])
    return Fragmentation(
        while_waiting=Distribution.over_time(scattered[waits], held[waits]),
        overall=Distribution.over_time(scattered, held),
        idle_while_waiting=idle / room if room > 0 else np.nan,
    )
