"""Forecasts tried on a controller's own journal: at earlier cycles, with what it held then, beside what came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rltune.errors import InputError
from rltune.forecast.calibrate_forecast import ROLLS, Progress, TriedMoment, calibration_of, tried
from rltune.forecast.start_forecast import StartCalibration
from rltune.live.journal.packing import unpack_snapshot
from rltune.live.journal.store import Journal
from rltune.live.present_of_slurm import present_of_cycle


def calibrate_on_journal(
    journal: Journal,
    moments: int,
    *,
    rolls: int = ROLLS,
    seed: int = 0,
    workers: int = 2,
    progress: Progress | None = None,
) -> StartCalibration:
    """Try forecasts at so many earlier cycles, spread evenly over those in which somebody waited."""
    known = [row[0] for row in journal.rows("SELECT id FROM cycle WHERE waiting > 0 ORDER BY id")]
    if len(known) < 2:
        raise InputError(f"{journal.path}: in no earlier cycle did a job wait, so nothing can be calibrated")
    cycles = [known[i] for i in np.unique(np.linspace(0, len(known) - 1, moments + 1)[:-1].astype(int))]
    trials = tried_cycles(journal, cycles, rolls=rolls, seed=seed, workers=workers, progress=progress)
    return replace(calibration_of(trials), tried=moments)


def tried_cycles(
    journal: Journal,
    cycles: Sequence[int],
    *,
    rolls: int = ROLLS,
    seed: int = 0,
    workers: int = 2,
    progress: Progress | None = None,
) -> list[TriedMoment]:
    """Forecast at cycles with what the journal held then, beside the starts that it tells of."""
    last = unpack_snapshot(journal.cycle(0).snapshot)
    start_of = {str(one.job.id): one.job.start_s for one in journal.ended(1 << 40)}
    start_of |= {str(job.id): job.start_s for job in last.jobs if job.on_nodes}
    trials = []
    for i, cycle in enumerate(cycles):
        trial = tried(present_of_cycle(journal, cycle), start_of, last.taken_s, rolls, seed + i, workers)
        trials += [trial] if trial is not None else []
        if progress is not None:
            progress(i + 1, len(cycles))
    return trials
