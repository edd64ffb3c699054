"""Who wins and who loses: groups of jobs add up to everybody, by size, user and partition alike."""

import numpy as np
import pytest

from rltune.jobs import Jobs
from rltune.trials.shares import shares_between, totals_by_group


@pytest.fixture
def jobs():
    """Sixty jobs of two users and two partitions; one in three has no user."""
    n = 60
    user = [None if i % 3 == 0 else f"u{i % 2}" for i in range(n)]
    return Jobs.from_arrays(np.arange(n), 1, np.tile([1, 8], n // 2), user=user, vc=["a"] * 20 + ["b"] * 40)


def test_groups_of_a_kind_add_up_to_the_kept_jobs_that_have_one(jobs):
    kept = np.arange(10, 60)
    columns = np.stack([np.ones(50), kept.astype(float)], axis=1)
    found = list(totals_by_group(jobs, kept, columns))
    for kind in ("size", "partition"):
        assert sum(g.totals for g in found if g.kind == kind).tolist() == columns.sum(axis=0).tolist()
    known = jobs.user.codes[kept] >= 0
    assert sum(g.totals for g in found if g.kind == "user").tolist() == columns[known].sum(axis=0).tolist()
    named = {"1 GPU", "5 to 8 GPUs", "user u0", "user u1", "partition a", "partition b"}
    assert {str(g) for g in found} == named


def test_shares_are_means_of_groups_with_enough_jobs_the_largest_first(jobs):
    now, then = np.arange(60.0), 2 * np.arange(60.0)
    shares = shares_between(jobs, now, then, np.arange(60), fewest=20)
    assert [(s.kind, s.name, s.jobs) for s in shares if s.kind == "partition"] == [
        ("partition", "b", 40),
        ("partition", "a", 20),
    ]
    assert shares[-1].now_s == np.mean(now[:20])
    assert all(s.then_s == pytest.approx(2 * s.now_s) for s in shares)
    assert shares[-1].worst_s == (19, 38)
    assert shares[-1].p90_s == pytest.approx((np.quantile(now[:20], 0.9), np.quantile(then[:20], 0.9)))
    assert not any(s.kind == "partition" for s in shares_between(jobs, now, then, np.arange(15), fewest=20))


def test_sizes_of_jobs_without_gpus_are_their_cpus():
    """Or all of a machine without GPUs would be one group, and nobody's tail would be looked at."""
    n = 60
    bare = Jobs.from_arrays(np.arange(n), 1, np.zeros(n, dtype=int), cpus=np.tile([1.0, 7.5], n // 2))
    assert {str(g) for g in totals_by_group(bare, np.arange(n), np.ones((n, 1)))} == {"1 CPU", "5 to 8 CPUs"}
    mixed = Jobs.from_arrays(np.arange(n), 1, np.tile([0, 2], n // 2), cpus=np.full(n, 16.0))
    assert {str(g) for g in totals_by_group(mixed, np.arange(n), np.ones((n, 1)))} == {"0 GPUs", "2 GPUs"}
