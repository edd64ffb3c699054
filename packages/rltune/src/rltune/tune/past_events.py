"""What maintenance and outages of the past have to do with a gain: queues that they made will not come again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rltune.trials.intervals import Interval, over_blocks, ratio
from rltune.tune.stretches import blocks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rltune.cluster import Cluster
    from rltune.tune.stretches import BlockSums, HistoryStretch, StretchRunner
    from rltune.tune.tried_pipelines import Candidate


@dataclass(frozen=True)
class WithoutPast:
    """How a choice stands beside what there is now if nothing had gone down in the past."""

    maintenance: int  # windows of the cluster's file that lie in these parts
    outages: int
    testing: Interval  # chosen / now on the last part, without them
    together: Interval  # the same on both parts


def without_past(
    runner: StretchRunner, pair: tuple[Candidate, Candidate], parts: Sequence[HistoryStretch], confidence: float
) -> WithoutPast | None:
    """Run the choice and what there is now once more on both parts, as if no node had ever been down.

    None if the cluster's file has nothing of the kind in them.
    """
    submit = runner.jobs.submit_s
    begin, end = (float(submit[row]) for row in (parts[0].first, parts[-1].end - 1))
    windows, outages = _within(runner.cluster, begin, end)
    if not windows + outages:
        return None
    plain = replace(runner, cluster=replace(runner.cluster, maintenance=(), outages=()), _grounds={}, _trials={})
    made: list[list[BlockSums]] = [[plain((candidate, part)) for part in parts] for candidate in pair]
    last, both = (over_blocks(blocks_of(*of), ratio, confidence=confidence) for of in ([m[-1:] for m in made], made))
    return WithoutPast(windows, outages, last, both)


def _within(cluster: Cluster, begin_s: float, end_s: float) -> tuple[int, int]:
    """Count the maintenance windows and outages that touch a time."""
    windows = sum(one.start_s < end_s and one.end_s > begin_s for one in cluster.maintenance)
    return windows, sum(one.down_s < end_s and one.up_s > begin_s for one in cluster.outages)
