"""What is assumed of a job that may be displaced, where nobody said more: the one place of these numbers.

A job that is preemptible loses, when it is displaced, its work since the last checkpoint (`checkpoint_s` of work lie
between two; 0 = nothing is lost, infinite = all) and holds its GPUs for `restart_s` without progress when it goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

CHECKPOINT_S = 600.0  # of a job that is preemptible, and of which no more is said
RESTART_S = 120.0
NO_CHECKPOINT_S = np.inf  # of a job of which nothing is said: what stops it costs all its work
NO_RESTART_S = 0.0
_SAID = {"checkpoint_s": CHECKPOINT_S, "restart_s": RESTART_S}
_UNSAID = {"checkpoint_s": NO_CHECKPOINT_S, "restart_s": NO_RESTART_S}
PREEMPTION_COLUMNS = ("preemptible", *_SAID)  # of a job table


def assumed(column: str, preemptible: Mask) -> Floats:
    """Return what is assumed of each job in a column of seconds of which nothing is said."""
    return np.where(preemptible, _SAID[column], _UNSAID[column])


def fill_unsaid(columns: dict[str, Any]) -> dict[str, Any]:
    """Put what is assumed where a file or a frame leaves a cell empty (NaN): jobs then are not preemptible."""
    if not columns.keys() & set(PREEMPTION_COLUMNS):
        return columns
    filled = dict(columns)
    rows = len(np.asarray(next(columns[name] for name in PREEMPTION_COLUMNS if name in columns)))
    willing = np.nan_to_num(np.asarray(columns.get("preemptible", np.zeros(rows)), dtype=np.float64))
    filled["preemptible"] = willing
    for name in _SAID.keys() & columns.keys():
        given = np.asarray(columns[name], dtype=np.float64)
        filled[name] = np.where(np.isnan(given), assumed(name, willing != 0), given)
    return filled
