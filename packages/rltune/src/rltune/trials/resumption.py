"""Starting a run in the middle of a history: from the jobs that were running and waiting then, as recorded.

The core is not told. A job that was running arrives when it was recorded to start, into a cluster that holds only such
jobs. A job that was waiting keeps its submission, and so its age, but waits for a gate: a job of no resources that ends
at the moment from which policies decide. Where nodes go down, are closed or are of several speeds, the gate has a node
of its own, or it would open when they let it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.cluster import Cluster, NodeGroup
from rltune.jobs import Jobs
from rltune.labels import LABEL_COLUMNS, Labels
from rltune.schedule import Schedule, TurnsTaken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.jobs import Floats

RESOURCES = ("gpus", "nodes", "gpus_per_node", "cpus", "mem_gib")
GATE = "gate of a resumption"  # partition and type of its node
NEXT_TO_NOTHING = 1 / 1024  # of a CPU or GiB: so that no other job fits its node
MOSTLY = 0.9  # of the jobs must have a recorded start, or else too few would be running


@dataclass(frozen=True)
class Resumption:
    """The jobs that count from a moment on: those that ran, waited, or were yet to come."""

    rows: NDArray[np.int64]  # of the trace, in order of submit
    kept: Jobs  # of these rows, as recorded
    jobs: Jobs  # as they are run, in order of arrival
    order: NDArray[np.intp]  # of these in `kept`; the gate comes after the last of them
    first: int  # row of the trace: the first job that was submitted later

    def run_on(self, cluster: Cluster) -> Cluster:
        """Return a cluster with a node for the gate, if the gate needs one of its own."""
        if GATE not in self.jobs.vc.names:
            return cluster
        tiny = NodeGroup(
            count=1, gpus=0, gpu_type=GATE, cpus=NEXT_TO_NOTHING, mem_gib=NEXT_TO_NOTHING, vc=(GATE,), name=GATE
        )
        every = tuple(range(len(cluster.groups)))
        closed = tuple(window.model_copy(update={"groups": window.groups or every}) for window in cluster.maintenance)
        return replace(cluster, groups=(*cluster.groups, tiny), maintenance=closed)

    def told(self, schedule: Schedule, cluster: Cluster) -> Schedule:
        """Return the schedule of the jobs as recorded, without the gate and its node."""
        back = np.argsort(self.order, kind="stable")[: len(self.rows)]
        return replace(
            schedule,
            cluster=cluster,
            jobs=self.kept,
            start_s=schedule.start_s[back],
            end_s=schedule.end_s[back],
            estimate_s=schedule.estimate_s[back],
            rejected=schedule.rejected[back],
            reject_reason=schedule.reject_reason.take(back),
            requeues=schedule.requeues[back],
            placements=schedule.placements.take(back),
            turns=_turns_taken(schedule.turns, self.order, back),
        )


def has_starts(jobs: Jobs) -> bool:
    """Return whether starts are recorded of nearly all jobs."""
    return bool(np.isfinite(jobs.recorded_start_s).mean() >= MOSTLY) if len(jobs) else False


def gpus_running(jobs: Jobs, now_s: float) -> int:
    """Count the GPUs of the jobs that were recorded to run at a moment."""
    return int(jobs.gpus[_running(jobs, _starts(jobs), now_s)].sum())


def there_at(jobs: Jobs, now_s: float, end: int) -> NDArray[np.intp]:
    """Return the rows before row `end` whose jobs were recorded to run or wait at a moment."""
    start = _starts(jobs)
    return np.flatnonzero((_running(jobs, start, now_s) | _waiting(jobs, start, now_s))[:end])


def resume(jobs: Jobs, now_s: float, cluster: Cluster) -> Resumption:
    """Pose the jobs of a trace, in order of submit, so that a run on a cluster goes on from a moment."""
    start = _starts(jobs)
    running = _running(jobs, start, now_s)
    waiting = _waiting(jobs, start, now_s)
    rows = np.flatnonzero(running | waiting | (jobs.submit_s >= now_s))
    kept = jobs.take(rows)
    arrives = np.where(running[rows], start[rows], kept.submit_s)
    first = int(np.searchsorted(jobs.submit_s, now_s, side="left"))
    posed = _with_gate(kept, arrives, waiting[rows], now_s)
    if cluster.maintenance or cluster.outages or cluster.speed:
        apart = {name: getattr(posed, name).with_name(-1, GATE) for name in ("vc", "gpu_types")}
        posed = replace(posed, **apart)
    order = np.argsort(posed.submit_s, kind="stable")
    return Resumption(rows, kept, posed.take(order), order, first)


def _starts(jobs: Jobs) -> Floats:
    return np.maximum(jobs.recorded_start_s, jobs.submit_s)


def _running(jobs: Jobs, start: Floats, now_s: float) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (jobs.submit_s < now_s) & (start < now_s) & (start + jobs.duration_s > now_s)
    return inside


def _waiting(jobs: Jobs, start: Floats, now_s: float) -> NDArray[np.bool_]:
    held: NDArray[np.bool_] = (jobs.submit_s < now_s) & (start >= now_s)
    return held


def _with_gate(kept: Jobs, arrives: Floats, waiting: NDArray[np.bool_], now_s: float) -> Jobs:
    """Add the gate behind the jobs, and let those that waited depend on it."""
    n = len(kept)
    opened = float(min(arrives.min(initial=now_s), now_s))
    posed = kept.take(np.append(np.arange(n), 0))
    ptr = kept.after_ptr
    after = np.insert(kept.after, ptr[1:][waiting], n).astype(np.int32)
    held = ptr + np.concatenate([[0], np.cumsum(waiting)])
    nothing: dict[str, Any] = {name: _last(getattr(posed, name), 0) for name in RESOURCES}
    labels: dict[str, Any] = {name: _nameless(getattr(posed, name)) for name in LABEL_COLUMNS}
    return replace(
        posed,
        submit_s=np.append(arrives, opened),
        duration_s=np.append(kept.duration_s, now_s - opened),
        limit_s=np.append(kept.limit_s, now_s - opened),
        preemptible=_last(posed.preemptible, False),
        array=_last(posed.array, -1),
        array_limit=_last(posed.array_limit, 0),
        after_ptr=np.append(held, held[-1]),
        after=after,
        **nothing,
        **labels,
    )


def _turns_taken(turns: TurnsTaken | None, order: NDArray[np.intp], back: NDArray[np.intp]) -> TurnsTaken | None:
    """Keep the turns of all jobs but the gate, in the order of the trace."""
    if turns is None:
        return None
    spells = turns.cut_short.of_jobs(order < len(back), order)
    return TurnsTaken(turns.preemptions[back], turns.lost_s[back], turns.last_start_s[back], spells)


def _last(column: NDArray[Any], value: float) -> NDArray[Any]:
    changed = column.copy()
    changed[-1] = value
    return changed


def _nameless(labels: Labels) -> Labels:
    return replace(labels, codes=_last(labels.codes, -1))
