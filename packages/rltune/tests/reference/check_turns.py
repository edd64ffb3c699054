"""A checker of spells that knows no scheduler: what they cannot be, whoever made them."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Played:
    """A spell, and the work of its job up to its end: done, and kept of that."""

    start: float
    end: float
    speed: float
    restart: float  # with which it began
    before: float  # work kept when it began
    done: float
    kept: float

    @property
    def held(self) -> float:
        return (self.end - self.start) * self.speed


def _played(jobs, cluster, i: int, spells) -> list[Played]:
    """Replay a job's spells: what a stop leaves is work up to the last checkpoint."""
    checkpoint, restart_s = float(jobs.checkpoint_s[i]), float(jobs.restart_s[i])
    kept, restart, played = 0.0, 0.0, []
    for k, (start, end, where) in enumerate(spells):
        before, speed = kept, _speed(cluster, where)
        done = before + max(0.0, (end - start) * speed - restart)
        points = 0.0 if math.isinf(checkpoint) else checkpoint and math.floor(done / checkpoint + 1e-9) * checkpoint
        kept = done if k == len(spells) - 1 or checkpoint == 0 else max(before, points)
        played.append(Played(start, end, speed, restart, before, done, kept))
        restart = restart_s
    return played


def _work_conserved(jobs, cluster, schedule, taken) -> Iterator[str]:
    """Replay the spells: what is not lost adds up to the duration, and what is lost is told, and bounded."""
    for i, spells in spells_of(schedule).items():
        played = _played(jobs, cluster, i, spells)
        for k, one in enumerate(played[:-1]):
            if one.held < one.restart + taken.min_run_s * one.speed - 1e-6:
                yield f"job {i}: spell {k} of {one.held} s is shorter than {taken.min_run_s} s and its restart"
        lost = sum(min(one.restart, one.held) + one.done - one.kept for one in played)
        if not math.isclose(played[-1].kept, float(jobs.duration_s[i]), abs_tol=1e-6):
            yield f"job {i} did {played[-1].kept} s of work, not {jobs.duration_s[i]}"
        if not math.isclose(lost, float(schedule.lost_s[i]), abs_tol=1e-6):
            yield f"job {i} lost {lost} s, not {schedule.lost_s[i]}"
        cost = float(jobs.checkpoint_s[i]) + float(jobs.restart_s[i])
        most = int(schedule.preemptions[i]) * cost if schedule.preemptions[i] else 0.0
        if lost > most + 1e-6:
            yield f"job {i} lost {lost} s in {schedule.preemptions[i]} preemptions"


def toll_problems(jobs, cluster, schedule, taken) -> list[str]:
    """Name who was displaced though its turns had cost it too much, or too often a day."""
    return [
        problem for i, spells in spells_of(schedule).items() for problem in _overdrawn(jobs, cluster, taken, i, spells)
    ]


def _overdrawn(jobs, cluster, taken, i: int, spells) -> Iterator[str]:
    played = _played(jobs, cluster, i, spells)
    waited, toll, due = played[0].start - float(jobs.submit_s[i]), 0.0, False
    for one, after in pairwise(played):
        more = (taken.late_s, (taken.late_times - 1) * (waited + one.done / one.speed))
        allowed = max(x for x in more if math.isfinite(x))
        toll += (one.done - one.kept + float(jobs.restart_s[i])) / one.speed
        patience, away = allowed - toll, after.start - one.end
        if patience < -1e-6:
            yield f"job {i} was displaced at {one.end}, and its turns had cost it {toll} s of {allowed}"
        if due and (math.isinf(taken.late_times) or patience < 2 * taken.min_run_s - 1e-6):
            yield f"job {i} had been due, and was displaced again at {one.end}"
        toll, due = toll + away, due or away > max(0.0, patience - taken.min_run_s) + 1e-6
    ends = sorted(one.end for one in played[:-1])
    if taken.max_a_day and any(b - a < 86400 for a, b in zip(ends, ends[taken.max_a_day :], strict=False)):
        yield f"job {i} was displaced at {ends}"


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
