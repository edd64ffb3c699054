"""A metric of a user's own: from a file, or from an installed package; and every way in which it can be wrong."""

import math
import os

import numpy as np
import pytest
from own_package import install

import rltune
from rltune.errors import InputError
from rltune.trials.measures import Metric, metric_of

CODE = """
import numpy as np

def wait_of_small_jobs(schedule):
    return np.where(schedule.jobs.gpus <= 1, schedule.wait_s, np.nan)
"""


def own(folder, code=CODE, name="wait_of_small_jobs"):
    (folder / "mine.py").write_text(code)
    return f"{folder / 'mine.py'}:{name}"


def compared(trace, cluster, metric, **settings):
    how = {"windows": "whole", "estimator": "oracle", **settings}
    return rltune.compare(trace, cluster, ["fcfs", "saf"], metric=metric, **how)


def test_the_mean_over_jobs_is_compared_and_nan_leaves_a_job_out(trace, cluster, tmp_path):
    made = compared(trace, cluster, own(tmp_path))
    for run, standing in zip(made.runs, made.standings, strict=True):
        small = run.schedule.jobs.gpus <= 1
        assert standing.value == pytest.approx(run.schedule.wait_s[small & run.schedule.ran].mean())
    assert math.isfinite(made.standings[1].ratio.low)
    assert "mean mine:wait_of_small_jobs" in repr(made)


def test_a_metric_as_an_object_has_title_direction_and_writing(trace, cluster, tmp_path):
    code = """
from rltune.trials.measures import Metric
from rltune.text import percent
in_time = Metric("started within a minute", write=percent, per_job=lambda s: s.wait_s < 60, higher_is_better=True)
"""
    made = compared(trace, cluster, own(tmp_path, code, "in_time"))
    assert "started within a minute" in repr(made)
    assert made.standings[0].value == np.mean(made.runs[0].schedule.wait_s < 60)
    assert metric_of(f"{tmp_path / 'mine.py'}:in_time").higher_is_better


def test_an_installed_package_brings_one(trace, cluster, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "rltune.metrics", "small-wait", CODE, "wait_of_small_jobs")
    assert compared(trace.window(0, 50), cluster, "small-wait").metric == "small-wait"
    with pytest.raises(InputError, match="did you mean small-wait"):
        metric_of("smal-wait")


def test_a_changed_file_is_read_anew(tmp_path):
    before = metric_of(spec := own(tmp_path))
    assert metric_of(spec) is before
    own(tmp_path, CODE + "# changed\n")
    os.utime(tmp_path / "mine.py", ns=(1, 1))
    assert metric_of(spec) is not before


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("wait_of_small_jobs = 3", "3 is neither a Metric nor a function of a schedule"),
        ("def wait_of_small_jobs(schedule): return 7.0", r"gave values of shape \(\) for 50 jobs, not \(50,\)"),
        ("def wait_of_small_jobs(schedule): return schedule.oh", "failed: AttributeError"),
        ("", "holds no 'wait_of_small_jobs'"),
    ],
)
def test_what_is_wrong_is_said(trace, cluster, tmp_path, code, why):
    with pytest.raises(InputError, match=why):
        compared(trace.window(0, 50), cluster, own(tmp_path, code))


def test_a_metric_of_nothing_is_refused():
    with pytest.raises(InputError, match="give a number of the summary or a number a job"):
        Metric("nothing")


def test_evaluate_keeps_its_own_measures(trace, cluster, tmp_path):
    with pytest.raises(InputError, match=r"no metric .* to evaluate by; there are: wait"):
        rltune.evaluate(trace, cluster, ["fcfs"], metric=own(tmp_path))
