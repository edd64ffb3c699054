"""Estimators by name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError, told, unknown
from rltune.estimate.boosted_trees import Boost
from rltune.estimate.estimators import Estimator, Given, History, Noisy, Oracle, User
from rltune.jobs import Jobs
from rltune.plugins import ESTIMATORS

NAMES = ("oracle", "user", "noisy[:sigma]", "history", "boost:TRACE")


def get_estimator(spec: str | Estimator | NDArray[np.float64]) -> Estimator:
    """Take an estimator by its name, from a file (`mine.py:Name`), as an object, or as an array of estimates."""
    if isinstance(spec, np.ndarray):
        return Given(spec)
    if isinstance(spec, Estimator):
        return spec
    if not isinstance(spec, str):
        raise InputError(f"{spec!r} is no estimator: give a name, an array of estimates or an object such as History()")
    name, _, parameter = spec.partition(":")
    if name == "noisy":
        return Noisy(_sigma(parameter)) if parameter else Noisy()
    if name == "boost":
        return Boost(before=read_history(parameter) if parameter else None)
    plain: dict[str, Estimator] = {"oracle": Oracle(), "user": User(), "history": History()}
    if spec in plain:
        return plain[spec]
    if (own := _own(spec)) is not None:
        return own
    raise unknown("estimator", spec, (*NAMES, *ESTIMATORS.names()), more=", or your own as path.py:Name")


def _own(spec: str) -> Estimator | None:
    """Load a user's own estimator; a class is called without arguments."""
    found = ESTIMATORS.find(spec)
    if isinstance(found, type):
        try:
            found = found()
        except (Exception, SystemExit) as error:  # whatever it raises, the user wrote it
            raise InputError(f"estimator {spec!r} cannot be made: {told(error)}") from error
    if found is None or isinstance(found, Estimator):
        return found
    raise InputError(f"estimator {spec!r}: it needs a name and a method estimate(jobs, seed)")


def read_history(path: str) -> Jobs:
    """Read the earlier history that an estimator is to learn from."""
    from rltune.trace import read_trace

    return read_trace(path)


def _sigma(text: str) -> float:
    try:
        sigma = float(text)
    except ValueError:
        sigma = -1.0
    if not 0.0 <= sigma < 100.0:
        raise InputError(f"noisy:{text}: sigma should be a number from 0 to 100")
    return sigma
