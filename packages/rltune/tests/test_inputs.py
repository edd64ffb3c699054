"""A public function that is given something else than Jobs and a Cluster says what to call instead."""

from pathlib import Path

import polars as pl
import pytest

import rltune
from rltune.evaluation.transfer import Ground, transfer
from rltune.trace import load, write

JOBS = rltune.Jobs.from_arrays([0.0, 1.0], [10.0, 5.0], [1, 1])
CLUSTER = rltune.Cluster.uniform(1, 1)


def transfer_of(jobs, cluster):
    return transfer(["saf"], [Ground("one", jobs, cluster)], ["saf"])


FUNCTIONS = [
    rltune.simulate,
    lambda jobs, cluster: rltune.compare(jobs, cluster, ["fcfs"]),
    lambda jobs, cluster: rltune.evaluate(jobs, cluster, ["fcfs"]),
    transfer_of,
]


class DataFrame:
    """What pandas would give."""


DataFrame.__module__ = "pandas.core.frame"


@pytest.mark.parametrize("function", FUNCTIONS, ids=["simulate", "compare", "evaluate", "transfer"])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (pl.DataFrame(), r"jobs is a polars DataFrame; give Jobs: rltune\.Jobs\.from_polars\(frame\)"),
        (pl.LazyFrame(), r"jobs is a polars LazyFrame; give Jobs: rltune\.Jobs\.from_polars\(frame\)"),
        (DataFrame(), r"jobs is a pandas DataFrame; give Jobs: rltune\.Jobs\.from_pandas\(frame\)"),
        ("log.csv", r"jobs is the text 'log\.csv'; give Jobs: rltune\.read_trace\('log\.csv'\)"),
        (Path("log.csv"), r"jobs is the path 'log\.csv'; give Jobs: rltune\.read_trace\('log\.csv'\)"),
        ({"submit_s": []}, r"jobs is a dict; give Jobs: rltune\.Jobs\.from_arrays\(\*\*columns\)"),
        ([1, 2], r"jobs is a list; give Jobs: rltune\.read_trace\(path\), .*"),
        (CLUSTER, r"jobs is a Cluster; give Jobs: .*"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_jobs_that_are_none(function, given, sentence):
    with pytest.raises(rltune.InputError, match=f"^{sentence}$"):
        function(given, CLUSTER)


@pytest.mark.parametrize("function", FUNCTIONS, ids=["simulate", "compare", "evaluate", "transfer"])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            "philly-slice",
            r"cluster is the text 'philly-slice'; give a Cluster: rltune\.Cluster\.load\('philly-slice'\)",
        ),
        (Path("c.toml"), r"cluster is the path 'c\.toml'; give a Cluster: rltune\.Cluster\.load\('c\.toml'\)"),
        (None, r"cluster is a NoneType; give a Cluster: rltune\.Cluster\.load\(name_or_path\) or .*"),
    ],
    ids=str,
)
def test_a_cluster_that_is_none(function, given, sentence):
    with pytest.raises(rltune.InputError, match=f"^{sentence}$"):
        function(JOBS, given)


def test_a_trace_that_was_loaded_has_its_jobs(tmp_path):
    write(JOBS, tmp_path / "t.csv")
    with pytest.raises(rltune.InputError, match=r"^jobs is a Trace; give its Jobs: \.jobs$"):
        rltune.simulate(load(tmp_path / "t.csv"), CLUSTER)
