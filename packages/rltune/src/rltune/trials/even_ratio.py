"""How two pipelines stand over several windows, so that neither one bad window nor many easy ones decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rltune.jobs import Floats


def even_ratio(sums: Floats, found: Floats, base: Floats, least: float = 1e-9) -> Floats:
    """Return the geometric middle of the ratio of sums and of the windows' mean ratio, itself a geometric mean.

    `found` and `base` are by window, along the last axis; below `least` they are taken to be alike.
    """
    each: Floats = np.exp(np.log(np.maximum(found, least) / np.maximum(base, least)).mean(axis=-1))
    return np.sqrt(sums * each)
