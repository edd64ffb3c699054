"""A checker of spells that knows no scheduler: what they cannot be, whoever made them."""

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise


def turn_problems(jobs, cluster, schedule, taken) -> list[str]:
    """Name everything in the spells that is against a promise; for workloads without outages and slowdowns."""
    checks = (_work_conserved, _touched, _overlaps, _followed, _nodes_full)
    return [problem for check in checks for problem in check(jobs, cluster, schedule, taken)]


def spells_of(schedule) -> dict[int, list[tuple[float, float, tuple]]]:
    """List each job's spells: start, end and (node, GPUs) pairs."""
    spells = schedule.spells
    by_job = defaultdict(list)
    for job, start, end, where in zip(spells.job, spells.start_s, spells.end_s, spells.placements, strict=True):
        by_job[int(job)].append((float(start), float(end), where))
    return by_job


def _speed(cluster, where) -> float:
    groups = [g for g in cluster.groups for _ in range(g.count)]
    return min(cluster.speed.get(groups[node].gpu_type, 1.0) for node, _ in where)


def _work_conserved(jobs, cluster, schedule, taken) -> Iterator[str]:
    """Replay the spells: what is not lost adds up to the duration, and what is lost is told, and bounded."""
    for i, spells in spells_of(schedule).items():
        checkpoint, restart_s = float(jobs.checkpoint_s[i]), float(jobs.restart_s[i])
        saved = lost = restart = 0.0
        for k, (start, end, where) in enumerate(spells):
            held = (end - start) * _speed(cluster, where)
            done = saved + max(0.0, held - restart)
            last = k == len(spells) - 1
            points = 0.0 if math.isinf(checkpoint) else checkpoint and math.floor(done / checkpoint + 1e-9) * checkpoint
            kept = done if last or checkpoint == 0 else max(saved, points)
            lost += min(restart, held) + done - kept
            saved, restart = kept, restart_s
            if not last and held < restart_s * (k > 0) + taken.min_run_s * _speed(cluster, where) - 1e-6:
                yield f"job {i}: spell {k} of {held} s is shorter than {taken.min_run_s} s and its restart"
        if not math.isclose(saved, float(jobs.duration_s[i]), abs_tol=1e-6):
            yield f"job {i} did {saved} s of work, not {jobs.duration_s[i]}"
        if not math.isclose(lost, float(schedule.lost_s[i]), abs_tol=1e-6):
            yield f"job {i} lost {lost} s, not {schedule.lost_s[i]}"
        most = int(schedule.preemptions[i]) * (checkpoint + restart_s) if schedule.preemptions[i] else 0.0
        if lost > most + 1e-6:
            yield f"job {i} lost {lost} s in {schedule.preemptions[i]} preemptions"


def late_problems(jobs, cluster, schedule, taken) -> list[str]:
    """Name displaced jobs that end after their deadline, where estimates are the truth."""
    return [problem for i, spells in spells_of(schedule).items() for problem in _late(jobs, cluster, taken, i, spells)]


def _late(jobs, cluster, taken, i: int, spells) -> Iterator[str]:
    start, _, where = spells[0]
    forecast = start + float(jobs.duration_s[i]) / _speed(cluster, where)
    more = (taken.late_s, (taken.late_times - 1) * (forecast - float(jobs.submit_s[i])))
    deadline = forecast + max(x for x in more if math.isfinite(x))
    if len(spells) > 1 and spells[-1][1] > deadline + 1e-6:
        yield f"job {i} ends at {spells[-1][1]}, and its deadline was {deadline}"
    starts = sorted(end for _, end, _ in spells[:-1])
    if taken.max_a_day and any(b - a < 86400 for a, b in zip(starts, starts[taken.max_a_day :], strict=False)):
        yield f"job {i} was displaced at {starts}"


def _touched(jobs, cluster, schedule, taken) -> Iterator[str]:
    for i, spells in spells_of(schedule).items():
        if len(spells) - 1 != schedule.preemptions[i]:
            yield f"job {i} has {len(spells)} spells and was displaced {schedule.preemptions[i]} times"
        if len(spells) > 1 and not jobs.preemptible[i]:
            yield f"job {i} is not preemptible, and was displaced"
        if schedule.preemptions[i] > taken.max_preemptions:
            yield f"job {i} was displaced {schedule.preemptions[i]} times"
        if schedule.start_s[i] != spells[0][0] or schedule.end_s[i] != spells[-1][1]:
            yield f"job {i} is not told to start with its first and to end with its last spell"


def _overlaps(jobs, cluster, schedule, taken) -> Iterator[str]:
    for i, spells in spells_of(schedule).items():
        for (_, end, _), (start, _, _) in pairwise(spells):
            if start < end:
                yield f"job {i}: a spell starts at {start} before the last has ended at {end}"


def _followed(jobs, cluster, schedule, taken) -> Iterator[str]:
    """Whoever is displaced leaves a node on which another job starts at that very moment."""
    by_job = spells_of(schedule)
    for i, spells in by_job.items():
        for start, end, where in spells[:-1]:
            left = {node for node, _ in where}
            starts = [other for j, mine in by_job.items() if j != i for t, _, other in mine if t == end]
            if not any(left & {node for node, _ in other} for other in starts):
                yield f"job {i} was stopped at {end} and nobody starts on {left}; its spell began at {start}"


def _nodes_full(jobs, cluster, schedule, taken) -> Iterator[str]:
    gpus = [g.gpus for g in cluster.groups for _ in range(g.count)]
    every = [spell for spells in spells_of(schedule).values() for spell in spells]
    for t in {start for start, _, _ in every}:
        used = defaultdict(int)
        for start, end, where in every:
            if start <= t < end:
                for node, n in where:
                    used[node] += n
        yield from (f"node {node} runs {n} GPUs at {t}" for node, n in used.items() if n > gpus[node])
