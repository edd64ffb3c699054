"""What an operator is told: by what both parts of a history show together."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rltune.trials.intervals import Interval
    from rltune.tune.tried_pipelines import Candidate

WATCHED_GAIN = 0.05  # on both parts together: enough to watch, though chance may explain it


class Advice(Enum):
    """What an operator is told."""

    CHANGE = "change"
    WATCH = "watch first"
    STAY = "stay"
    TOO_LITTLE = "too little history"


TO_CHANGE = frozenset({Advice.CHANGE, Advice.WATCH})  # answers that name something else than there is now


def decide(
    today: Candidate, chosen: Candidate, testing: Interval, together: Interval, *, doubted: bool = False
) -> Advice:
    """Decide by both parts together, or by the last if it shows the gain alone; the middle alone is not enough.

    The middle part chose the best of many, so what it shows of the choice is partly luck. The last part stops a change
    if it shows a loss; one of its queues on which the choice does worse takes the certainty away. However well a change
    is shown, it is watched first if it is doubted: somebody starves by it there, or replays of the site tell nothing.
    """
    lost = testing.low > 1 or testing.estimate == np.inf  # shown, or nobody waits now and somebody would
    if chosen.label == today.label or lost or together.estimate >= 1:
        return Advice.STAY
    if testing.estimate < 1 and any(one.high < 1 for one in (testing, together)):
        return Advice.WATCH if doubted else Advice.CHANGE
    if not np.isfinite(testing.estimate):
        return Advice.TOO_LITTLE  # nobody waits on the last part: it cannot say anything
    if together.estimate <= 1 - WATCHED_GAIN:
        return Advice.WATCH
    return Advice.TOO_LITTLE if testing.estimate < 1 else Advice.STAY
