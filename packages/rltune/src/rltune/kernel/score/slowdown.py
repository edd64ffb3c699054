"""Bounded slowdown, once: for arrays, for single jobs and inside compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

SHORTEST_S = 10.0  # run times below this count as this long (Feitelson et al. 1997)


@register_jitable
def bounded_slowdown(jct_s: Any, run_s: Any) -> Any:
    """Return max(1, (wait + run) / max(run, 10)), from the completion time (wait + run) and the run time."""
    return np.maximum(1.0, jct_s / np.maximum(run_s, SHORTEST_S))
