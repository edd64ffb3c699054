"""The model of Lublin and Feitelson."""

import numpy as np
import pytest

from rltune import Cluster
from rltune.errors import InputError
from rltune.trace import synthesise
from rltune.trace.lublin import lublin


def test_sizes_and_run_times_are_as_the_model_says() -> None:
    """A quarter is serial, most are powers of two, run times are short or hours long."""
    jobs = lublin(20_000, 256, seed=3)
    assert np.mean(jobs.gpus == 1) == pytest.approx(0.25, abs=0.02)
    assert np.mean((jobs.gpus & (jobs.gpus - 1)) == 0) == pytest.approx(0.82, abs=0.04)
    assert jobs.gpus.max() <= 256
    assert np.mean((jobs.duration_s > 600) & (jobs.duration_s < 3600)) < 0.1
    assert np.median(jobs.duration_s) == pytest.approx(140, rel=0.25)


def test_more_arrive_by_day_than_by_night() -> None:
    """The hours before dawn are the quietest."""
    jobs = lublin(20_000, 256, seed=4)
    hour = ((jobs.submit_s + 9 * 3600) % 86400 // 3600).astype(int)
    counts = np.bincount(hour, minlength=24)
    assert counts[2:5].sum() < 0.4 * counts[12:15].sum()
    assert (np.diff(jobs.submit_s) >= 0).all()


def test_same_seed_same_jobs() -> None:
    """The seed decides everything."""
    assert np.array_equal(lublin(100, 64, 1).duration_s, lublin(100, 64, 1).duration_s)
    assert not np.array_equal(lublin(100, 64, 1).duration_s, lublin(100, 64, 2).duration_s)


def test_it_is_made_for_the_cluster_and_the_load() -> None:
    """No job is larger than the cluster, and arrivals are as dense as asked."""
    small = Cluster.uniform(2, 8)
    made = synthesise("lublin", 500, load=0.9, cluster=small)
    assert made.gpus.max() <= 16
    assert made.gpus @ made.duration_s / (16 * made.submit_s[-1]) == pytest.approx(0.9)
    assert synthesise("lublin", 500, days=2).submit_s[-1] == pytest.approx(2 * 86400)
    with pytest.raises(InputError, match="lublin makes"):
        lublin(0)
