"""What a schedule was worth: every metric with its percentiles, and the bound that no schedule can beat."""

from rltune.metrics.bound import Bound, lower_bound
from rltune.metrics.distribution import Distribution
from rltune.metrics.fairness import Fairness, GroupFairness
from rltune.metrics.fragmentation import Fragmentation
from rltune.metrics.recorded import RecordedWait, recorded_wait
from rltune.metrics.summary import Summary, summarise
from rltune.metrics.timeline import Timeline, timeline
from rltune.metrics.utilisation import Utilisation

__all__ = [
    "Bound",
    "Distribution",
    "Fairness",
    "Fragmentation",
    "GroupFairness",
    "RecordedWait",
    "Summary",
    "Timeline",
    "Utilisation",
    "lower_bound",
    "recorded_wait",
    "summarise",
    "timeline",
]
