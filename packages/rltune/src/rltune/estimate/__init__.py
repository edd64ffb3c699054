"""What is known of a run time. Policies, backfilling and placement see estimates; the truth stays with the engine."""

from rltune.estimate.estimator_names import NAMES, get_estimator, read_history
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
    "ended_by",
    "estimated",
    "get_estimator",
    "likeness",
    "read_history",
]
