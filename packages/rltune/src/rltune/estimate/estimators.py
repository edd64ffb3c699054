"""What is known of a run time. Policies, backfilling and placement see estimates; the truth stays with the engine."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError, told
from rltune.jobs import Floats, Jobs
from rltune.kernel.build.job_shapes import distinct_rows
from rltune.kernel.build.prepare import Likeness
from rltune.kernel.state.online_means import learn_all
from rltune.labels import LABEL_COLUMNS, Labels

Levels = tuple[tuple[str, ...], ...]  # columns that two jobs must share to be alike, coarse to fine
LEVELS: Levels = (
    (),
    ("gpus",),
    ("gpus", "vc"),
    ("gpus", "vc", "limit_s"),
    ("gpus", "vc", "limit_s", "user"),
    ("gpus", "vc", "user", "name"),
)
_SURE = 1e9  # jobs' worth of trust in a prediction made elsewhere, against what nothing is known of


@dataclass(frozen=True)
class RunSeen:
    """What a run shows at a moment, by number of job: what has happened since the last look, and who is concerned."""

    now_s: float
    started: NDArray[np.int64]  # since the last look
    started_s: Floats
    ended: NDArray[np.int64]  # since the last look
    ended_s: Floats
    ended_run_s: Floats  # how long they ran, at speed 1
    coming: NDArray[np.int64]  # who is submitted before the next look
    waiting: NDArray[np.int64]
    running: NDArray[np.int64]
    attained_s: Floats  # how long those have run, at speed 1


@dataclass(frozen=True)
class Believed:
    """What is believed at a moment of the whole run time of jobs, by number of job."""

    coming: NDArray[np.int64]
    coming_s: Floats
    waiting: NDArray[np.int64]
    waiting_s: Floats
    running: NDArray[np.int64]
    running_s: Floats


class Onlooks(Protocol):
    """Looks at one run."""

    every: int  # submissions between two looks

    def look(self, look: RunSeen) -> Believed:
        """Take in what has happened, and say what is believed now."""
        ...


class LooksAgain(Protocol):
    """Begins to look at runs, each time from the same knowledge."""

    def begin(self) -> Onlooks:
        """Return one who has seen nothing of the run yet."""
        ...

    def in_order(self, order: NDArray[np.intp]) -> LooksAgain:
        """Return the same for jobs in another order; a number past the last is a stranger."""
        ...


@dataclass(frozen=True)
class Estimates:
    """One estimate a job.

    With `likeness` they are made online, when a job is submitted, from what has ended. With `looks` they are made
    again every few submissions. With `rank_s` jobs are ordered by that, and `values_s` is for reservations alone.
    """

    values_s: Floats
    likeness: Likeness | None = None
    looks: LooksAgain | None = None
    rank_s: Floats | None = None


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


def estimated(estimator: Estimator, jobs: Jobs, seed: int) -> Estimates:
    """Ask an estimator, and take nothing from it but one number of seconds a job."""
    try:
        made: object = estimator.estimate(jobs, seed)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever it raises, its author wrote it
        raise InputError(f"estimator {estimator.name} failed: {told(error)}") from error
    if isinstance(made, Estimates):
        rank_s = None if made.rank_s is None else _checked(made.rank_s, len(jobs), estimator.name)
        return replace(made, values_s=_checked(made.values_s, len(jobs), estimator.name), rank_s=rank_s)
    return Estimates(_checked(made, len(jobs), estimator.name))


def _checked(values: Any, n: int, name: str) -> Floats:
    try:
        values_s = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"estimator {name}: its estimates are not one number of seconds a job") from None
    if values_s.shape != (n,):
        count = len(values_s) if values_s.ndim == 1 else f"{values_s.ndim} dimensions of"
        raise InputError(f"estimator {name}: {count} estimates are given for {n} jobs")
    if not (np.isfinite(values_s).all() and (values_s >= 0).all()):
        raise InputError(f"estimator {name}: an estimate is negative or not a finite number of seconds")
    return values_s


@dataclass(frozen=True)
class Oracle:
    """The true run time: what no scheduler has."""

    name: str = "oracle"

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:  # noqa: ARG002
        """Return the true run times."""
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
    """The mean run time of ended jobs like it: same size, VC, limit, user, name, each blended with the one before."""

    trust: float = 16.0  # how many jobs a likeness needs to count as much as the coarser one before it
    before: Jobs | None = field(default=None, repr=False, compare=False)  # earlier history; what ended is known at once
    name: str = "history"

    def __post_init__(self) -> None:
        if not 0 < self.trust < np.inf:
            raise InputError(f"history: trust should be a number above 0, not {self.trust}")

    def after(self, before: Jobs) -> History:
        """Start warm: from the jobs of an earlier part of the trace that had ended when the run begins."""
        return replace(self, before=before, name="history-warm")

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:  # noqa: ARG002
        """Leave the estimates to the run, which knows what has ended."""
        return Estimates(np.zeros(len(jobs)), likeness(jobs, LEVELS, trust=self.trust, before=self.before))


@dataclass(frozen=True)
class Given:
    """Estimates that were made elsewhere, in the order of the jobs given."""

    values_s: Floats
    name: str = "given"

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:  # noqa: ARG002
        """Take them as they are."""
        return Estimates(_checked(self.values_s, len(jobs), self.name))

    def in_order(self, jobs: Jobs, order: NDArray[np.intp]) -> Given:
        """Return the estimates of the same jobs in another order; they are checked first."""
        return Given(self.estimate(jobs, 0).values_s[order], self.name)


def likeness(
    jobs: Jobs,
    levels: Levels,
    *,
    trust: float,
    decay: float = 1.0,
    before: Jobs | None = None,
    own: Floats | None = None,
) -> Likeness:
    """Return which jobs of a run are alike, and what was known of such jobs before it.

    A job without the last label of a level (no user, say) has no likeness there. With `own`, every job's first
    likeness is its own and knows that run time: a prediction made elsewhere, for the others to correct.
    """
    earlier = None if before is None or not len(jobs) else ended_by(before, float(jobs.submit_s[0]))
    keys, used = likeness_keys(earlier, jobs, levels)
    known = np.zeros((used, 2))
    if earlier is not None:
        learn_all(keys[: len(earlier)], earlier.duration_s, decay, known)
        keys = keys[len(earlier) :]
    if own is not None:
        keys = np.column_stack([np.arange(used, used + len(jobs), dtype=np.int32), keys])
        known = np.concatenate([known, np.stack([np.full(len(jobs), _SURE), _SURE * own], axis=1)])
    return Likeness(np.ascontiguousarray(keys), len(known), trust, decay, known)


def ended_by(before: Jobs, time_s: float) -> Jobs:
    """Keep the jobs that had ended by then, in order of their ends.

    Where the trace does not tell when a job started, it is taken to have started at once.
    """
    start = np.where(np.isnan(before.recorded_start_s), before.submit_s, before.recorded_start_s)
    end = start + before.duration_s
    rows = np.flatnonzero(end <= time_s)
    return before.take(rows[np.argsort(end[rows], kind="stable")])


def likeness_keys(earlier: Jobs | None, jobs: Jobs, levels: Levels) -> tuple[NDArray[np.int32], int]:
    """Assign numbers to the combinations of each level over both tables; -1 where a label is missing."""
    joined = {column: _integers(together(earlier, jobs, column)) for column in {c for level in levels for c in level}}
    n = len(jobs) if earlier is None else len(earlier) + len(jobs)
    keys = np.empty((n, len(levels)), dtype=np.int32)
    used = 0
    for i, level in enumerate(levels):
        code, rows = distinct_rows([joined[column] for column in level] or [np.zeros(n)])
        keys[:, i] = np.where(joined[level[-1]] < 0, -1, code + used) if level else code + used
        used += len(rows)
    return keys, max(used, 1)


def _integers(column: NDArray[Any]) -> NDArray[Any]:
    """Let -1 stand for "not told", as it does for labels."""
    return column if column.dtype.kind == "i" else np.nan_to_num(column, nan=-1)


def together(earlier: Jobs | None, jobs: Jobs, column: str) -> NDArray[Any]:
    """Join a column of both tables, if there is an earlier one; labels get the codes that they have in the later."""
    then = getattr(jobs, column)
    if earlier is None:
        return then.codes if isinstance(then, Labels) else np.asarray(then)
    first = getattr(earlier, column)
    if not isinstance(then, Labels):
        return np.concatenate([first, then])
    if first.names is then.names:
        return np.concatenate([first.codes, then.codes])
    number = {name: code for code, name in enumerate(then.names)}
    table = [number.setdefault(name, len(number)) for name in first.names]
    return np.concatenate([np.array([*table, -1], dtype=np.int32)[first.codes], then.codes])


def join_jobs(first: Jobs, then: Jobs) -> Jobs:
    """Put two tables one behind the other; labels get common codes, and dependencies are left out."""
    parts: dict[str, Any] = {}
    n = len(first) + len(then)
    for column in fields(then):
        a, b = getattr(first, column.name), getattr(then, column.name)
        if isinstance(b, Labels):
            parts[column.name] = _join_labels(a, b)
        elif column.name == "array":
            apart = 0 if _of_one_trace(first, then) else int(a.max(initial=-1)) + 1
            parts[column.name] = np.concatenate([a, np.where(b >= 0, b + apart, -1)]).astype(a.dtype)
        elif column.name not in {"id", "after", "after_ptr"}:
            parts[column.name] = np.concatenate([a, b])
    no_one: dict[str, Any] = {"after": np.zeros(0, dtype=np.int32), "after_ptr": np.zeros(n + 1, dtype=np.int64)}
    return Jobs(id=np.arange(n), **no_one, **parts)


def _of_one_trace(first: Jobs, then: Jobs) -> bool:
    return all(getattr(first, name).names is getattr(then, name).names for name in LABEL_COLUMNS)


def _join_labels(first: Labels, then: Labels) -> Labels:
    if first.names is then.names:
        return Labels(np.concatenate([first.codes, then.codes]), first.names)
    number = {name: code for code, name in enumerate(then.names)}
    table = [number.setdefault(name, len(number)) for name in first.names]
    codes = np.concatenate([np.array([*table, -1], dtype=np.int32)[first.codes], then.codes])
    return Labels(codes, tuple(number))
