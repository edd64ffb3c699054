"""`sacct -D` has a row for every spell of a job that was requeued, preempted or lost its node: here they become one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.trace.quality import Ledger, Mask

Floats = NDArray[np.float64]

GIVEN_BACK = ("REQUEUED", "PREEMPTED")  # a spell's end after which the job goes on with what it has done
BROKEN_OFF = ("NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED")  # and after which that is lost


@dataclass(frozen=True)
class Records:
    """What is needed of every row to join them; `ran` says which of them had GPUs and ended."""

    id: NDArray[np.str_]
    state: list[str]
    submit: Floats
    start: Floats
    elapsed: Floats
    ran: Mask
    open: Mask  # waits or runs


def join_spells(ledger: Ledger, records: Records) -> tuple[Floats, Floats, NDArray[np.intp], Floats]:
    """Keep one row a job, and return its first submit, run time, the row of its first spell, and how many it had.

    The row kept is the last that ended by itself, else the last that ran; spells since an earlier end count. Work of a
    spell that a failing node ended is lost, if the job ran again. A job that waits or runs again has not ended.
    """
    submit, elapsed = records.submit.copy(), records.elapsed.copy()
    first, count = np.arange(len(submit)), np.ones(len(submit))
    merged, lost, again, unended, several = (np.zeros(len(submit), dtype=np.bool_) for _ in range(5))
    for rows in _of_one_job(ledger, records.id):
        submit[rows] = records.submit[rows].min()
        spells = _last_run(records, rows)
        if not spells:
            again[rows[:-1]] = True
            continue
        if _is_interrupted(records, spells[-1]) and records.open[rows].any():
            unended[rows] = True
            continue
        *before, kept = spells
        broken = [row for row in before if records.state[row] in BROKEN_OFF]
        merged[before], lost[broken] = True, True
        several[kept], count[kept] = bool(before), len(spells) - len(broken)
        first[kept] = spells[0]
        elapsed[kept] = records.elapsed[[row for row in spells if row not in broken]].sum()
        again[np.setdiff1d(rows, spells)] = True
    ledger.drop("still-running", unended)
    ledger.drop("lost-spell", lost)
    ledger.drop("earlier-spell", merged)
    ledger.drop("duplicate-requeue", again)
    ledger.mark("several-spells", several)
    ledger.mark("cut-off-spell", np.array([state == "REQUEUED" for state in records.state]))
    return submit, elapsed, first, count


def _of_one_job(ledger: Ledger, ids: NDArray[np.str_]) -> Iterator[NDArray[np.intp]]:
    """Return the living rows of every job that has several."""
    rows = np.flatnonzero(ledger.alive)
    order = rows[np.argsort(ids[rows], kind="stable")]
    edges = np.flatnonzero(ids[order][1:] != ids[order][:-1]) + 1
    yield from (group for group in np.split(order, edges) if len(group) > 1)


def _last_run(records: Records, rows: NDArray[np.intp]) -> list[int]:
    """List the spells of the job's last run from its beginning to its end, in order of time."""
    spells = [int(row) for row in rows if records.ran[row] and records.elapsed[row] >= 0]
    spells.sort(key=lambda row: (records.start[row], row))
    ends = [place for place, row in enumerate(spells) if place == len(spells) - 1 or not _is_interrupted(records, row)]
    by_itself = [place for place in ends if not _is_interrupted(records, spells[place])]
    last = (by_itself or ends or [-1])[-1]
    first = max((place + 1 for place in by_itself if place < last), default=0)
    return spells[first : last + 1]


def _is_interrupted(records: Records, row: int) -> bool:
    return records.state[row] in GIVEN_BACK or records.state[row] in BROKEN_OFF
