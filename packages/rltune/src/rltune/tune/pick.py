"""Which of the candidates is taken: the best, unless one that changes less cannot be told from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltune.trials.intervals import over_blocks, ratio
from rltune.tune.stretches import blocks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rltune.tune.halving import Scoreboard
    from rltune.tune.stretches import HistoryStretch
    from rltune.tune.tried_pipelines import Candidate

WORTH = 0.01  # a gain below this is none
NEAR = 0.1  # of the best's score: who is further off is not as good, however noisy the blocks are
ONE_ERROR = 0.68  # confidence of an interval of one standard error to either side


def pick(order: Sequence[Candidate], score: Scoreboard, final: HistoryStretch) -> Candidate:
    """Return the candidate to propose: what there is now, unless something is better by WORTH.

    The best of many on one stretch is partly lucky. Of those that are as good as the best but for chance the one that
    changes least of what there is now is taken, then the plainest; a learned policy, being the least plain, only where
    it won by more than chance. Who stands before one that is as good is as good too, however steady its lag is.
    """
    values = {c.label: score.score(c, [final]) for c in order}
    first = min(order, key=lambda c: (values[c.label], c.plainness, c.label))
    if values[first.label] > (1 - WORTH) * values[score.now.label]:
        return score.now
    reach = max(values[c.label] for c in order if _as_good(c, first, values, score, final))
    alike = [c for c in order if values[c.label] <= reach]
    return min(alike, key=lambda c: (*preference(c, score.now), values[c.label]))


def preference(one: Candidate, now: Candidate) -> tuple[bool, int, tuple[int, int]]:
    """Order candidates that chance may part: a rule before a model, then fewest parts changed, then the plainest."""
    return one.pipeline.learned, len(one.changes_from(now)), one.plainness


def _as_good(
    one: Candidate, best: Candidate, values: dict[str, float], score: Scoreboard, final: HistoryStretch
) -> bool:
    """Return whether a candidate stands beside the best but for chance, and still gains over what there is now."""
    value, least = values[one.label], values[best.label]
    if value > (1 - WORTH) * values[score.now.label] or value > (1 + NEAR) * least:
        return False
    if value <= (1 + WORTH) * least:
        return True
    pair = [[score.outcomes[c.label, final]] for c in (one, best)]
    return bool(over_blocks(blocks_of(*pair), ratio, confidence=ONE_ERROR).low <= 1)
