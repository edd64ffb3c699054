"""The same jobs with several starts: waits, queue and use as lines, for the charts that calibration.js draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rltune.calibration.causes import queue_of
from rltune.calibration.history import Steps
from rltune.jobs import Floats
from rltune.report.typed_arrays import pack_floats

SCRIPTS = ("base.js", "lines.js", "calibration.js")
MOMENTS = 480
QUANTILES = 240


def lines_of_starts(
    ready_s: Floats,
    gpus: NDArray[np.int64],
    run_s: Floats,
    start_s: Mapping[str, Floats],
    cluster_gpus: int,
    end_s: float | None = None,
    origin_s: float | None = None,
) -> dict[str, Any]:
    """Return the lines of each side; `start_s` has the starts of the same jobs by a name for the legend.

    They go on to the last end of the first side, or up to a time: who had not started by then is in no use of GPUs.
    `origin_s` is the clock at time 0 in seconds since 1970, if it is known: axes then have dates.
    """
    first, *_ = start_s.values()
    begin, end = float(ready_s.min()), float((first + run_s).max()) if end_s is None else end_s
    edges = np.linspace(begin, max(end, begin + 1e-3), MOMENTS + 1)
    shares = 1.0 - np.linspace(1.0, 0.0, QUANTILES) ** 2
    lines = [
        {
            "queue": pack_floats(queue_of(ready_s, start).averaged(edges)),
            "use": pack_floats(Steps.of(start, start + run_s, gpus).averaged(edges)),
            "wait": pack_floats(np.quantile(start - ready_s, shares)),
        }
        for start in start_s.values()
    ]
    return {
        "pipelines": [{"label": name, "colour": i, "dash": 0} for i, name in enumerate(start_s)],
        "clock": None if origin_s is None else origin_s + begin,
        "x": pack_floats((edges[:-1] + edges[1:]) / 2 - begin),
        "shares": pack_floats(shares),
        "gpus": cluster_gpus,
        "lines": lines,
    }
