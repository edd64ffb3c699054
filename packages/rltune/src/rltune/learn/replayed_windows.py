"""Windows made ready once and run many times with other weights: what training by search and validation stand on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rltune.kernel.build.prepare import copy_state
from rltune.kernel.score.slowdown import bounded_slowdown
from rltune.kernel.state.arrays import REJECTED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rltune.engine.run import Machine
    from rltune.kernel.state.arrays import State

Floats = NDArray[np.float64]
Cost = "Callable[[Machine], float]"


def mean_wait(machine: Machine) -> float:
    """Return the mean wait of the jobs that ran."""
    return float(_waits(machine).mean())


def mean_slowdown(machine: Machine) -> float:
    """Return the mean bounded slowdown of the jobs that ran."""
    ran = machine.state.life.status != REJECTED
    run = (machine.state.life.end - machine.state.life.start)[ran]
    return float(bounded_slowdown(_waits(machine) + run, run).mean())


def mean_delay(machine: Machine) -> float:
    """Return the mean delay of the jobs that ran: completion time beyond the run time."""
    ran = machine.state.life.status != REJECTED
    job = machine.world.job
    return float((machine.state.life.end - job.submit - job.duration)[ran].mean())


def _waits(machine: Machine) -> Floats:
    ran = machine.state.life.status != REJECTED
    waits: Floats = (machine.state.life.start - machine.world.job.submit)[ran]
    return waits


@dataclass(frozen=True)
class Stage:
    """A window that can be run again and again."""

    machine: Machine
    first: State  # as it was before any run

    @classmethod
    def of(cls, machine: Machine) -> Stage:
        """Keep a machine that has not run yet."""
        return cls(machine, copy_state(machine.state))

    def run(self, weights: Floats | None, cost: Callable[[Machine], float]) -> float:
        """Run the window from its beginning under these weights, and give what it cost."""
        for part, before in zip(self.machine.state, self.first, strict=True):
            part[...] = before
        if weights is not None:
            self.machine.world.net[:] = weights
        self.machine.cut_short.clear()
        self.machine.run()
        return cost(self.machine)


def costs(stages: Sequence[Stage], weights: Sequence[Floats], cost: Callable[[Machine], float], threads: int) -> Floats:
    """Return what every window costs under every set of weights: [weights, window]."""

    def one(stage: Stage) -> list[float]:
        return [stage.run(w, cost) for w in weights]

    with ThreadPoolExecutor(threads) as pool:
        return np.array(list(pool.map(one, stages))).T
