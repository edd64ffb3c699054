"""Parallel jobs by the model of Lublin and Feitelson (JPDC 2003): sizes, run times and arrivals.

Batch and interactive jobs are together. Constants are those they fitted to logs of the SDSC, CTC and KTH machines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError
from rltune.jobs import Jobs

Floats = NDArray[np.float64]

SERIAL, POWER_OF_TWO = 0.244, 0.576  # parts of the jobs
LOW, BELOW_HIGH, LOW_PART = 0.8, 2.5, 0.86  # of log2(size): two uniform parts, the upper one this wide
SHORT, LONG = (4.2, 0.94), (312.0, 0.03)  # gamma distributions of ln(run time)
SHORT_PART, SHORT_BY_SIZE = 0.78, -0.0054  # part of short ones: falls with size
GAP = (10.2303, 0.4871)  # gamma distribution of ln(time between arrivals) at the busiest
DAY = (8.1737, 3.9631)  # gamma distribution of arrivals over half hours, from half past five in the morning
DAY_BEGINS = 11  # half hours
_HALF_HOUR = 1800.0


def lublin(jobs: int, processors: int = 256, seed: int = 0) -> Jobs:
    """Make jobs for a machine of so many processors, which stand for GPUs."""
    if jobs < 1 or processors < 2:
        raise InputError(f"lublin makes 1 job or more for 2 processors or more, not {jobs} for {processors}")
    rng = np.random.default_rng(seed)
    size = _sizes(jobs, processors, rng)
    run = _runs(size, rng)
    return Jobs.from_arrays(submit_s=_arrivals(jobs, rng), duration_s=run, gpus=size)


def _sizes(n: int, processors: int, rng: np.random.Generator) -> NDArray[np.int64]:
    high = np.log2(processors)
    middle = max(LOW, high - BELOW_HIGH)
    low = rng.random(n) < LOW_PART
    log = np.where(low, rng.uniform(LOW, middle, n), rng.uniform(middle, high, n))
    log = np.where(rng.random(n) * (1 - SERIAL) < POWER_OF_TWO, np.round(log), log)
    log = np.where(rng.random(n) < SERIAL, 0.0, log)
    return np.clip(np.floor(2.0**log + 0.5), 1, processors).astype(np.int64)


def _runs(size: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    short = rng.random(len(size)) < np.clip(SHORT_PART + SHORT_BY_SIZE * size, 0.0, 1.0)
    log = np.where(short, rng.gamma(*SHORT, len(size)), rng.gamma(*LONG, len(size)))
    return np.maximum(1.0, np.floor(np.exp(log)))


def _arrivals(n: int, rng: np.random.Generator) -> Floats:
    """Let gaps pass slowly at night: a gap is used up at the pace of its half hour."""
    pace = _pace()
    time, left = 9 * 3600.0, np.exp(rng.gamma(*GAP, n))
    submit = np.empty(n)
    for i, gap in enumerate(left):
        need = float(gap)
        while True:
            slot = int(time // _HALF_HOUR)
            room = (slot + 1) * _HALF_HOUR - time
            if need <= room * pace[slot % 48]:
                time += need / pace[slot % 48]
                break
            need -= room * pace[slot % 48]
            time = (slot + 1) * _HALF_HOUR
        submit[i] = time
    since_first: Floats = np.floor(submit - submit[0])
    return since_first


def _pace() -> Floats:
    """Return the weight of each half hour of the day, 1 on average."""
    at = np.arange(48) + 0.5
    shape, scale = DAY
    density = at ** (shape - 1) * np.exp(-at / scale)
    weight = np.roll(density, DAY_BEGINS)
    pace: Floats = weight / weight.mean() * 0.9 + 0.1
    return pace
