"""Histories of known truth: a workload runs on a cluster with hidden properties, and what happened is recorded."""

from dataclasses import replace

import numpy as np

from rltune.cluster import Cluster, Limit, NodeGroup, Outage
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import run_pipeline
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.labels import Labels

HEAD = (
    "JobID|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|"
    "ReqTRES|AllocTRES|NodeList"
)
EPOCH_S = 1_700_000_000


def cluster(nodes=8, gpus=4, **more):
    """A cluster of alike nodes."""
    return Cluster((NodeGroup(count=nodes, gpus=gpus),), **more)


def workload(n=1500, load=0.9, gpus=32, seed=0, users=6, qos=("normal", "high")):
    """Jobs of 1 to 8 GPUs and minutes to hours, with limits up to three times the run time."""
    rng = np.random.default_rng(seed)
    size = rng.choice([1, 1, 1, 2, 4, 8], n)
    run = np.rint(np.exp(rng.normal(8.0, 1.0, n)).clip(60, 40_000))
    gap = (size * run).mean() / (gpus * load)
    return Jobs.from_arrays(
        np.rint(np.cumsum(rng.exponential(gap, n))),
        run,
        size,
        limit_s=np.ceil(run * rng.uniform(1, 3, n) / 60) * 60,
        user=[f"u{k}" for k in rng.integers(0, users, n)],
        account=["lab"] * n,
        qos=rng.choice(qos, n).tolist(),
        vc=["gpu"] * n,
    )


def happened(jobs, truth, policy="fcfs", backfill="easy"):
    """Run the jobs on the true cluster, and record starts and nodes."""
    made = run_pipeline(jobs, truth, parse_pipeline(policy, backfill), get_estimator("user"))
    nodes = [",".join(f"n{node:03d}" for node, _ in chunks) or None for chunks in made.placements]
    assert not made.rejected.any()
    return replace(jobs, recorded_start_s=made.start_s, recorded_nodes=Labels.of(nodes, len(jobs)))


def stopped(jobs, truth, begin_s, end_s, share=0.9, policy="fcfs", backfill="easy"):
    """Record what happens if most jobs cannot start for a time, of which nobody knew before; the others still do."""
    free = happened(jobs, truth, policy, backfill)
    rng = np.random.default_rng(5)
    waits = (free.recorded_start_s >= begin_s) & (jobs.submit_s < end_s) & (rng.random(len(jobs)) < share)
    late = replace(jobs, submit_s=np.where(waits, np.maximum(jobs.submit_s, end_s), jobs.submit_s))
    order = np.argsort(late.submit_s, kind="stable")
    made = happened(late.take(order), truth, policy, backfill)
    back = np.argsort(order, kind="stable")
    return replace(made.take(back), submit_s=jobs.submit_s)


def as_sacct(jobs):
    """Write jobs as sacct would."""
    lines = [HEAD]
    for i in range(len(jobs)):
        submit, start = (EPOCH_S + round(t) for t in (jobs.submit_s[i], jobs.recorded_start_s[i]))
        end, run = start + round(jobs.duration_s[i]), round(jobs.duration_s[i])
        tres = f"cpu=1,gres/gpu={jobs.gpus[i]},node=1"
        who = f"{jobs.user.name_of(i)}|{jobs.account.name_of(i)}|{jobs.vc.name_of(i)}|{jobs.qos.name_of(i)}"
        when = f"{submit}|{submit}|{start}|{end}|{run}|{round(jobs.limit_s[i] / 60)}"
        lines.append(f"{i + 1}|{who}|COMPLETED|{when}|{tres}|{tres}|{jobs.recorded_nodes.name_of(i)}")
    return "\n".join(lines) + "\n"


def limited(most, **more):
    """A cluster on which each user may have so many GPUs."""
    return cluster(limits=(Limit(scope="user", max_gpus=most),), **more)


def broken(*spans, **more):
    """A cluster with nodes that are down: node, from, until."""
    return cluster(outages=tuple(Outage(node=n, down_s=a, up_s=b) for n, a, b in spans), **more)
