"""A trace that queues and a cluster for it, for tests of comparisons."""

import numpy as np
import pytest

from rltune.cluster import Cluster
from rltune.jobs import Jobs


@pytest.fixture(scope="session")
def cluster():
    return Cluster.uniform(4, 4)


@pytest.fixture(scope="session")
def trace():
    """2,000 jobs that queue on 16 GPUs, with users, VCs, recorded starts and some that take no time."""
    rng, n = np.random.default_rng(3), 2000
    submit = np.sort(rng.integers(0, 160_000, n)).astype(float)
    duration = rng.lognormal(6, 1.3, n).round() * (rng.random(n) > 0.05)
    return Jobs.from_arrays(
        submit_s=submit,
        duration_s=duration,
        gpus=rng.choice([1, 2, 4, 8], n, p=[0.5, 0.2, 0.15, 0.15]),
        user=[None if u == 0 else f"u{u}" for u in rng.integers(0, 9, n)],
        vc=rng.choice(["a", "b", "c"], n),
        name=rng.integers(0, 20, n),
        recorded_start_s=np.where(rng.random(n) < 0.3, np.nan, submit + rng.exponential(900, n)),
    )
