"""The examples of docs/how-to/extend.md do what the page says, from a file and as entry points."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from queueing_trace import cluster, trace

import rltune
from rltune import plugins

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "extend.md").read_text(encoding="utf-8")
__all__ = ["cluster", "trace"]


@pytest.fixture
def files(tmp_path):
    """Write the examples, each under the name in its first line."""
    for name, code in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, flags=re.DOTALL):
        (tmp_path / name).write_text(code)
    return tmp_path


def test_the_policy_is_smallest_area_first(files, trace, cluster):
    made = [rltune.simulate(trace, cluster, p, estimator="history") for p in (f"{files}/my_policy.py:score", "saf")]
    assert made[0].start_s.tolist() == made[1].start_s.tolist()


def test_the_estimator_halves_limits_and_knows_one_hour_where_there_is_none(files, trace, cluster):
    jobs = trace.with_columns(limit_s=np.where(trace.gpus > 1, 500.0, np.nan))
    made = rltune.simulate(jobs, cluster, estimator=f"{files}/my_estimator.py:HalfTheLimit")
    assert made.settings.estimator == "half the limit"
    assert made.estimate_s.tolist() == np.where(trace.gpus > 1, 250.0, 3600.0).tolist()


@pytest.mark.parametrize("metric", ["my_metric.py:wait_of_small_jobs", "my_share.py:in_time"])
def test_the_metrics_tell_policies_apart(files, trace, cluster, metric):
    made = rltune.compare(trace, cluster, ["fcfs", "saf"], estimator="history", metric=f"{files}/{metric}")
    assert made.standings[1].better_in == 1


def test_the_format_reads_its_file(files):
    (files / "history.jsonl").write_text('{"at": 0, "took": 5, "n": 1}\n')
    assert rltune.read_trace(files / "history.jsonl", f"{files}/my_format.py:read").duration_s.tolist() == [5]


def test_the_groups_of_entry_points_are_those_that_are_asked(files):
    listed = tomllib.loads(re.search(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)[1])["project"]["entry-points"]
    kinds = (plugins.POLICIES, plugins.ESTIMATORS, plugins.METRICS, plugins.FORMATS)
    assert set(listed) == {kind.group for kind in kinds}
