"""What Prometheus is told of the queue and the GPUs; beside it the controller has counters of its own."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from rltune.errors import InputError
from rltune.serve.sight import Sight, Watch

WAIT_BUCKETS_S = (60.0, 600.0, 1800.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86400.0, 3 * 86400.0)


def metrics_text(watch: Watch, buckets: Sequence[float], followed: CollectorRegistry) -> bytes:
    """Return everything in Prometheus' text format: the newest cycle, then what was counted over cycles."""

    def made() -> bytes:
        registry = CollectorRegistry()
        registry.register(ClusterMetrics(watch, buckets))
        return generate_latest(registry)

    try:
        of_cycle = watch.once_a_cycle("metrics", watch.sight(), made)
    except InputError:  # no cycle yet
        of_cycle = b""
    return of_cycle + generate_latest(followed)


class ClusterMetrics(Collector):
    """Makes metrics of the newest cycle when it is asked."""

    def __init__(self, watch: Watch, buckets: Sequence[float] = WAIT_BUCKETS_S) -> None:
        self._watch, self._buckets = watch, tuple(sorted(buckets))

    def collect(self) -> Iterator[Metric]:
        """Return each family."""
        try:
            sight = self._watch.sight()
        except InputError:  # no cycle yet: nothing to tell
            return
        yield _one("rltune_cycle_number", "The newest cycle", sight.cycle.id)
        yield _one("rltune_cycle_timestamp_seconds", "When it was, by the controller's clock", sight.cycle.at_s)
        yield _one("rltune_decision_seconds", "How long its decision took", sight.cycle.decide_s)
        yield _one("rltune_acting", "1 if changes are made", float(sight.cycle.acting))
        yield _one("rltune_jobs_running", "Jobs that run", sight.cycle.running)
        yield _pending(sight)
        yield from _gpus(sight)
        yield _work(sight)
        yield self._waits(sight)

    def _waits(self, sight: Sight) -> Metric:
        family = HistogramMetricFamily(
            "rltune_pending_age_seconds", "For how long the waiting jobs have waited", labels=["partition"]
        )
        ages: dict[str, list[float]] = {}
        for job in sight.snapshot.pending:
            age = sight.taken_s - job.came_s
            ages.setdefault(",".join(job.partitions), []).extend([age] * max(1, job.array_waiting))
        for partition, values in sorted(ages.items()):
            family.add_metric([partition], self._cumulated(values), sum(values))
        return family

    def _cumulated(self, values: Iterable[float]) -> list[tuple[str, float]]:
        counts = Counter(bisect_left(self._buckets, value) for value in values)
        made, total = [], 0
        for at, edge in enumerate((*self._buckets, math.inf)):
            total += counts[at]
            made.append(("+Inf" if math.isinf(edge) else repr(float(edge)), float(total)))
        return made


def _one(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=float(value))


def _pending(sight: Sight) -> Metric:
    family = GaugeMetricFamily("rltune_jobs_pending", "Jobs that wait", labels=["reason", "partition", "gpu_type"])
    for labels, value in sorted(sight.pending_kinds.items()):
        family.add_metric(labels, value)
    return family


def _gpus(sight: Sight) -> Iterator[Metric]:
    family = GaugeMetricFamily("rltune_gpus", "GPUs, by type and what they do", labels=["gpu_type", "state"])
    largest = GaugeMetricFamily("rltune_gpus_free_on_one_node", "The most free GPUs on one node", labels=["gpu_type"])
    for kind, count in sorted(sight.gpus_by_type.items()):
        states = {
            "allocated": count.used,
            "idle": count.whole_free,
            "fragmented": count.fragmented,
            "unavailable": count.down,
        }
        for state, value in states.items():
            family.add_metric([kind, state], value)
        largest.add_metric([kind], count.most_on_a_node)
    yield family
    yield largest


def _work(sight: Sight) -> Metric:
    family = GaugeMetricFamily(
        "rltune_decision_work", "Counters of the newest decision: passes, solves, searches, fallbacks", labels=["what"]
    )
    for what, value in sorted(sight.decision.work.items()):
        if isinstance(value, int | float):
            family.add_metric([what], float(value))
    return family
