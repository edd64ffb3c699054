"""A checker of schedules that knows no scheduler: it reads when and where the jobs ran, and says what cannot be.

It works from the tables themselves and shares no code with the reference's engine.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator


def problems(jobs, cluster, estimate_s, schedule) -> list[str]:
    """Name everything in the schedule that the semantics forbid; nothing, if it is sound."""
    checks = (_each_once, _gangs, _nodes_full, _too_early, _over_limits, _into_maintenance, _on_down_nodes)
    return [problem for check in checks for problem in check(Seen(jobs, cluster, estimate_s, schedule))]


class Seen:
    """A schedule beside what was asked."""

    def __init__(self, jobs, cluster, estimate_s, schedule, placement: str = "") -> None:
        self.shares_nodes = placement != "exclusive"
        self.jobs, self.cluster, self.schedule = jobs, cluster, schedule
        self.estimate = [float(x) for x in estimate_s]
        self.group_of = [g for g in cluster.groups for _ in range(g.count)]
        self.group_index = [i for i, g in enumerate(cluster.groups) for _ in range(g.count)]
        self.start = [float(x) for x in schedule.start_s]
        self.end = [float(x) for x in schedule.end_s]
        self.ran = [i for i in range(len(jobs)) if not schedule.rejected[i]]

    def speed(self, node: int) -> float:
        return self.cluster.speed.get(self.group_of[node].gpu_type, 1.0)

    def at_work(self, t: float) -> list[int]:
        """List who runs at t; a job of zero duration takes no time and is not seen."""
        return [i for i in self.ran if self.start[i] <= t < self.end[i]]


def _each_once(seen: Seen) -> Iterator[str]:
    """No job is lost: it ran once, for its whole duration, or it is rejected and left no trace."""
    for i in range(len(seen.jobs)):
        chunks = seen.schedule.placements[i]
        if seen.schedule.rejected[i]:
            if chunks or not math.isnan(seen.start[i]) or not math.isnan(seen.end[i]):
                yield f"job {i} is rejected and yet ran"
        elif not chunks or math.isnan(seen.start[i]):
            yield f"job {i} is lost"
        else:
            slowest = min(seen.speed(node) for node, _ in chunks)
            if seen.end[i] != seen.start[i] + float(seen.jobs.duration_s[i]) / slowest:
                yield f"job {i} ran {seen.end[i] - seen.start[i]} s, not {seen.jobs.duration_s[i]} s / {slowest}"


def _gangs(seen: Seen) -> Iterator[str]:
    """All GPUs, on distinct nodes that accept the job, in the shape asked."""
    for i in seen.ran:
        chunks = seen.schedule.placements[i]
        gpus, nodes, per_node = (int(c[i]) for c in (seen.jobs.gpus, seen.jobs.nodes, seen.jobs.gpus_per_node))
        if sum(g for _, g in chunks) != gpus:
            yield f"job {i} asked {gpus} GPUs and got {chunks}"
        if len({node for node, _ in chunks}) != len(chunks):
            yield f"job {i} has two chunks on one node: {chunks}"
        if nodes and len(chunks) != nodes:
            yield f"job {i} asked {nodes} nodes and got {len(chunks)}"
        if per_node and not nodes and gpus and any(g > per_node for _, g in chunks):
            yield f"job {i} asked {per_node} GPUs a node and got {chunks}"
        if any(not _accepts(seen, i, node) for node, _ in chunks):
            yield f"job {i} is on a node that it may not use: {chunks}"


def _accepts(seen: Seen, i: int, node: int) -> bool:
    group, vc, types = seen.group_of[node], seen.jobs.vc.name_of(i), seen.jobs.gpu_types.name_of(i)
    right_type = not types or group.gpu_type.lower() in types.lower().split("|")
    return right_type and (not vc or not group.vc or vc.lower() in [name.lower() for name in group.vc])


def _nodes_full(seen: Seen) -> Iterator[str]:
    """Use changes upwards at starts alone, so those are the moments to look at."""
    for t in sorted({seen.start[i] for i in seen.ran}):
        used: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        for i in seen.at_work(t):
            for node, gpus in seen.schedule.placements[i]:
                for k, amount in enumerate(_takes(seen, i, node, gpus)):
                    used[node][k] += amount
        for node, (gpus, cpus, mem) in used.items():
            group = seen.group_of[node]
            if gpus > group.gpus:
                yield f"node {node} runs {gpus} GPUs at {t}, it has {group.gpus}"
            if group.cpus is not None and cpus > round(group.cpus * 1000):
                yield f"node {node} runs {cpus} thousandths of a CPU at {t}, it has {group.cpus} CPUs"
            if group.mem_gib is not None and mem > round(group.mem_gib * 1024):
                yield f"node {node} runs {mem} MiB at {t}, it has {group.mem_gib} GiB"


def _takes(seen: Seen, i: int, node: int, gpus: int) -> tuple[int, int, int]:
    group, all_gpus = seen.group_of[node], int(seen.jobs.gpus[i])
    parts = len(seen.schedule.placements[i])

    def amount(asked: float, unit: int, of_node: float | None, unasked: int) -> int:
        if math.isnan(asked):
            return unasked if all_gpus == 0 else math.floor(round((of_node or 0) * unit) * gpus / group.gpus)
        share = gpus / all_gpus if all_gpus else 1 / parts
        return math.floor(round(asked * unit) * share + 1e-9)

    return (
        gpus,
        amount(float(seen.jobs.cpus[i]), 1000, group.cpus, 1000),
        amount(float(seen.jobs.mem_gib[i]), 1024, group.mem_gib, 0),
    )


def _too_early(seen: Seen) -> Iterator[str]:
    for i in seen.ran:
        if seen.start[i] < seen.jobs.submit_s[i]:
            yield f"job {i} started before it was submitted"
        for j in seen.jobs.depends_on(i):
            if seen.schedule.rejected[j] or seen.start[i] < seen.end[j]:
                yield f"job {i} started before job {j}, which it depends on, had ended"


def _over_limits(seen: Seen) -> Iterator[str]:
    for t in sorted({seen.start[i] for i in seen.ran}):
        running = seen.at_work(t)
        for limit in seen.cluster.limits:
            yield from _over_limit(seen, limit, running, t)
        for i in running:
            if seen.start[i] == t and seen.jobs.array_limit[i] > 0 and seen.jobs.array[i] >= 0:
                earlier = [j for j in running if seen.jobs.array[j] == seen.jobs.array[i] and seen.start[j] < t]
                if len(earlier) + 1 > seen.jobs.array_limit[i]:
                    yield f"array {seen.jobs.array[i]} runs more than {seen.jobs.array_limit[i]} tasks at {t}"


def _over_limit(seen: Seen, limit, running: list[int], t: float) -> Iterator[str]:
    labels = getattr(seen.jobs, limit.scope)
    for name in set(labels.to_list()) - {None}:
        if limit.name not in {"*", name}:
            continue
        alike = [i for i in running if labels.name_of(i) == name]
        most = [m for m in (limit.max_running, limit.max_submitted) if m is not None]
        if most and len(alike) > min(most):
            yield f"{limit.scope} {name} runs {len(alike)} jobs at {t}, the limit is {min(most)}"
        if limit.max_gpus is not None and sum(int(seen.jobs.gpus[i]) for i in alike) > limit.max_gpus:
            yield f"{limit.scope} {name} uses more than {limit.max_gpus} GPUs at {t}"


def _into_maintenance(seen: Seen) -> Iterator[str]:
    for i in seen.ran:
        for node, _ in seen.schedule.placements[i]:
            expected = seen.start[i] + seen.estimate[i] / seen.speed(node)
            for window in seen.cluster.maintenance:
                mine = not window.groups or seen.group_index[node] in window.groups
                if mine and not (expected <= window.start_s or seen.start[i] >= window.end_s):
                    yield f"job {i} was started on node {node} into the maintenance at {window.start_s}"


def _on_down_nodes(seen: Seen) -> Iterator[str]:
    for i in seen.ran:
        nodes = {node for node, _ in seen.schedule.placements[i]}
        for outage in (o for o in seen.cluster.outages if o.node in nodes):
            on_start = outage.down_s <= seen.start[i] < outage.up_s
            if on_start or seen.start[i] < outage.down_s < seen.end[i]:
                yield f"job {i} ran on node {outage.node}, which was down from {outage.down_s}"


# reservations, worked out from the schedule itself


def heads_delayed(jobs, cluster, schedule, placement: str) -> list[str]:
    """Name the jobs that started later than the time first promised to them as the head of the only queue.

    For submit order, exact estimates, jobs of more than zero duration, GPUs alone, no limits, dependencies or outages.
    """
    seen = Seen(jobs, cluster, jobs.duration_s, schedule, placement)
    order = sorted(seen.ran, key=lambda i: (jobs.submit_s[i], i))
    late = []
    for k, i in enumerate(order):
        before, behind = order[:k], order[k + 1 :]
        became_head = max([float(jobs.submit_s[i]), *(seen.start[j] for j in before)])
        known = [j for j in before if seen.end[j] > became_head]
        known += [j for j in behind if seen.start[j] < became_head < seen.end[j]]
        promised = earliest(seen, i, became_head, known)
        if seen.start[i] > promised:
            late.append(f"job {i} became head at {became_head}, was promised {promised}, started at {seen.start[i]}")
    return late


def owed_delayed(
    jobs, cluster, schedule, first_class: Callable[[int, float], tuple | None], placement: str = ""
) -> list[str]:
    """Name the starts that delayed the first of those that come before all others in the only queue.

    `first_class` gives the place of a job among those as of a time, None if it is not of them. For exact estimates,
    jobs of more than zero duration, GPUs alone, no limits, dependencies or outages.
    """
    seen = Seen(jobs, cluster, jobs.duration_s, schedule, placement)
    found = []
    for t in sorted({seen.start[i] for i in seen.ran}):
        waiting = [i for i in seen.ran if jobs.submit_s[i] <= t < seen.start[i] and first_class(i, t)]
        if not waiting:
            continue
        head = min(waiting, key=lambda i: first_class(i, t))
        behind = [
            i
            for i in seen.ran
            if seen.start[i] == t and (not first_class(i, t) or first_class(i, t) > first_class(head, t))
        ]
        others = [i for i in seen.at_work(t) if i not in behind]
        if earliest(seen, head, t, others + behind) > earliest(seen, head, t, others):
            found.append(f"at {t} the start of {behind} delayed job {head}")
    return found


def earliest(seen: Seen, i: int, now: float, others: list[int]) -> float:
    """Find the first time from now on at which the job's chunks find nodes beside the others, who all run already."""
    times = sorted({now, *(seen.end[j] for j in others), *(w.end_s for w in seen.cluster.maintenance if w.end_s > now)})
    return next(t for t in times if _room(seen, i, t, lambda j, t: seen.end[j] > t, others))


