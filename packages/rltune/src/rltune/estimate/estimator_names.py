"""Estimators by name."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError, told, unknown
from rltune.estimate.blended import Blend
from rltune.estimate.estimators import Estimator, Given, History, Noisy, Oracle, User
from rltune.estimate.given_files import ByJob
from rltune.estimate.last_two import LastTwo
from rltune.estimate.predicted import PREDICTED, Predicted
from rltune.jobs import Jobs
from rltune.plugins import ESTIMATORS

NAMES = (
    "oracle",
    "user",
    "noisy[:sigma]",
    "history",
    "predicted[:TRACE]",
    "last2",
    "blend:user+predicted",
    "file:PATH",
    "column:NAME",
    "auto",
)
# What a site can choose from, in order of how much each needs: `tune` judges them by the waits that they make.
CANDIDATES = ("user", "history", "predicted", "blend:user+predicted")
OLD_NAME = "boost"
AUTO = "auto"  # is no estimator but a choice among them: `rltune.trials.estimator_choice`
MOST_ASKED = 0.5  # of the jobs have a limit: the site's scheduler plans by limits


def sites_estimator(jobs: Jobs) -> str:
    """Return what the site's own scheduler knows of run times: the limits asked, where most jobs of a real history do.

    A history without recorded starts, as a made-up one, has no site to be like: there it is `history`.
    """
    real = bool(len(jobs)) and not bool(np.isnan(jobs.recorded_start_s).all())
    return "user" if real and float(np.isfinite(jobs.limit_s).mean()) > MOST_ASKED else "history"


def candidates(jobs: Jobs) -> tuple[str, ...]:
    """Name the estimators that a history can be scheduled with: those that need a limit only if jobs have limits."""
    limited = bool(np.isfinite(jobs.limit_s).any())
    return tuple(name for name in CANDIDATES if limited or "user" not in name)


def get_estimator(spec: str | Estimator | NDArray[np.float64]) -> Estimator:
    """Take an estimator by its name, from a file (`mine.py:Name`), as an object, or as an array of estimates."""
    if isinstance(spec, np.ndarray):
        return Given(spec)
    if isinstance(spec, Estimator):
        return spec
    if not isinstance(spec, str):
        raise InputError(f"{spec!r} is no estimator: give a name, an array of estimates or an object such as History()")
    if (found := _named(spec)) is not None:
        return found
    if (own := _own(spec)) is not None:
        return own
    raise unknown("estimator", spec, (*NAMES, *ESTIMATORS.names()), more=", or your own as path.py:Name")


def _named(spec: str) -> Estimator | None:
    """Make an estimator that comes with the package; None if there is none of that name."""
    plain: dict[str, Estimator] = {"oracle": Oracle(), "user": User(), "history": History(), "last2": LastTwo()}
    name, _, parameter = spec.partition(":")
    if spec in plain:
        return plain[spec]
    if name == "noisy":
        return Noisy(_sigma(parameter)) if parameter else Noisy()
    if name in {PREDICTED, OLD_NAME}:
        if name == OLD_NAME:
            say = f"write {PREDICTED} for {OLD_NAME}: it is another estimator now, and the old name ends with 1.0"
            warnings.warn(say, FutureWarning, stacklevel=3)
        return Predicted(before=read_history(parameter) if parameter else None)
    if name == "blend":
        return _blend(spec, parameter)
    if name == "file":
        path, _, column = parameter.partition("#")
        return ByJob(path, column).read()
    if spec == AUTO:
        told = "estimators are chosen by the waits of earlier jobs: take it in evaluate, or let tune choose"
        raise InputError(f"{AUTO}: {told}")
    if name == "column":
        raise InputError(f"{spec}: a column of which trace? In Python write file:PATH#{parameter}")
    return None


def _blend(spec: str, parts: str) -> Blend:
    names = [part.strip() for part in parts.split("+")]
    if len(names) < 2 or not all(names):
        raise InputError(f"{spec}: a blend is of two estimators or more, such as blend:user+predicted")
    if "history" in names:
        raise InputError(f"{spec}: history is made inside the run, and cannot be blended; take predicted")
    return Blend(tuple(get_estimator(name) for name in names))


def of_trace(spec: str, path: str) -> str:
    """Let `column:NAME` be a column of the trace that a command reads, `file:TRACE#NAME`; others stay as they are."""
    if not spec.startswith("column:"):
        return spec
    column = spec.removeprefix("column:")
    if path.startswith("synth:"):
        raise InputError(f"{spec}: a synthetic trace has no columns of its own")
    return f"file:{path}#{column}"


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
