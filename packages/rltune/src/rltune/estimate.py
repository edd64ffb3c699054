"""What is known of a run time. Policies, backfilling and placement see estimates; the truth stays with the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rltune.core.prepare import Likeness
from rltune.core.shapes import distinct_rows
from rltune.errors import InputError
from rltune.jobs import Floats, Jobs


@dataclass(frozen=True)
class Estimates:
    """One estimate a job; with `likeness` they are made online, when a job is submitted, from what has ended."""

    values_s: Floats
    likeness: Likeness | None = None


@runtime_checkable
class Estimator(Protocol):
    """Estimates run times."""

    @property
    def name(self) -> str:
        """Name it in results."""
        ...

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:
        """Estimate every job of a table that is in order of submit time."""
        ...


@dataclass(frozen=True)
class Oracle:
    """The true run time: what no scheduler has."""

    name: str = "oracle"

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:  # noqa: ARG002
        """Give the truth away."""
        return Estimates(jobs.duration_s)


@dataclass(frozen=True)
class User:
    """The limit that the user asked for; the largest of the trace where a user asked for none."""

    name: str = "user"

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:  # noqa: ARG002
        """Believe the users."""
        missing = np.isnan(jobs.limit_s)
        if len(jobs) and missing.all():
            raise InputError(
                "estimator 'user' needs limit_s, and no job of this trace has one; try 'history' or 'noisy'"
            )
        largest = float(jobs.limit_s[~missing].max()) if len(jobs) else 0.0
        return Estimates(np.where(missing, largest, jobs.limit_s))


@dataclass(frozen=True)
class Noisy:
    """The true run time times a log-normal error of median 1."""

    sigma: float = 1.2

    @property
    def name(self) -> str:
        """Name it with its parameter."""
        return f"noisy:{self.sigma:g}"

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:
        """Err by a factor that depends on the seed and the job's place alone."""
        error = np.random.default_rng(seed).normal(0.0, self.sigma, len(jobs))
        return Estimates(jobs.duration_s * np.exp(error))


@dataclass(frozen=True)
class History:
    """The mean run time of ended jobs like it: same size, VC, user, name, each blended with the one before."""

    trust: float = 4.0  # how many jobs of the coarser likeness one needs to be outweighed
    name: str = "history"

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:  # noqa: ARG002
        """Leave the estimates to the run, which knows what has ended."""
        everything = np.zeros(len(jobs), dtype=np.int64)
        size, vc, user = jobs.gpus, jobs.vc.codes, jobs.user.codes
        keys = likeness_keys(
            [(everything,), (size,), (size, vc), (size, vc, user), (size, vc, user, jobs.name.codes)],
            optional=[(), (), (vc,), (user,), (jobs.name.codes,)],
        )
        likeness = Likeness(*keys, trust=self.trust)
        return Estimates(np.zeros(len(jobs)), likeness)


@dataclass(frozen=True)
class Given:
    """Estimates that were made elsewhere, in the order of the jobs given."""

    values_s: Floats
    name: str = "given"

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:  # noqa: ARG002
        """Take them as they are."""
        if len(self.values_s) != len(jobs):
            raise InputError(f"{len(self.values_s)} estimates are given for {len(jobs)} jobs")
        if not (np.isfinite(self.values_s).all() and (self.values_s >= 0).all()):
            raise InputError("an estimate is negative or not a finite number of seconds")
        return Estimates(np.ascontiguousarray(self.values_s, dtype=np.float64))


def likeness_keys(
    levels: list[tuple[NDArray[np.generic], ...]], optional: list[tuple[NDArray[np.generic], ...]]
) -> tuple[NDArray[np.int32], int]:
    """Give numbers to the distinct combinations of each level; a job without an optional label has no key there."""
    columns = []
    used = 0
    for columns_of_level, needed in zip(levels, optional, strict=True):
        code, rows = distinct_rows(columns_of_level)
        key = code + used
        for labels in needed:
            key = np.where(np.asarray(labels) < 0, -1, key)
        columns.append(key)
        used += len(rows)
    return np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.int32), max(used, 1)


NAMES = ("oracle", "user", "noisy[:sigma]", "history")


def get_estimator(spec: str | Estimator | NDArray[np.float64]) -> Estimator:
    """Take an estimator by its name, as an object, or as an array of estimates."""
    if isinstance(spec, np.ndarray):
        return Given(spec)
    if not isinstance(spec, str):
        return spec
    name, _, parameter = spec.partition(":")
    if name == "noisy":
        return Noisy(_sigma(parameter)) if parameter else Noisy()
    plain: dict[str, Estimator] = {"oracle": Oracle(), "user": User(), "history": History()}
    if spec in plain:
        return plain[spec]
    raise InputError(f"no estimator {spec!r}; there are: {', '.join(NAMES)}")


def _sigma(text: str) -> float:
    try:
        sigma = float(text)
    except ValueError:
        sigma = -1.0
    if not 0.0 <= sigma < 100.0:
        raise InputError(f"noisy:{text}: sigma should be a number from 0 to 100")
    return sigma
