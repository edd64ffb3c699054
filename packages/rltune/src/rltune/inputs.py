"""What public functions are given: jobs that are Jobs and a cluster that is a Cluster, or what to call instead."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.jobs import Jobs


def require_inputs(jobs: object, cluster: object) -> None:
    """Refuse anything but Jobs and a Cluster in one sentence that says how to make them."""
    if not isinstance(jobs, Jobs):
        raise InputError(f"jobs is {_a(jobs)}; give {_how_to_make_jobs(jobs)}")
    if not isinstance(cluster, Cluster):
        raise InputError(f"cluster is {_a(cluster)}; give {_how_to_make_a_cluster(cluster)}")


def _how_to_make_jobs(given: object) -> str:
    if isinstance(given, (str, Path)):
        return f"Jobs: rltune.read_trace({str(given)!r})"
    if _library(given) == "polars":
        return "Jobs: rltune.Jobs.from_polars(frame)"
    if _library(given) == "pandas":
        return "Jobs: rltune.Jobs.from_pandas(frame)"
    if isinstance(given, Mapping):
        return "Jobs: rltune.Jobs.from_arrays(**columns)"
    if isinstance(getattr(given, "jobs", None), Jobs):
        return "its Jobs: .jobs"
    return "Jobs: rltune.read_trace(path), rltune.Jobs.from_arrays(...), .from_polars(frame) or .from_pandas(frame)"


def _how_to_make_a_cluster(given: object) -> str:
    if isinstance(given, (str, Path)):
        return f"a Cluster: rltune.Cluster.load({str(given)!r})"
    return "a Cluster: rltune.Cluster.load(name_or_path) or rltune.Cluster.uniform(nodes=4, gpus=8)"


def _library(given: object) -> str:
    """Name the library that a value's type comes from, without importing it."""
    return type(given).__module__.partition(".")[0]


def _a(given: object) -> str:
    if isinstance(given, (str, Path)):
        return f"the text {given!r}" if isinstance(given, str) else f"the path {str(given)!r}"
    library = _library(given)
    return f"a {library} {type(given).__name__}" if library in {"polars", "pandas"} else f"a {type(given).__name__}"
