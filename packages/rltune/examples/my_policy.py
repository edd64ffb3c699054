"""A policy of your own in one file: small jobs first, but nobody waits for ever.

    rltune compare history.csv --cluster cluster.toml --policy fcfs,saf,my_policy.py:small_but_patient

A policy is a function. It is shown the waiting jobs (`rltune.policy.QueueView`: columns, one row a job, oldest first)
and gives one number a job: the lowest runs first. It is asked anew whenever a job comes or goes.
"""
# ruff: noqa: INP001  an example stands alone

import numpy as np
from numpy.typing import NDArray

from rltune.policy import QueueView

PATIENCE_S = 4 * 3600.0


def small_but_patient(queue: QueueView) -> NDArray[np.float64]:
    """Rank by GPU time as it is estimated; every four hours of waiting halve it."""
    area = np.maximum(queue.gpus, 1) * queue.estimate_s
    return area * 0.5 ** (queue.wait_s / PATIENCE_S)
