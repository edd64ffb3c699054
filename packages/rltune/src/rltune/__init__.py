"""A scheduler for deep-learning jobs on GPU clusters that learns from the cluster's own history.

jobs = rltune.read_trace("history.csv")
s = rltune.simulate(jobs, rltune.Cluster.preset("philly-slice"), policy="saf", backfill="easy", estimator="history")
print(s.summary())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.engine.simulate import simulate
    from rltune.errors import InputError
    from rltune.jobs import Jobs
    from rltune.schedule import Schedule
    from rltune.trace import read_trace

__all__ = ["Cluster", "InputError", "Jobs", "Schedule", "read_trace", "simulate"]
__version__ = "0.1.0"

_HOME = {
    "Cluster": "rltune.cluster",
    "InputError": "rltune.errors",
    "Jobs": "rltune.jobs",
    "Schedule": "rltune.schedule",
    "read_trace": "rltune.trace",
    "simulate": "rltune.engine.simulate",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that `import rltune` and `rltune --help` stay quick."""
    import importlib

    if name == "trace":
        return importlib.import_module("rltune.trace")
    if name not in _HOME:
        raise AttributeError(f"module 'rltune' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
