"""What jobs ask and what nodes have, as plain values: GPUs, thousandths of a CPU, MiB."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    index: int
    group: int
    gpus: int
    cpus: int | None  # None = unlimited
    mem: int | None
    speed: float
    rack: int  # numbered by first appearance; groups may share one by name
    windows: tuple[tuple[float, float], ...]  # maintenance [a, b)
    outages: tuple[tuple[float, float], ...]  # down [a, b)


@dataclass(frozen=True)
class Job:
    index: int
    submit: float
    duration: float
    estimate: float
    limit: float  # NaN = none
    gpus: int
    nodes: int
    gpus_per_node: int
    cpus: int | None  # None = not asked
    mem: int | None
    labels: dict[str, str | None]  # by scope: user, account, vc, qos; and its name
    types: tuple[str, ...]
    array: int
    array_limit: int
    after: tuple[int, ...]
    # taking turns; a job that was stopped is another value, with what is left as its duration and estimate
    preemptible: bool
    checkpoint: float
    restart_s: float  # of every spell but the first
    work: float  # in all
    whole: float  # estimate of all
    restart: float = 0.0  # of the next spell
    saved: float = 0.0  # work done, and not lost
    service: float = 0.0  # work done, lost or not
    lost: float = 0.0
    preemptions: int = 0
    day_from: float = -math.inf  # when its day of displacements began
    day_n: int = 0
    first: float = math.nan  # start of its first spell
    allowed: float = math.nan  # what turns might cost it in all when it was last displaced
    toll: float = 0.0  # what they have cost it
    away_from: float = math.nan  # when it was displaced, if it has not started since,
    due: float = math.inf  # and when it comes before all others
    settled: bool = False  # it has been due


def read_nodes(cluster) -> list[Node]:
    nodes: list[Node] = []
    racks: dict[tuple, int] = {}
    for g, group in enumerate(cluster.groups):
        windows = tuple((w.start_s, w.end_s) for w in cluster.maintenance if not w.groups or g in w.groups)
        for i in range(group.count):
            index = len(nodes)
            rack = (group.rack or g, i // group.nodes_per_rack if group.nodes_per_rack else 0)
            nodes.append(
                Node(
                    index=index,
                    group=g,
                    gpus=group.gpus,
                    cpus=None if group.cpus is None else round(group.cpus * 1000),
                    mem=None if group.mem_gib is None else round(group.mem_gib * 1024),
                    speed=cluster.speed.get(group.gpu_type, 1.0),
                    rack=racks.setdefault(rack, len(racks)),
                    windows=windows,
                    outages=tuple((o.down_s, o.up_s) for o in cluster.outages if o.node == index),
                )
            )
    return nodes


def read_jobs(jobs, estimates) -> list[Job]:
    return [_job(jobs, float(estimates[i]), i) for i in range(len(jobs))]


def _job(jobs, estimate: float, i: int) -> Job:
    types = jobs.gpu_types.name_of(i)
    return Job(
        index=i,
        submit=float(jobs.submit_s[i]),
        duration=float(jobs.duration_s[i]),
        estimate=estimate,
        limit=float(jobs.limit_s[i]),
        gpus=int(jobs.gpus[i]),
        nodes=int(jobs.nodes[i]),
        gpus_per_node=int(jobs.gpus_per_node[i]),
        cpus=_whole(jobs.cpus[i], 1000),
        mem=_whole(jobs.mem_gib[i], 1024),
        labels={s: getattr(jobs, s).name_of(i) or None for s in ("user", "account", "vc", "qos", "name")},
        types=tuple(types.split("|")) if types else (),
        array=int(jobs.array[i]),
        array_limit=int(jobs.array_limit[i]),
        after=tuple(int(j) for j in jobs.depends_on(i)),
        preemptible=bool(jobs.preemptible[i]),
        checkpoint=float(jobs.checkpoint_s[i]),
        restart_s=float(jobs.restart_s[i]),
        work=float(jobs.duration_s[i]),
        whole=estimate,
    )


def _whole(value: float, unit: int) -> int | None:
    return None if math.isnan(value) else round(float(value) * unit)
