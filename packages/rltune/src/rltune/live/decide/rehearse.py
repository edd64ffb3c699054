"""One decision on a cluster that does not exist, so that compiled code is there before a real one is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rltune.live.control_settings import ControlSettings
from rltune.live.decide.decide import Situation, decide
from rltune.live.decide.pinned import Pinned
from rltune.live.decide.scope import EVERYBODY
from rltune.live.see.snapshot import PENDING, RUNNING, LiveJob, LiveNode, Partition, Snapshot

_HOUR_S = 3600.0


def rehearse(settings: ControlSettings, pinned: Pinned) -> None:
    """Let a job run that may be asked to give way, one start, one wait and a node be down."""
    decide(Situation(_cluster(settings)), settings, pinned)


def _cluster(settings: ControlSettings) -> Snapshot:
    scope, preempt = settings.scope, settings.preempt
    partition = _first(preempt.partitions) or _first(scope.partitions) or "p"
    waits = LiveJob(
        id=2, state=PENDING, submit_s=2.0, gpus=1, cpus=1.0, limit_s=_HOUR_S, partitions=(partition,),
        qos=_first(preempt.qos) or _first(scope.qos), account=_first(scope.accounts), comment=preempt.comment,
        requeue=True,
    )  # fmt: skip
    up = LiveNode(name="a", gpus=2, cpus=8.0, mem_gib=8.0, partitions=(partition,))
    return Snapshot(
        taken_s=10.0 + preempt.min_run,
        version="",
        jobs=(
            replace(waits, id=1, state=RUNNING, node_names=("a",), gpus_by_node=(1,), submit_s=0.0, start_s=1.0),
            waits,
            replace(waits, id=3, gpus=2, submit_s=3.0),
        ),
        nodes=(up, replace(up, name="b", up=False)),
        partitions=(Partition(name=partition),),
    )


def _first(names: Sequence[str]) -> str:
    return next((name for name in names if name != EVERYBODY), "")
