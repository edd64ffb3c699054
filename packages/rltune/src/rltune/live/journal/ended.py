"""Jobs that have ended, as the controller saw them: history where Slurm keeps none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rltune.jobs import Jobs
from rltune.live.see.snapshot import LiveJob

STATES = {"COMPLETED": "completed", "TIMEOUT": "timeout", "CANCELLED": "killed", "PREEMPTED": "killed"}
COLUMNS = (
    "job", "submit_s", "eligible_s", "start_s", "end_s", "limit_s", "gpus", "nodes", "cpus", "mem_gib", "priority",
    "acted", "partition", "user", "account", "qos", "name", "gpu_types", "state",
)  # fmt: skip
_SAME = ("submit_s", "start_s", "end_s", "gpus", "nodes", "user", "account", "qos", "name")
_MAY_LACK = ("eligible_s", "limit_s", "cpus", "mem_gib")
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that ran and ended."""

    job: LiveJob
    priority: int = 0  # Slurm's own, when last seen waiting
    acted: bool = False

    @classmethod
    def of_row(cls, row: Row) -> Ended:
        """Take it from a row of the journal."""
        value = dict(zip(COLUMNS, row, strict=True))
        given: dict[str, Any] = {name: value[name] for name in _SAME}
        given |= {name: _number(value[name]) for name in _MAY_LACK}
        job = LiveJob(
            id=value["job"],
            state=next((slurm for slurm, ours in STATES.items() if ours == value["state"]), "FAILED"),
            partitions=tuple(value["partition"].split(",")),
            gpu_types=tuple(filter(None, value["gpu_types"].split("|"))),
            **given,
        )
        return cls(job, value["priority"], bool(value["acted"]))

    def row(self) -> Row:
        """Return it as a row of the journal."""
        job = self.job
        return (
            job.id, job.submit_s, _null(job.eligible_s), job.start_s, job.end_s, _null(job.limit_s), job.gpus,
            len(job.node_names) or job.nodes, _null(job.cpus), _null(job.mem_gib), self.priority,
            int(self.acted), ",".join(job.partitions), job.user, job.account, job.qos, job.name,
            "|".join(job.gpu_types), STATES.get(job.state, "failed"),
        )  # fmt: skip


def ran(job: LiveJob) -> bool:
    """Return whether a job is one to learn from: it ran, and has ended."""
    return job.ended and job.end_s > job.start_s


def table(rows: Sequence[Row], served_s: Sequence[float] = ()) -> Jobs:
    """Return rows of the journal as a table of jobs, in order of submit time; `served_s` ran in earlier spells."""
    column = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(COLUMNS, ())
    start, end = _floats(column["start_s"]), _floats(column["end_s"])
    gpus = np.array(column["gpus"], dtype=np.int64)
    nodes = np.array(column["nodes"], dtype=np.int64)
    return Jobs.from_arrays(
        id=_unique(column["job"]),
        submit_s=_floats(column["submit_s"]),
        duration_s=end - start + (_floats(served_s) if len(served_s) else 0.0),
        recorded_start_s=start,
        gpus=gpus,
        nodes=np.where(gpus > 0, np.minimum(nodes, gpus), nodes),
        limit_s=_floats(column["limit_s"]),
        cpus=_floats(column["cpus"]),
        mem_gib=_floats(column["mem_gib"]),
        vc=column["partition"],
        user=column["user"],
        account=column["account"],
        qos=column["qos"],
        name=column["name"],
        gpu_types=[types or None for types in column["gpu_types"]],
        state=column["state"],
    ).sorted()


def _floats(values: Sequence[float | None]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([_number(value) for value in values], dtype=np.float64)


def _unique(ids: Sequence[int]) -> list[str]:
    """Return names that differ for the runs of a requeued job."""
    seen: dict[int, int] = {}
    names = []
    for job in ids:
        seen[job] = seen.get(job, 0) + 1
        names.append(str(job) if seen[job] == 1 else f"{job}.{seen[job]}")
    return names


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _null(value: float) -> float | None:
    return None if math.isnan(value) else value
