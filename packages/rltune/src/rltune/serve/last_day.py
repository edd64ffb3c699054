"""The last day by the cluster's clock: how many jobs waited and ran, and how many GPUs were in use."""

from __future__ import annotations

import numpy as np

from rltune.live.journal.store import Journal
from rltune.metrics.timeline import averaged
from rltune.serve.line_chart import MOST_POINTS, LineChart, Point, line_chart
from rltune.serve.sight import Sight

_SPAN_S = 86_400.0
_WAITING, _RUNNING, _USED = 1, 0, 0  # colours


def queue_chart(journal: Journal) -> LineChart | None:
    """Draw how many jobs waited and ran; None if there are fewer than two cycles."""
    rows = journal.rows(
        "SELECT taken_s, waiting, running FROM cycle WHERE taken_s > (SELECT max(taken_s) FROM cycle) - ? ORDER BY id",
        _SPAN_S,
    )
    waiting, running = ([(row[0], float(row[at])) for row in rows] for at in (1, 2))
    return line_chart([("waiting", _WAITING, waiting), ("running", _RUNNING, running)])


def use_chart(journal: Journal, sight: Sight) -> LineChart | None:
    """Draw the share of today's GPUs that jobs held, from the jobs that have ended and those that run."""
    total = sum(count.total for count in sight.gpus_by_type.values())
    now = sight.taken_s
    first = journal.rows("SELECT min(taken_s) FROM cycle")[0][0]
    begin = max(first, now - _SPAN_S)  # who ended before the first look was never seen
    if not total or begin >= now:
        return None
    held = journal.rows("SELECT start_s, end_s, gpus FROM ended WHERE end_s > ? AND gpus > 0", begin)
    held += [(job.start_s, now, job.gpus) for job in sight.snapshot.jobs if job.on_nodes and job.gpus]
    return line_chart([("in use", _USED, _shares(held, begin, now, total))], top=1.0)


def _shares(held: list[tuple[float, float, int]], begin_s: float, end_s: float, total: int) -> list[Point]:
    """Return the mean share in use in each of equal intervals."""
    edges = np.linspace(begin_s, end_s, MOST_POINTS // 2 + 1)
    starts, ends, gpus = np.array(held or [(begin_s, end_s, 0)], dtype=np.float64).T
    times = np.concatenate([starts, ends])
    order = np.argsort(times, kind="stable")
    used = np.cumsum(np.concatenate([gpus, -gpus])[order])
    shares = averaged(times[order], used, edges) / total
    return list(zip(((edges[:-1] + edges[1:]) / 2).tolist(), shares.tolist(), strict=True))
