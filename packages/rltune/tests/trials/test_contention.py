"""Which windows count is a property of the jobs and the cluster alone."""

import numpy as np
import pytest
from queueing_trace import cluster, trace

from rltune import simulate
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.estimate import get_estimator
from rltune.evaluation import WindowSpec, compare, evaluate
from rltune.learn.training_windows import Windows
from rltune.parallel import Here
from rltune.trials.contention import fcfs_wait_s, is_contended
from rltune.trials.parts import Part
from rltune.trials.warm_start import Knowledge

__all__ = ["cluster", "trace"]


def test_it_is_the_mean_wait_under_fcfs_without_backfilling(trace, cluster):
    window = trace.window(500, 200)
    alone = simulate(window, cluster, "fcfs", estimator="oracle")
    assert fcfs_wait_s(window, cluster) == alone.wait_s[alone.ran].mean()
    assert not is_contended(np.nan, 0.0)


@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_every_command_counts_the_same_windows(trace, cluster, backfill):
    """Comparing, evaluating and training agree, whatever backfills."""
    size, threshold = 100, 4500.0

    def counts(first):
        return is_contended(fcfs_wait_s(trace.window(first, size), cluster), threshold)

    starts = [first for first in range(1800, 1901, 20) if counts(first)]
    assert 0 < len(starts) < 6
    how = {"holdout": 0.1, "size": size, "every": 20, "contended_s": threshold}
    assert list(evaluate(trace, cluster, ["saf"], [backfill], **how).test.starts) == starts
    part = Part("training", 1800, 2000)
    pipeline = parse_pipeline("saf", backfill)
    windows = Windows(trace, cluster, part, size, pipeline, (get_estimator("oracle"),), threshold)
    for window in windows.draw(20, (1,), Knowledge(trace, 0), Here()):
        assert counts(window.first)
    spec = WindowSpec(20, size, min_wait_s=threshold)
    for window in compare(trace, cluster, ["saf"], [backfill], windows=spec).windows:
        assert counts(window.first)
