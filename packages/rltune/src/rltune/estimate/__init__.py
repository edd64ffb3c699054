"""What is known of a run time. Policies, backfilling and placement see estimates; the truth stays with the engine."""

from rltune.estimate.estimator_names import (
    CANDIDATES,
    NAMES,
    candidates,
    get_estimator,
    of_trace,
    read_history,
    sites_estimator,
)
from rltune.estimate.estimators import (
    LEVELS,
    Estimates,
    Estimator,
    Given,
    History,
    Levels,
    Noisy,
    Oracle,
    User,
    ended_by,
    estimated,
    likeness,
)

__all__ = [
    "CANDIDATES",
    "LEVELS",
    "NAMES",
    "Estimates",
    "Estimator",
    "Given",
    "History",
    "Levels",
    "Noisy",
    "Oracle",
    "User",
    "candidates",
    "ended_by",
    "estimated",
    "get_estimator",
    "likeness",
    "of_trace",
    "read_history",
    "sites_estimator",
]
