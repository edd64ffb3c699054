"""A scheduler for deep-learning jobs on GPU clusters that learns from the cluster's own history.

    import rltune

    jobs = rltune.read_trace("history.csv")
    cluster = rltune.Cluster.preset("philly-slice")
    schedule = rltune.simulate(jobs, cluster, policy="saf", backfill="easy", estimator="history")
    print(schedule.summary())
    print(rltune.compare(jobs, cluster, ["fcfs", "saf", "learned"], estimator="history"))

Values: Jobs (a workload), Cluster, Schedule (what a simulation gives), Comparison, Evaluation, Model (learned).
Functions: read_trace, simulate, compare, evaluate. All raise InputError, one sentence, for what is wrong with what is
given. The module `rltune.trace` reads, writes and makes histories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rltune.version import __version__ as __version__

if TYPE_CHECKING:
    from rltune import trace
    from rltune.cluster import Cluster
    from rltune.engine.simulate import simulate
    from rltune.errors import InputError
    from rltune.evaluation.compare import compare
    from rltune.evaluation.comparison import Comparison
    from rltune.evaluation.evaluate import evaluate
    from rltune.evaluation.evaluation import Evaluation
    from rltune.jobs import Jobs
    from rltune.model.learned_model import Model
    from rltune.schedule import Schedule
    from rltune.trace import read_trace

__all__ = [
    "Cluster",
    "Comparison",
    "Evaluation",
    "InputError",
    "Jobs",
    "Model",
    "Schedule",
    "compare",
    "evaluate",
    "read_trace",
    "simulate",
    "trace",
]

_HOME = {
    "Cluster": "rltune.cluster",
    "Comparison": "rltune.evaluation",
    "Evaluation": "rltune.evaluation",
    "InputError": "rltune.errors",
    "Jobs": "rltune.jobs",
    "Model": "rltune.model.learned_model",
    "Schedule": "rltune.schedule",
    "compare": "rltune.evaluation",
    "evaluate": "rltune.evaluation",
    "read_trace": "rltune.trace",
    "simulate": "rltune.engine.simulate",
}


_ROOMS = ("engine", "estimate", "evaluation", "metrics", "model", "placement", "policy", "report", "trace", "trials")


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that `import rltune` and `rltune --help` stay quick."""
    import importlib

    if name in _ROOMS:
        return importlib.import_module(f"rltune.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'rltune' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """List the public interface, imported or not."""
    return [*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"]
