"""What a policy written in Python is shown of the queue, and what is taken from it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError
from rltune.jobs import Floats, Jobs
from rltune.kernel.state import arrays as core
from rltune.labels import Labels
from rltune.policy.base import QueueView, Scored


def queue_view(jobs: Jobs, world: core.World, state: core.State, rows: NDArray[np.int64]) -> QueueView:
    """Show a policy the waiting jobs: copies of what it may know, so that nothing leads back to the table."""
    return QueueView(
        now_s=float(state.now[0]),
        submit_s=jobs.submit_s[rows],
        estimate_s=state.life.estimate[rows],
        limit_s=jobs.limit_s[rows],
        gpus=jobs.gpus[rows],
        nodes=jobs.nodes[rows],
        cpus=jobs.cpus[rows],
        mem_gib=jobs.mem_gib[rows],
        vc=_names(jobs.vc, rows),
        user=_names(jobs.user, rows),
        account=_names(jobs.account, rows),
        qos=_names(jobs.qos, rows),
        name=_names(jobs.name, rows),
        node_free_gpus=state.node.gpu.copy(),
        node_gpus=world.group.gpus[state.node.group],
    )


def scores_of(policy: Scored, view: QueueView) -> Floats:
    """Ask a user's function, and take nothing from it but one number a job."""
    count = len(view)
    try:
        scores = np.array(policy.score(view), dtype=np.float64)
    except (Exception, SystemExit) as error:  # whatever it raises, the user wrote it
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"policy {policy.name} failed at {view.now_s:g} s, {count} jobs waiting: {what}") from error
    if scores.shape != (count,):
        raise InputError(f"policy {policy.name} gave scores of shape {scores.shape} for {count} jobs, not ({count},)")
    if np.isnan(scores).any():
        raise InputError(f"policy {policy.name} gave NaN as the score of {int(np.isnan(scores).sum())} of {count} jobs")
    return scores


def _names(labels: Labels, rows: NDArray[np.int64]) -> list[str | None]:
    """Spell some rows out, in time that depends on them alone."""
    return [labels.names[code] if code >= 0 else None for code in labels.codes[rows].tolist()]
