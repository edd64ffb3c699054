"""The job table: one array a column, validated once, never changed.

`duration_s` is the truth and belongs to the engine. What a policy, a backfilling rule or a placer may see is the
estimate that an estimator makes of it (see `rltune.estimate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rltune.errors import InputError, shown
from rltune.hostlist import expand
from rltune.labels import LABEL_COLUMNS, Labels
from rltune.preemptibility import NO_CHECKPOINT_S, NO_RESTART_S, assumed
from rltune.text import counted, html_facts, number, seconds

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Mask = NDArray[np.bool_]

TYPE_SEPARATOR = "|"


@dataclass(frozen=True)
class Jobs:
    """A workload: what was submitted, what it asked, and how long it really ran."""

    id: NDArray[Any]  # as in the source; unique
    submit_s: Floats
    duration_s: Floats  # the truth: for the engine only
    gpus: Ints
    nodes: Ints  # 0 = the scheduler's choice
    gpus_per_node: Ints  # 0 = the scheduler's choice
    cpus: Floats  # in all; NaN = by GPU share
    mem_gib: Floats  # in all; NaN = by GPU share
    limit_s: Floats  # what the user asked for; NaN = nothing
    vc: Labels
    user: Labels
    account: Labels
    qos: Labels
    name: Labels
    gpu_types: Labels  # acceptable types joined by "|"; none = any
    state: Labels  # how it ended in the source: completed, failed, killed, timeout
    recorded_start_s: Floats  # when the source says it started; NaN = not told
    recorded_eligible_s: Floats  # when the source says it could first have started; NaN = not told
    held_s: Floats  # how long before `submit_s` it was submitted: see `from_when_ready`; 0 = it is the submit
    recorded_nodes: Labels  # where the source says it ran, in Slurm's short form (gpu[01-04],big1); none = not told
    array: Ints  # tasks of one array share a number; -1 = no array
    array_limit: Ints  # how many of the array may run at once; 0 = any number
    preemptible: Mask  # may be displaced while it runs
    checkpoint_s: Floats  # of work between two checkpoints: 0 = nothing is ever lost, infinite = all
    restart_s: Floats  # for which it holds its GPUs without progress before it goes on
    after_ptr: NDArray[np.int64]  # job i depends on after[after_ptr[i]:after_ptr[i + 1]] (rows of this table)
    after: Ints

    @classmethod
    def from_arrays(
        cls,
        submit_s: ArrayLike,
        duration_s: ArrayLike,
        gpus: ArrayLike,
        limit_s: ArrayLike | None = None,
        vc: Iterable[object] | None = None,
        user: Iterable[object] | None = None,
        gpu_types: Iterable[object] | None = None,
        cpus_per_gpu: ArrayLike | None = None,
        mem_gib_per_gpu: ArrayLike | None = None,
        nodes: ArrayLike | None = None,
        *,
        id: Sequence[object] | NDArray[Any] | None = None,  # noqa: A002  the column's name
        gpus_per_node: ArrayLike | None = None,
        cpus: ArrayLike | None = None,
        mem_gib: ArrayLike | None = None,
        account: Iterable[object] | None = None,
        qos: Iterable[object] | None = None,
        name: Iterable[object] | None = None,
        state: Iterable[object] | None = None,
        recorded_start_s: ArrayLike | None = None,
        recorded_eligible_s: ArrayLike | None = None,
        held_s: ArrayLike | None = None,
        recorded_nodes: Iterable[object] | None = None,
        array: ArrayLike | None = None,
        array_limit: ArrayLike | None = None,
        preemptible: ArrayLike | None = None,
        checkpoint_s: ArrayLike | None = None,
        restart_s: ArrayLike | None = None,
        after: Sequence[Sequence[int]] | None = None,
    ) -> Jobs:
        """Make a table from columns of equal length; a scalar stands for a column.

        CPUs and memory are given per GPU or in all (`cpus`, `mem_gib`, the only way for jobs without GPUs).
        `gpu_types` holds per job a type, several joined by "|", a list of them, or None for any. `recorded_nodes` holds
        per job a list of nodes in Slurm's short form, a list of names, or None. `after` lists per job the rows it
        depends on. Nobody is preemptible unless `preemptible` says so; who is, and of whom no more is said, writes a
        checkpoint every 10 minutes of work and needs 2 minutes to restart.
        """
        submit = _floats("submit_s", submit_s, None)
        n = len(submit)
        gpu_column = _ints("gpus", gpus, n, missing=None)
        willing = _flags("preemptible", preemptible, n)
        after_ptr, after_rows = _dependencies(after, n)
        jobs = cls(
            id=_ids(id, n),
            submit_s=submit,
            duration_s=_floats("duration_s", duration_s, n),
            gpus=gpu_column,
            nodes=_ints("nodes", nodes, n),
            gpus_per_node=_ints("gpus_per_node", gpus_per_node, n),
            cpus=_total("cpus", cpus, cpus_per_gpu, gpu_column),
            mem_gib=_total("mem_gib", mem_gib, mem_gib_per_gpu, gpu_column),
            limit_s=_floats("limit_s", limit_s, n),
            vc=Labels.of(vc, n),
            user=Labels.of(user, n),
            account=Labels.of(account, n),
            qos=Labels.of(qos, n),
            name=Labels.of(name, n),
            gpu_types=Labels.of(None if gpu_types is None else map(_type_set, gpu_types), n),
            state=Labels.of(state, n),
            recorded_start_s=_floats("recorded_start_s", recorded_start_s, n),
            recorded_eligible_s=_floats("recorded_eligible_s", recorded_eligible_s, n),
            held_s=np.nan_to_num(_floats("held_s", held_s, n), posinf=np.inf),
            recorded_nodes=Labels.of(None if recorded_nodes is None else _node_lists(recorded_nodes), n),
            array=_ints("array", array, n, missing=-1),
            array_limit=_ints("array_limit", array_limit, n),
            preemptible=willing,
            checkpoint_s=_or_assumed("checkpoint_s", checkpoint_s, willing),
            restart_s=_or_assumed("restart_s", restart_s, willing),
            after_ptr=after_ptr,
            after=after_rows,
        )
        jobs.check()
        return jobs

    def __len__(self) -> int:
        return len(self.submit_s)

    def check(self) -> None:
        """Raise InputError, naming column and row, unless every value is one that the engine can work with."""
        n = len(self)
        for field in fields(self):
            size = len(getattr(self, field.name))
            if field.name not in {"after", "after_ptr"} and size != n:
                raise InputError(f"column {field.name} has {size} rows, submit_s has {n}")
        _require("submit_s", self.submit_s, np.isfinite(self.submit_s), "a finite time in seconds")
        _require("duration_s", self.duration_s, np.isfinite(self.duration_s) & (self.duration_s >= 0), "0 s or more")
        _require("gpus", self.gpus, self.gpus >= 0, "0 or more")
        _require("nodes", self.nodes, self.nodes >= 0, "0 (any number) or more")
        _require("nodes", self.nodes, (self.nodes <= self.gpus) | (self.gpus == 0), "at most the job's GPUs")
        _require("gpus_per_node", self.gpus_per_node, self.gpus_per_node >= 0, "0 (any number) or more")
        for column in ("cpus", "mem_gib"):
            values = getattr(self, column)
            _require(column, values, np.isnan(values) | ((values >= 0) & np.isfinite(values)), "0 or more")
        finite = np.isnan(self.limit_s) | ((self.limit_s >= 0) & np.isfinite(self.limit_s))
        _require("limit_s", self.limit_s, finite, "0 s or more, or left out")
        for column in ("recorded_start_s", "recorded_eligible_s"):
            values = getattr(self, column)
            _require(column, values, ~np.isinf(values), "a finite time in seconds, or left out")
        _require("held_s", self.held_s, (self.held_s >= 0) & np.isfinite(self.held_s), "0 s or more")
        _require("array", self.array, self.array >= -1, "-1 (no array) or more")
        _require("array_limit", self.array_limit, self.array_limit >= 0, "0 (any number) or more")
        _require("checkpoint_s", self.checkpoint_s, self.checkpoint_s >= 0, "0 s or more, or infinite (all is lost)")
        lasts = (self.restart_s >= 0) & np.isfinite(self.restart_s)
        _require("restart_s", self.restart_s, lasts, "0 s or more, and finite")
        unique, first, count = np.unique(self.id, return_index=True, return_counts=True)
        if len(unique) != n:
            twice = int(np.argmax(count > 1))
            raise InputError(
                f"job id {shown(unique[twice])} is used {count[twice]} times (first in row {first[twice]})"
            )
        if len(self.after) and not (self.after.min() >= 0 and self.after.max() < n):
            raise InputError("a job depends on a row that does not exist")

    def take(self, index: NDArray[np.intp]) -> Jobs:
        """Keep the rows of index, in that order; dependencies on rows left out count as ended."""
        index = np.asarray(index, dtype=np.intp)
        parts: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Labels):
                parts[field.name] = value.take(index)
            elif field.name not in {"after", "after_ptr"}:
                parts[field.name] = value[index]
        parts["after_ptr"], parts["after"] = self._dependencies_of(index)
        return Jobs(**parts)

    def window(self, first: int, count: int) -> Jobs:
        """Keep `count` jobs from row `first` on."""
        return self.take(np.arange(first, min(first + count, len(self)), dtype=np.intp))

    def sorted(self) -> Jobs:
        """Order the rows by submit time; ties keep their order."""
        return self.take(np.argsort(self.submit_s, kind="stable"))

    def followed_by(self, other: Jobs, *, ids: NDArray[Any] | None = None) -> Jobs:
        """Return both tables as one; `ids` are those of the whole, numbers if not given."""
        parts: dict[str, Any] = {"id": np.arange(len(self) + len(other)) if ids is None else ids}
        for field in fields(self):
            ours, theirs = getattr(self, field.name), getattr(other, field.name)
            if isinstance(ours, Labels):
                parts[field.name] = ours.followed_by(theirs)
            elif field.name not in {"id", "after", "after_ptr"}:
                parts[field.name] = np.concatenate([ours, theirs])
        parts["after"] = np.concatenate([self.after, other.after + len(self)]).astype(np.int32)
        parts["after_ptr"] = np.concatenate([self.after_ptr, self.after_ptr[-1] + other.after_ptr[1:]])
        return Jobs(**parts)

    def with_columns(self, **columns: Any) -> Jobs:
        """Replace whole columns, and check the result."""
        jobs = replace(self, **columns)
        jobs.check()
        return jobs

    @property
    def tells_preemption(self) -> bool:
        """Return whether anything is said of who may be displaced, and at what cost."""
        unsaid = (self.checkpoint_s == NO_CHECKPOINT_S) & (self.restart_s == NO_RESTART_S)
        return bool((self.preemptible | ~unsaid).any())

    @property
    def ready_s(self) -> Floats:
        """Return from when each job could start: its submit, or later where the source says that something held it.

        What the core holds by itself, for a dependency or an array's limit, is waiting: it may end sooner or later.
        """
        by_the_core = (np.diff(self.after_ptr) > 0) | ((self.array >= 0) & (self.array_limit > 0))
        held_until = np.where(by_the_core | np.isnan(self.recorded_eligible_s), -np.inf, self.recorded_eligible_s)
        started = np.fmax(self.recorded_start_s, self.submit_s)
        return np.where(np.isnan(self.recorded_start_s), self.submit_s, np.clip(held_until, self.submit_s, started))

    def from_when_ready(self) -> Jobs:
        """Return the jobs as submitted when they could first start: no policy could have run them before.

        Applied again it changes nothing. `came_s` still tells when they were submitted.
        """
        ready = self.ready_s
        if np.array_equal(ready, self.submit_s):
            return self
        return replace(self, submit_s=ready, held_s=self.held_s + (ready - self.submit_s))

    @property
    def came_s(self) -> Floats:
        """Return when each job was submitted, also after `from_when_ready`."""
        return self.submit_s - self.held_s

    def depends_on(self, row: int) -> Ints:
        """List the rows that job `row` waits for."""
        return self.after[self.after_ptr[row] : self.after_ptr[row + 1]]

    @classmethod
    def from_polars(cls, frame: pl.DataFrame | pl.LazyFrame) -> Jobs:
        """Make a table from a polars frame with the columns of `to_polars()`, or some of them.

        `submit_s`, `duration_s` and `gpus` must be there; null means "not told". `cpus_per_gpu` and `mem_gib_per_gpu`
        may stand for `cpus` and `mem_gib`. Columns that jobs do not have are refused: drop or rename them.

            jobs = rltune.Jobs.from_polars(pl.read_csv("jobs.csv").rename({"runtime": "duration_s"}))
        """
        from rltune.job_frames import columns_of

        return cls.from_arrays(**columns_of(frame, tuple(signature(cls.from_arrays).parameters)))

    @classmethod
    def from_pandas(cls, frame: Any) -> Jobs:
        """Make a table from a pandas frame, with the columns that `from_polars` takes; the index is not used."""
        from rltune.job_frames import polars_of

        return cls.from_polars(polars_of(frame))

    def to_polars(self) -> pl.DataFrame:
        """Return the table as a data frame, names spelled out, `after` as lists; `from_polars` takes it back."""
        import polars as pl

        columns: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "held_s" and not value.any():
                continue  # a table of jobs as submitted has no such column
            if isinstance(value, Labels):
                columns[field.name] = pl.Series(value.to_list(), dtype=pl.String)
            elif field.name == "after":
                rows = [self.depends_on(i).tolist() for i in range(len(self))] if len(value) else [[]] * len(self)
                columns["after"] = pl.Series(rows, dtype=pl.List(pl.Int32))
            elif field.name != "after_ptr":
                columns[field.name] = pl.Series(value, nan_to_null=value.dtype.kind == "f")
        return pl.DataFrame(columns)

    def __repr__(self) -> str:
        return "\n".join([f"Jobs: {self._count()}", *(f"  {name}: {told}" for name, told in self._facts())])

    def _repr_html_(self) -> str:
        return html_facts(f"Jobs: {self._count()}", self._facts())

    def _count(self) -> str:
        over = f", submitted over {seconds(float(np.ptp(self.submit_s)))}" if len(self) else ""
        return counted(len(self), "job") + over

    def _facts(self) -> list[tuple[str, str]]:
        if not len(self):
            return []
        run = self.duration_s
        times = f"median {seconds(np.median(run))}, mean {seconds(run.mean())}, longest {seconds(run.max())}"
        gpus = f"{self.gpus.min():,} to {self.gpus.max():,} a job, mean {number(self.gpus.mean())}"
        return [("GPUs", gpus), ("run time", times), ("told as well", ", ".join(self._told()) or "nothing")]

    def _told(self) -> list[str]:
        """Name the columns in which something stands, with how many different names."""
        told = ("limit_s", "cpus", "mem_gib", "recorded_start_s", "recorded_eligible_s")
        floats = [name for name in told if _any_number(getattr(self, name))]
        counts = [name for name in ("nodes", "gpus_per_node", "array_limit") if getattr(self, name).any()]
        labels = {
            name: len(np.unique(codes[codes >= 0])) for name in LABEL_COLUMNS if len(codes := getattr(self, name).codes)
        }
        named = [f"{name} ({counted(n, 'name')})" for name, n in labels.items() if n]
        willing = [f"preemptible ({counted(int(self.preemptible.sum()), 'job')})"] if self.tells_preemption else []
        return [*floats, *counts, *named, *willing, *(["after"] if len(self.after) else [])]

    def _dependencies_of(self, index: NDArray[np.intp]) -> tuple[NDArray[np.int64], Ints]:
        if len(self.after) == 0:
            return np.zeros(len(index) + 1, dtype=np.int64), self.after
        new_row = np.full(len(self), -1, dtype=np.int32)
        new_row[index] = np.arange(len(index), dtype=np.int32)
        kept = [new_row[self.depends_on(int(i))] for i in index]
        return _dependencies([rows[rows >= 0].tolist() for rows in kept], len(index))


def _any_number(values: Floats) -> bool:
    return not np.isnan(values).all()


def _floats(column: str, values: ArrayLike | None, n: int | None) -> Floats:
    if values is None:
        return np.full(n or 0, np.nan)
    return np.ascontiguousarray(_broadcast(column, values, n), dtype=np.float64)


def _ints(column: str, values: ArrayLike | None, n: int, missing: int | None = 0) -> Ints:
    """Make a column of whole numbers; NaN is what is missing, and refused where nothing may be (`missing` None)."""
    if values is None:
        return np.full(n, missing, dtype=np.int32)
    given = np.asarray(_broadcast(column, values, n), dtype=np.float64)
    if missing is not None:
        given = np.where(np.isnan(given), missing, given)
    _require(column, given, (given == np.floor(given)) & (np.abs(given) < 2**31), "a whole number")
    return np.ascontiguousarray(given, dtype=np.int32)


def _flags(column: str, values: ArrayLike | None, n: int) -> Mask:
    """Make a column of yes and no; None is no."""
    if values is None:
        return np.zeros(n, dtype=np.bool_)
    given = _broadcast(column, values, n)
    _require(column, given, (given == 0) | (given == 1), "True or False")
    return np.ascontiguousarray(given, dtype=np.bool_)


def _or_assumed(column: str, values: ArrayLike | None, preemptible: Mask) -> Floats:
    return assumed(column, preemptible) if values is None else _floats(column, values, len(preemptible))


def _broadcast(column: str, values: ArrayLike, n: int | None) -> NDArray[Any]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"column {column} holds something that is not a number") from None
    if n is not None and array.ndim == 0:
        return np.full(n, array)
    if array.ndim != 1:
        raise InputError(f"column {column} has {array.ndim} dimensions, not one")
    return array


def _total(column: str, in_all: ArrayLike | None, per_gpu: ArrayLike | None, gpus: Ints) -> Floats:
    if in_all is not None and per_gpu is not None:
        raise InputError(f"give {column} in all or per GPU, not both")
    if per_gpu is None:
        return _floats(column, in_all, len(gpus))
    each = _floats(f"{column}_per_gpu", per_gpu, len(gpus))
    return np.where(gpus > 0, each * gpus, np.nan) if len(each) == len(gpus) else each


def _ids(ids: Sequence[object] | NDArray[Any] | None, n: int) -> NDArray[Any]:
    if ids is None:
        return np.arange(n)
    array = np.asarray(ids)
    return array if array.dtype.kind in "iu" else array.astype(np.str_)


def _type_set(value: object) -> str | None:
    if value is None or value != value:  # noqa: PLR0124  NaN alone differs from itself
        return None
    names = value.split(TYPE_SEPARATOR) if isinstance(value, str) else [str(v) for v in value]  # type: ignore[attr-defined]
    return TYPE_SEPARATOR.join(sorted({name.strip() for name in names if name.strip()})) or None


def _node_lists(values: Iterable[object]) -> Iterator[str | None]:
    """Return lists of nodes as text, each looked at once."""
    known: set[str] = set()
    for row, value in enumerate(values):
        if value is None or value != value or value == "":  # noqa: PLR0124  NaN alone differs from itself
            yield None
            continue
        text = value if isinstance(value, str) else ",".join(map(str, value))  # type: ignore[call-overload]
        if text not in known:
            try:
                expand(text)
            except ValueError:
                wanted = "a list of nodes such as gpu[01-04],big1"
                raise InputError(f"column recorded_nodes, row {row}: {shown(text)} should be {wanted}") from None
            known.add(text)
        yield text


def _dependencies(after: Sequence[Sequence[int]] | None, n: int) -> tuple[NDArray[np.int64], Ints]:
    if after is None:
        return np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    if len(after) != n:
        raise InputError(f"column after has {len(after)} rows, submit_s has {n}")
    ptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum([len(rows) for rows in after], out=ptr[1:])
    for row, rows in enumerate(after):
        if any(not 0 <= i < n or i != int(i) for i in rows):
            raise InputError(f"column after, row {row}: [{', '.join(map(shown, rows))}] should be rows of this table")
    return ptr, np.array([row for rows in after for row in rows], dtype=np.int32)


def _require(column: str, values: NDArray[Any], good: NDArray[np.bool_], wanted: str) -> None:
    if len(values) and not good.all():
        row = int(np.argmin(good))
        raise InputError(f"column {column}, row {row}: {shown(values[row])} should be {wanted}")
