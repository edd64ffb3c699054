"""Who may be displaced once a cluster's rules are applied to its jobs, and how results say it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from rltune.cluster import Cluster, same_name
from rltune.errors import InputError, unknown
from rltune.jobs import Jobs, Mask
from rltune.labels import Labels
from rltune.preemptibility import Floats
from rltune.preemption_rules import SCOPES, PreemptionRule, costs, lots
from rltune.text import counted, percent, seconds

_WORDS = {"vc": "VC or partition", "qos": "QOS", "user": "user", "account": "account"}


def opted_in(jobs: Jobs, cluster: Cluster) -> Jobs:
    """Return the jobs with what the cluster's rules say of them; whom no rule fits keeps what the trace says.

    Applied again it changes nothing, and of a part of the jobs it gives that part of the whole.
    """
    if not cluster.preemption:
        return jobs
    require_names(jobs, cluster)
    preemptible, checkpoint_s, restart_s = jobs.preemptible.copy(), jobs.checkpoint_s.copy(), jobs.restart_s.copy()
    open_ = np.ones(len(jobs), dtype=np.bool_)  # no rule fitted so far
    for rule in cluster.preemption:
        fits = open_ & _fits(rule, jobs, open_)
        preemptible[fits] = rule.preemptible
        if rule.preemptible:  # else its checkpoints are still what a failing node goes back to
            checkpoint_s[fits], restart_s[fits] = rule.checkpoint, rule.restart
        open_ &= ~fits
    return jobs.with_columns(preemptible=preemptible, checkpoint_s=checkpoint_s, restart_s=restart_s)


def for_replay(jobs: Jobs, cluster: Cluster) -> Jobs:
    """Return the jobs as every replay takes them: each from when it could first start, and by the cluster's rules.

    Who replays a history begins here, so that waits are counted one way by all. Applied again it changes nothing.
    """
    return opted_in(jobs, cluster).from_when_ready()


def at_cost(jobs: Jobs, checkpoint_s: float | None, restart_s: float | None) -> Jobs:
    """Put another interval of checkpoints or length of restarts for all who may be displaced; None leaves it."""
    columns = {"checkpoint_s": checkpoint_s, "restart_s": restart_s}
    given = {name: value for name, value in columns.items() if value is not None}
    if given and not jobs.preemptible.any():
        raise InputError("no job is preemptible, so nothing costs a checkpoint or a restart; say who is")
    changed = {name: np.where(jobs.preemptible, value, getattr(jobs, name)) for name, value in given.items()}
    return jobs.with_columns(**changed) if changed else jobs


def require_names(jobs: Jobs, cluster: Cluster) -> None:
    """Refuse a rule about a VC, QOS, user or account that no job has: it would silently fit nobody."""
    for place, rule in enumerate(cluster.preemption, start=1):
        for scope in SCOPES:
            known = {*_labels(jobs, scope).names, *(cluster.vcs if scope == "vc" else ())}
            for name in getattr(rule, scope):
                if not _is_one_of(name, known, scope):
                    what = f"{_WORDS[scope]} among the jobs"
                    raise unknown(what, name, sorted(known), f"(preemption rule {place})")


def told_of(jobs: Jobs) -> tuple[str, ...]:
    """Return what a result says of who may be displaced, and at what assumed cost; nothing if nobody may."""
    willing = int(jobs.preemptible.sum())
    if not willing:
        return ()
    share = f"{willing:,} of {counted(len(jobs), 'job')} ({percent(willing / len(jobs))}) may be preempted"
    return (f"{share}: {_costs(jobs.checkpoint_s[jobs.preemptible], jobs.restart_s[jobs.preemptible])}.",)


def _costs(checkpoint_s: Floats, restart_s: Floats) -> str:
    if len(np.unique(checkpoint_s)) == 1 and len(np.unique(restart_s)) == 1:
        return costs(float(checkpoint_s[0]), float(restart_s[0]))
    most = "all work lost" if np.isinf(checkpoint_s).any() else seconds(checkpoint_s.max())
    restarts = f"{seconds(restart_s.min())} to {seconds(restart_s.max())}"
    return f"checkpoints every {seconds(checkpoint_s.min())} to {most}, restarts of {restarts}"


def _labels(jobs: Jobs, scope: str) -> Labels:
    labels: Labels = getattr(jobs, scope)
    return labels


def _fits(rule: PreemptionRule, jobs: Jobs, among: Mask) -> Mask:
    fits = among.copy()
    for scope in SCOPES:
        if names := getattr(rule, scope):
            labels = _labels(jobs, scope)
            wanted = np.array(
                [*(_is_one_of(name, names, scope) for name in labels.names), False]
            )  # -1, no name, takes the last
            fits &= wanted[labels.codes]
    return fits if rule.share == 1 else _drawn(rule, jobs.id, fits)


def _is_one_of(name: str, names: Collection[str], scope: str) -> bool:
    """Return whether a name is among others; partitions are one however they are spelled."""
    return name in names or (scope == "vc" and any(same_name(name, one) for one in names))


def _drawn(rule: PreemptionRule, ids: NDArray[np.generic], fits: Mask) -> Mask:
    rows = np.flatnonzero(fits)
    drawn = np.zeros(len(fits), dtype=np.bool_)
    drawn[rows] = lots(ids[rows].tolist(), rule.seed) < rule.share
    return drawn
