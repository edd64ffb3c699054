"""Can these jobs run on that cluster? The first that cannot is named with its place in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rltune.errors import TOLERATED, TooManyRefusedError
from rltune.jobs import TYPE_SEPARATOR
from rltune.trace.trace_file import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rltune.cluster import Cluster, NodeGroup
    from rltune.jobs import Jobs
    from rltune.trace.read_result import Trace

_SHOWN = 5  # jobs of a cycle that a message names


def require_fit(trace: Trace, cluster: Cluster) -> None:
    """Raise InputError, naming file, line and column, if some job asks more than the empty cluster has for it.

    It is a TooManyRefusedError if so many do that simulations of the rest are refused as well.
    Jobs are judged by what they may use in all. The engine alone decides how chunks land on nodes; it rejects, with
    a reason, what passes here and still does not fit.
    """
    jobs = trace.jobs
    rows = np.arange(len(jobs))
    asked = np.stack([jobs.vc.codes, jobs.gpu_types.codes, jobs.gpus], axis=1)
    _kinds, first, kind = np.unique(asked, axis=0, return_index=True, return_inverse=True)
    problems = [_problem(trace, cluster, int(row)) for row in first]
    bad = np.array([p is not None for p in problems])[kind.ravel()]
    if bad.any():
        row = int(rows[bad][0])
        found = problems[int(kind.ravel()[row])]
        assert found is not None
        column, problem = found
        more = f" (and {bad.sum() - 1:,} more of {len(jobs):,} jobs do not fit)" if bad.sum() > 1 else ""
        source = Source(trace.quality.path, b"")
        wrong = source.error(f"job {jobs.id[row]} {problem}{more}", int(trace.lines[row]), column)
        raise TooManyRefusedError(str(wrong)) if bad.sum() > TOLERATED * len(jobs) else wrong


def require_no_cycle(trace: Trace) -> None:
    """Raise InputError, naming file, line and column, if some job waits for itself by way of others."""
    cycle = _cycle(trace.jobs)
    if cycle:
        ids = [str(trace.jobs.id[row]) for row in cycle]
        way = " waits for ".join([*ids[:_SHOWN], *(["..."] if len(ids) > _SHOWN else []), ids[0]])
        source = Source(trace.quality.path, b"")
        raise source.error(f"a cycle of dependencies: job {way}", int(trace.lines[cycle[0]]), "after")


def _cycle(jobs: Jobs) -> list[int]:
    """Return the rows of some cycle, each waiting for the next; nothing if there is none."""
    waits_for = {row: jobs.depends_on(row).tolist() for row in np.flatnonzero(np.diff(jobs.after_ptr)).tolist()}
    done: set[int] = set()
    for first in waits_for:
        path: dict[int, Iterator[int]] = {}  # from here down to the job in hand, with what is left to look at of each
        row = first
        while row not in done:
            nexts = path.setdefault(row, iter(waits_for.get(row, ())))
            after = next(nexts, None)
            if after is None:
                done.add(path.popitem()[0])
                if not path:
                    break
                row = next(reversed(path))
            elif after in path:
                rows = list(path)
                return rows[rows.index(after) :]
            elif after not in done:
                row = after
    return []


def _problem(trace: Trace, cluster: Cluster, row: int) -> tuple[str, str] | None:
    """Return which column asks too much, and what; None if all is well."""
    jobs = trace.jobs
    vc, gpus = jobs.vc.name_of(row), int(jobs.gpus[row])
    types = [t for t in jobs.gpu_types.name_of(row).split(TYPE_SEPARATOR) if t]
    where = _name_of(cluster)
    in_vc = [g for g in cluster.groups if g.admits(vc)]
    if not in_vc:
        return "vc", f"is of VC {vc}, {where} has {', '.join(cluster.vcs)}"
    of_type = [g for g in in_vc if g.accepted(vc, types, with_gpus=False)]
    if gpus and not _gpus(of_type):
        return "gpu_types", f"wants GPUs of type {' or '.join(types) or 'any'}, {where} has {_types(in_vc)} for it"
    if gpus > _gpus(of_type):
        return "gpus", f"asks {gpus} GPUs, {where} has {_gpus(of_type)} that it may use"
    return None


def _name_of(cluster: Cluster) -> str:
    return f"cluster {cluster.name}" if cluster.name else "the cluster"


def _gpus(groups: list[NodeGroup]) -> int:
    return sum(g.count * g.gpus for g in groups)


def _types(groups: list[NodeGroup]) -> str:
    return ", ".join(dict.fromkeys(g.gpu_type or "untyped ones" for g in groups if g.gpus)) or "none"
