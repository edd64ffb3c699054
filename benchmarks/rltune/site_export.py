"""A site as an operator meets it: what `sacct` and `scontrol` print, while some of what made jobs wait is not told.

    python benchmarks/rltune/site_export.py out/site                    # about 6,800 records, 200 GPUs, six weeks
    python benchmarks/rltune/site_export.py out/site --jobs 2000 --seed 3

Jobs run under Slurm's multifactor with EASY on a cluster with limits, a reservation, nodes that were down and weights
of its own; the export is what is left of that. It has local times over the end of summer time, arrays with throttles,
jobs that were cancelled before they started, requeued and still running ones, names with the separator, and GPU types
in Slurm's spelling. Written are history.txt, nodes.txt, ours.toml as the tutorial has it, and truth.toml.
"""

import argparse
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import run_pipeline
from rltune.estimate import get_estimator
from rltune.jobs import Jobs

HEAD = (
    "JobIDRaw|JobID|JobName|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|"
    "ReqTRES|AllocTRES|NNodes|NodeList"
)
OURS = """name = "ours"

[[group]]
count = 20
gpus = 8
gpu_type = "A100"

[[group]]
count = 10
gpus = 4
gpu_type = "V100"
"""
PARTITIONED = OURS.replace('"A100"', '"A100"\nvc = "gpu"').replace('"V100"', '"V100"\nvc = "v100"')
TRUTH = f"""{PARTITIONED}
[scheduler]
age = 500
fairshare = 2000
job_size = 0
partition = 0
qos = 1000
max_age_s = 604800
qos_priority = {{ high = 1.0 }}

[[limit]]
scope = "user"
max_gpus = 64

[[limit]]
scope = "account"
name = "students"
max_gpus = 24

[[maintenance]]
start_s = 1209600
end_s = 1274400
groups = [0]
"""
BEGIN = datetime(2026, 9, 28, 6, tzinfo=UTC)  # four weeks before clocks go back
ZONE = ZoneInfo("Europe/Berlin")
GPUS = 200
DAYS = 42
LIMITS_MIN = np.array([30, 60, 120, 240, 480, 720, 1440, 2880, 4320, 10080])
ACCOUNTS = ("vision", "speech", "robots", "students")
NAMES = ("train", "finetune", "eval", "sweep", "bash", "resnet50|lr=0.1", "preprocess")


def truth(seed):
    """Return the cluster as it was: with what its file does not say, and with nodes that were down."""
    rng = np.random.default_rng([seed, 1])
    down = rng.uniform(0, DAYS - 5, 6) * 86_400
    lines = [
        f"[[outage]]\nnode = {node}\ndown_s = {at:.0f}\nup_s = {at + length:.0f}\n"
        for node, at, length in zip(rng.choice(30, 6, replace=False), down, rng.uniform(1, 4, 6) * 86_400, strict=True)
    ]
    return TRUTH + "\n" + "\n".join(lines)


def workload(n, load, seed):
    """Return jobs that come in working hours, of users who each have their sizes and run times, some in arrays."""
    rng = np.random.default_rng([seed, 2])
    users = 40
    of_user = rng.choice(users, n, p=_zipf(users))
    size = np.array([1, 1, 1, 2, 4, 8, 16, 32])
    favourite = rng.choice(len(size), users, p=(0.2, 0.15, 0.1, 0.15, 0.15, 0.18, 0.05, 0.02))
    which = np.where(rng.random(n) < 0.7, favourite[of_user], rng.choice(5, n))
    gpus = size[which]
    level = rng.normal(8.6, 1.0, users)
    run = np.exp(level[of_user] + rng.normal(0, 1.1, n)).clip(20, 6.5 * 86_400)
    run *= load * GPUS * DAYS * n / 6400 * 86_400 / float((gpus * run).sum())
    run = np.rint(run.clip(20, 6.5 * 86_400))
    asked = LIMITS_MIN[np.searchsorted(LIMITS_MIN * 60, run * rng.choice([1, 1.5, 3, 8], n)).clip(0, 9)] * 60.0
    v100 = (gpus <= 4) & (rng.random(n) < 0.18)
    array = np.where(rng.random(n) < 0.015, np.arange(n), -1)
    submit = np.sort(_times(n, rng))
    for first in np.flatnonzero(array >= 0):  # the jobs after it become its tasks
        tasks = slice(first, first + int(rng.integers(4, 30)))
        array[tasks], submit[tasks], of_user[tasks] = first, submit[first], of_user[first]
        gpus[tasks], v100[tasks], asked[tasks] = min(2, gpus[first]), v100[first], asked[tasks].max()
    throttle = np.where(array >= 0, 2 + array % 6, 0)
    return Jobs.from_arrays(
        submit,
        np.minimum(run, asked),
        gpus,
        limit_s=asked,
        user=[f"u{k:02d}" for k in of_user],
        account=[ACCOUNTS[k % 4] for k in of_user],
        qos=np.where(rng.random(n) < 0.08, "high", "normal").tolist(),
        vc=np.where(v100, "v100", "gpu").tolist(),
        gpu_types=np.where(v100, "v100", np.where((gpus > 4) | (rng.random(n) < 0.6), "a100", "")).tolist(),
        name=[NAMES[k % len(NAMES)] for k in of_user + rng.integers(0, 2, n)],
        array=array,
        array_limit=throttle,
        id=[str(100_001 + i) for i in range(n)],
    )


