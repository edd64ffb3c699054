"""Who may be displaced, out of a command's words: --preemptible, --checkpoint and --restart."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.cli.trace_argument import Workload
    from rltune.cluster import Cluster
    from rltune.preemption_rules import PreemptionRule


@dataclass(frozen=True)
class OptIn:
    """What a command's options say in place of the trace and the cluster's rules; None = nothing."""

    rule: "PreemptionRule | None" = None
    checkpoint_s: float | None = None
    restart_s: float | None = None

    @classmethod
    def of(cls, preemptible: str | None, checkpoint: str | None, restart: str | None) -> "OptIn":
        """Read the words, before anything else is read."""
        from rltune.preemption_rules import parse_lot

        rule = None if preemptible is None else parse_lot(preemptible)
        times = _seconds("--checkpoint", checkpoint), _seconds("--restart", restart, finite=True)
        return cls(rule, *times)

    def applied(self, work: "Workload", cluster: "Cluster") -> "tuple[Workload, Cluster]":
        """Settle who may be displaced: the jobs know it then, and the cluster has no rules left."""
        from rltune.opt_in import at_cost, opted_in
        from rltune.preemption_rules import PreemptionRule

        # a share is of all jobs, in place of what the trace and the cluster say: who is not drawn is not willing
        rules = cluster.preemption if self.rule is None else (self.rule, PreemptionRule(preemptible=False))
        jobs = opted_in(work.jobs, replace(cluster, preemption=rules))
        jobs = at_cost(jobs, self.checkpoint_s, self.restart_s)
        return replace(work, jobs=jobs), replace(cluster, preemption=())


def _seconds(option: str, told: str | None, *, finite: bool = False) -> float | None:
    from rltune.text import read_seconds

    if told is None:
        return None
    try:
        value = read_seconds(told)
    except ValueError:
        value = float("nan")
    if not value >= 0 or (finite and value == float("inf")):
        raise InputError(f"{option} {told!r} is no time; write seconds, or 90s, 10m, 2h{'' if finite else ' or inf'}")
    return value