def _room(seen: Seen, i: int, t: float, there: Callable[[int, float], bool], others: list[int]) -> bool:
    free = [group.gpus for group in seen.group_of]
    for j in (j for j in others if there(j, t)):
        for node, gpus in seen.schedule.placements[j]:
            free[node] -= gpus if seen.shares_nodes else seen.group_of[node].gpus
    mine = [n for n in range(len(free)) if _accepts(seen, i, n) and not _window_in_way(seen, i, n, t)]
    chunks = sorted((gpus for _, gpus in seen.schedule.placements[i]), reverse=True)
    best = sorted((free[n] for n in mine), reverse=True)
    return len(best) >= len(chunks) and all(c <= f for c, f in zip(chunks, best, strict=False))


def _window_in_way(seen: Seen, i: int, node: int, t: float) -> bool:
    end = t + seen.estimate[i] / seen.speed(node)
    windows = [w for w in seen.cluster.maintenance if not w.groups or seen.group_index[node] in w.groups]
    return any(not (end <= w.start_s or t >= w.end_s) for w in windows)


def one_node_in_order(jobs, gpus: int) -> list[float]:
    """Give each job, in submit order, the earliest interval on one node beside those before it."""
    start: dict[int, float] = {}

    def used(x: float) -> int:
        return sum(int(jobs.gpus[j]) for j, s in start.items() if s <= x < s + jobs.duration_s[j])

    for i in sorted(range(len(jobs)), key=lambda i: (jobs.submit_s[i], i)):
        submit, length = float(jobs.submit_s[i]), float(jobs.duration_s[i])
        for t in sorted({submit, *(s + float(jobs.duration_s[j]) for j, s in start.items())}):
            moments = [t, *(s for s in start.values() if t < s < t + length)]
            if t >= submit and all(used(x) + jobs.gpus[i] <= gpus for x in moments):
                start[i] = t
                break
    return [start.get(i, math.nan) for i in range(len(jobs))]
