"""A comparison stopped early still gives a page."""

from dataclasses import replace

import numpy as np

import rltune
from rltune.evaluation import Comparison
from rltune.report import write_report


def test_a_comparison_stopped_before_its_baseline_ran_says_so(tmp_path):
    jobs = rltune.Jobs.from_arrays(np.arange(8.0), 5, 1)
    one = Comparison.of_schedules([rltune.simulate(jobs, rltune.Cluster.uniform(1, 1), estimator="oracle")])
    page = write_report(replace(one, standings=()), tmp_path / "page.html").read_text(encoding="utf-8")
    assert "stopped before the baseline had run once" in page
