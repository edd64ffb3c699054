"""The made-up sites with users and names: same seed, same trace; names, arrays and failures tell what they should."""

import numpy as np
import pytest

from rltune.cluster import Cluster
from rltune.trace.synthetic import SITES, synthesise


@pytest.fixture(scope="module", params=tuple(SITES))
def made(request):
    return request.param, synthesise(request.param, 4_000, seed=3)


def test_same_seed_same_trace(made):
    kind, jobs = made
    again, other = synthesise(kind, 4_000, seed=3), synthesise(kind, 4_000, seed=4)
    np.testing.assert_array_equal(jobs.duration_s, again.duration_s)
    assert jobs.name.to_list() == again.name.to_list()
    assert not np.array_equal(jobs.duration_s, other.duration_s)


def test_every_job_has_a_user_a_name_and_a_limit_that_holds(made):
    _, jobs = made
    assert (jobs.user.codes >= 0).all()
    assert (jobs.name.codes >= 0).all()
    assert (jobs.duration_s <= jobs.limit_s).all()
    assert (np.diff(jobs.submit_s) >= 0).all()


def test_users_and_names_tell_far_more_than_sizes(made):
    """Run times differ far less within a user and the words of a name than within a size."""
    _, jobs = made
    log = np.log(jobs.duration_s)
    words = ["".join(c for c in name if not c.isdigit()) for name in jobs.name.to_list()]
    assert _within(log, list(zip(jobs.user.to_list(), words, strict=True))) < 0.7 * _within(log, jobs.gpus.tolist())


def test_arrays_and_failures_are_there(made):
    _, jobs = made
    assert 0.2 < (jobs.array >= 0).mean() < 0.8
    assert 0.02 < np.mean([s == "failed" for s in jobs.state.to_list()]) < 0.5


def test_a_load_is_met_within_the_cluster():
    cluster = Cluster.uniform(4, 4)
    jobs = synthesise("habits", 2_000, seed=1, load=0.8, cluster=cluster)
    assert jobs.gpus.max() <= 16
    assert float(jobs.gpus @ jobs.duration_s) / (16 * jobs.submit_s.max()) == pytest.approx(0.8, rel=0.01)


def _within(values, groups) -> float:
    """Return the standard deviation that is left within groups."""
    _, code = np.unique([str(g) for g in groups], return_inverse=True)
    mean = np.bincount(code, weights=values) / np.bincount(code)
    return float(np.std(values - mean[code]))
