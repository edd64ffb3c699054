"""What a reader gives: the jobs, sorted by submit time, and the account of how they were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.errors import InputError
from rltune.jobs import Jobs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.trace.quality import Ledger, Quality


@dataclass(frozen=True)
class ToldMachine:
    """The machine that a history ran on, as the history itself tells it."""

    nodes: int
    processors: int


@dataclass(frozen=True)
class Trace:
    """A history that was read from a file."""

    jobs: Jobs
    quality: Quality
    lines: NDArray[np.int64] = field(repr=False)  # per job, where in the file it stands
    origin_s: float | None = None  # seconds since 1970 at submit_s = 0, on the trace's own clock; None = not told
    machine: ToldMachine | None = None


def build(
    ledger: Ledger,
    format_name: str,
    *,
    clock: bool = False,
    origin_s: float | None = None,
    machine: ToldMachine | None = None,
    **columns: Any,
) -> Trace:
    """Make the trace from whole columns, of which the living rows are taken.

    With `clock` the times are seconds since 1970; they are counted from the first submit kept. Times that are counted
    from another moment already have that for their `origin_s`, if the source tells it.
    """
    quality = ledger.close(format_name)
    if not quality.kept:
        gone = ", ".join(f"{f.rule} {f.count}" for f in quality.findings if f.action == "dropped")
        raise InputError(f"{quality.path}: none of {quality.rows} rows is a job that can be replayed ({gone})")
    index = np.flatnonzero(ledger.alive)
    kept = {name: _take(values, index) for name, values in columns.items() if values is not None}
    origin = float(kept["submit_s"].min()) if clock else origin_s
    if clock and origin is not None:
        kept["submit_s"] = kept["submit_s"] - origin
        for name in {"recorded_start_s", "recorded_eligible_s"} & kept.keys():
            kept[name] = kept[name] - origin
    try:
        jobs = Jobs.from_arrays(**kept)
    except InputError as error:
        raise InputError(f"{quality.path}: {error}") from None
    order = np.argsort(jobs.submit_s, kind="stable")
    return Trace(jobs.take(order), quality, ledger.lines[index][order], origin, machine)


def _take(values: Any, index: NDArray[np.intp]) -> Any:
    if isinstance(values, np.ndarray):
        return values[index]
    if isinstance(values, Sequence):
        return [values[i] for i in index.tolist()]
    return values


def whole_nodes(ledger: Ledger, nodes: NDArray[np.float64], gpus: NDArray[np.float64]) -> NDArray[np.float64]:
    """Keep a number of nodes only where it says more than the scheduler would choose itself."""
    too_many = (nodes > gpus) & (gpus > 0)
    ledger.mark("more-nodes-than-gpus", too_many)
    return np.where((nodes > 1) & ~too_many, nodes, 0.0)


def note_run_times(ledger: Ledger, duration_s: NDArray[np.float64], limit_s: NDArray[np.float64] | None = None) -> None:
    """Count what is odd about run times and harmless."""
    ledger.mark("zero-run-time", duration_s == 0)
    if limit_s is not None:
        ledger.mark("run-over-limit", duration_s > limit_s)
        ledger.mark("no-time-asked", np.isnan(limit_s))