def _zipf(n):
    weights = 1 / np.arange(1, n + 1) ** 0.9
    return weights / weights.sum()


def _times(n, rng):
    """Draw submissions over the weeks, mostly by day, fewer on weekends."""
    hours = np.arange(max(24, round(DAYS * 24 * n / 6400)))
    rate = np.where((hours % 24 > 2) & (hours % 24 < 14), 3.0, 1.0) * np.where(hours // 24 % 7 > 4, 0.5, 1.0)
    return np.rint(3600 * (rng.choice(hours, n, p=rate / rate.sum()) + rng.random(n)))


def happened(jobs, cluster):
    """Return the jobs with the starts and nodes that they had on the true cluster."""
    made = run_pipeline(jobs, cluster, parse_pipeline("multifactor", "easy"), get_estimator("user"))
    names = [f"a{k + 1:02d}" for k in range(20)] + [f"v{k + 1:02d}" for k in range(10)]
    nodes = [",".join(names[node] for node, _ in chunks) or None for chunks in made.placements]
    eligible_s = _eligible(jobs, made.start_s, made.end_s)
    return replace(jobs, recorded_start_s=made.start_s, recorded_eligible_s=eligible_s), made.end_s, nodes


def _eligible(jobs, start_s, end_s):
    """Return from when tasks could start: a task of a throttled array, when enough of those before it had ended."""
    eligible_s = jobs.submit_s.copy()
    for number in np.unique(jobs.array[jobs.array >= 0]):
        rows = np.flatnonzero(jobs.array == number)
        rows = rows[np.argsort(start_s[rows], kind="stable")]
        most = int(jobs.array_limit[rows[0]])
        later = rows[most:]
        eligible_s[later] = np.minimum(np.sort(end_s[rows])[: len(later)], start_s[later])
    return eligible_s


def export(jobs, end_s, nodes, seed):
    """Yield the lines that sacct prints at the end of the weeks: who ended, who still runs or waits, who gave up."""
    rng = np.random.default_rng([seed, 3])
    now_s = float(jobs.submit_s.max()) + 3600
    yield HEAD
    for i in range(len(jobs)):
        kind = rng.random()
        if not jobs.recorded_start_s[i] <= now_s:  # NaN: it never starts
            yield _line(jobs, i, "PENDING", None, None, "")
        elif end_s[i] > now_s:
            yield _line(jobs, i, "RUNNING", jobs.recorded_start_s[i], None, nodes[i])
        elif kind < 0.012:
            yield from _requeued(jobs, i, end_s[i], nodes[i])
        else:
            yield _line(jobs, i, _state(jobs, i, kind), jobs.recorded_start_s[i], end_s[i], nodes[i])
        if kind > 0.955:  # somebody gave up while it waited
            yield _cancelled(jobs, i, rng)
    yield (
        "199999|199999|allocation|u01|speech|gpu|normal|PENDING|" + "|".join([_local(now_s)] * 3) + "|Unknown|0|60|||1|"
    )


def _state(jobs, i, kind):
    if jobs.duration_s[i] >= jobs.limit_s[i]:
        return "TIMEOUT"
    return (
        "CANCELLED by 1007"
        if kind < 0.06
        else "FAILED"
        if kind < 0.2
        else "OUT_OF_MEMORY"
        if kind < 0.21
        else "COMPLETED"
    )


def _requeued(jobs, i, end_s, nodes):
    """Yield two spells, the second of which begins as the requeue's delay ends."""
    start = jobs.recorded_start_s[i]
    cut = start + np.rint((end_s - start) * 0.3)
    state = "NODE_FAIL" if i % 3 == 0 else "REQUEUED"
    yield _line(jobs, i, state, start, cut, nodes)
    yield _line(jobs, i, "COMPLETED", min(cut + 125, end_s - 1), end_s, nodes, submit=cut)


def _cancelled(jobs, i, rng):
    """Return a record of a job like this one that never started: Start = End, nothing allocated."""
    submit = jobs.submit_s[i] + 5
    end = submit + np.rint(rng.exponential(7200))
    number = 150_000 + i
    held = rng.random() < 0.2
    when = (_local(submit), "Unknown" if held else _local(submit), "None" if held else _local(end), _local(end))
    who = _who(jobs, i)
    asked = _tres(jobs, i, typed=bool(jobs.gpu_types.name_of(i)))
    limit = int(jobs.limit_s[i] // 60)
    needs = f"0|{limit}|{asked}||{_nodes_of(jobs, i)}"
    return f"{number}|{number}|{who}|CANCELLED by 1000|{'|'.join(when)}|{needs}|None assigned"


def _line(jobs, i, state, start_s, end_s, nodes, submit=None):
    submit_s = jobs.submit_s[i] if submit is None else submit
    raw = jobs.id[i]
    array = int(jobs.array[i])
    shown = raw if array < 0 else f"{jobs.id[array]}_{i - array + 1}"
    if array >= 0 and state == "PENDING":
        shown = f"{jobs.id[array]}_[{i - array + 1}%{int(jobs.array_limit[i])}]"
    eligible = submit_s if submit is not None or state == "PENDING" else jobs.recorded_eligible_s[i]
    start, end = (_local(t) if t is not None else "Unknown" for t in (start_s, end_s))
    elapsed = 0 if end_s is None or start_s is None else int(end_s - start_s)
    limit = "UNLIMITED" if jobs.limit_s[i] >= 10080 * 60 else str(int(jobs.limit_s[i] // 60))
    asked = _tres(jobs, i, typed=bool(jobs.gpu_types.name_of(i)))
    given = _tres(jobs, i, typed=True) if start_s is not None else ""
    when = f"{_local(submit_s)}|{_local(eligible)}|{start}|{end}|{elapsed}|{limit}"
    return (
        f"{raw}|{shown}|{_who(jobs, i)}|{state}|{when}|{asked}|{given}|{_nodes_of(jobs, i)}|{nodes or 'None assigned'}"
    )


def _who(jobs, i):
    return "|".join(str(column.name_of(i)) for column in (jobs.name, jobs.user, jobs.account, jobs.vc, jobs.qos))


def _nodes_of(jobs, i):
    return max(1, int(jobs.gpus[i]) // (4 if jobs.vc.name_of(i) == "v100" else 8))


def _tres(jobs, i, *, typed):
    gpus, kind = int(jobs.gpus[i]), "v100" if jobs.vc.name_of(i) == "v100" else "a100"
    named = f"gres/gpu:{kind}={gpus}," if typed else ""
    return f"billing={gpus},cpu={gpus * 8},{named}gres/gpu={gpus},mem={gpus * 60}G,node={_nodes_of(jobs, i)}"


def _local(t_s):
    """Return a time as sacct prints it without SLURM_TIME_FORMAT: of the client's clock on the wall."""
    return datetime.fromtimestamp(BEGIN.timestamp() + float(t_s), ZONE).strftime("%Y-%m-%dT%H:%M:%S")


def printed_nodes():
    """Return what `scontrol show nodes` prints."""
    kinds = [("a", 20, 8, "a100", 128, 1_031_000, "gpu"), ("v", 10, 4, "v100", 64, 515_000, "v100")]
    return "\n".join(
        f"NodeName={name}{k + 1:02d} Arch=x86_64 CoresPerSocket={cpus // 2}\n"
        f"   CPUAlloc=0 CPUEfctv={cpus} CPUTot={cpus} CPULoad=0.00\n   AvailableFeatures={kind}\n"
        f"   ActiveFeatures={kind}\n   Gres=gpu:{kind}:{gpus}\n   RealMemory={mem} AllocMem=0 FreeMem={mem} Sockets=2\n"
        f"   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n   Partitions={partition}\n"
        for name, count, gpus, kind, cpus, mem, partition in kinds
        for k in range(count)
    )


def main():
    """Write the files of a site."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--jobs", type=int, default=6400)
    asked.add_argument("--load", type=float, default=0.78)
    asked.add_argument("--seed", type=int, default=1)
    given = asked.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    hidden = truth(given.seed)
    (given.folder / "truth.toml").write_text(hidden)
    (given.folder / "ours.toml").write_text(OURS)
    (given.folder / "nodes.txt").write_text(printed_nodes())
    jobs, end_s, nodes = happened(
        workload(given.jobs, given.load, given.seed), Cluster.from_toml(given.folder / "truth.toml")
    )
    lines = list(export(jobs, end_s, nodes, given.seed))
    (given.folder / "history.txt").write_text("\n".join(lines) + "\n")
    wait_h = np.nanmean(jobs.recorded_start_s - jobs.submit_s) / 3600
    sys.stdout.write(f"{given.folder}: {len(lines) - 1:,} records; mean wait {wait_h:.1f} h\n")


if __name__ == "__main__":
    main()
