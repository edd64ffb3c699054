"""Successive halving: many candidates on little, few on all. How much each round runs is `rltune.tune.plan`'s."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from rltune.trials.even_ratio import even_ratio
from rltune.trials.intervals import Interval, over_blocks, ratio
from rltune.tune.plan import FINALISTS, KEPT
from rltune.tune.stretches import BlockSums, HistoryStretch, blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rltune.tune.plan import Plan
    from rltune.tune.tried_pipelines import Candidate

    Run = Callable[[Sequence[tuple[Candidate, HistoryStretch]]], list[BlockSums]]

CALM = 0.02  # of the mean: blocks in which both wait less than this are alike
SECOND = 1.0
SHORTER = 0.9  # a round that must be shorter than this share of what was planned is cut again
CUTS = 4  # at most


@dataclass
class Scoreboard:
    """What has been measured of each candidate, round by round."""

    now: Candidate  # against whom all are measured
    outcomes: dict[tuple[str, HistoryStretch], BlockSums] = field(default_factory=dict)

    def mean(self, candidate: Candidate, stretches: Sequence[HistoryStretch]) -> float:
        """Return the mean over stretches; infinite where nothing ran."""
        made = [self.outcomes[candidate.label, stretch] for stretch in stretches]
        jobs = sum(sum(o.counts) for o in made)
        return sum(sum(o.sums) for o in made) / jobs if jobs else np.inf

    def score(self, candidate: Candidate, stretches: Sequence[HistoryStretch]) -> float:
        """Return how a candidate stands beside what there is now: half by the mean, half by blocks of time.

        The mean alone is decided by the one longest queue, and another month has another.
        """
        ours, theirs = self.mean(candidate, stretches), self.mean(self.now, stretches)
        pair = [[self.outcomes[c.label, stretch] for stretch in stretches] for c in (candidate, self.now)]
        blocks = blocks_of(*pair).with_both()
        if not len(blocks) or not np.isfinite(ours):
            return np.inf
        found, base = blocks.ours / blocks.our_count, blocks.theirs / blocks.their_count
        floor = SECOND + CALM * theirs
        sums = np.array((ours + SECOND) / (theirs + SECOND))
        return float(even_ratio(sums, found, base, floor))

    def ratio(self, ours: Candidate, theirs: Candidate, stretch: HistoryStretch, confidence: float) -> Interval:
        """Divide the mean of one candidate by that of another on a stretch."""
        pair = [[self.outcomes[c.label, stretch]] for c in (ours, theirs)]
        return over_blocks(blocks_of(*pair), ratio, confidence=confidence)


def halve(plan: Plan, score: Scoreboard, run: Run) -> list[Candidate]:
    """Return the candidates that reach the last round, best first; what there is now is among them."""
    left = list(plan.first)
    for number in range(plan.rounds):
        stretches = _settled(plan, number, left, score, run)
        measure(left, stretches, score, run)
        plan.spend(left, stretches)
        order = best(left, stretches, score, len(left))
        left = order[: max(FINALISTS, -(-len(left) // KEPT))]
        left += plan.joined(order) if number == 0 else []
        left += [score.now] if score.now.label not in {c.label for c in left} else []
    plan.final = _settled(plan, plan.rounds, left, score, run)[0]
    measure(left, [plan.final], score, run)
    plan.spend(left, [plan.final])
    return best(left, [plan.final], score, len(left))


def _settled(
    plan: Plan, number: int, left: Sequence[Candidate], score: Scoreboard, run: Run
) -> tuple[HistoryStretch, ...]:
    """Return the stretches of a round, after what there is now was run on them: its queue tells how much work it is."""
    if not plan.rounds:
        return (plan.part,)
    scale = plan.scale(number, left)
    for _ in range(CUTS):
        stretches = plan.cut(number, scale)
        measure([score.now], stretches, score, run)
        plan.spend([score.now], stretches)
        plan.site = replace(plan.site, queue=max(score.outcomes[score.now.label, s].queue for s in stretches))
        fits = plan.scale(number, left)
        if fits >= SHORTER * min(scale, 1.0):
            break
        scale = fits
    return stretches


def measure(candidates: Sequence[Candidate], stretches: Sequence[HistoryStretch], score: Scoreboard, run: Run) -> None:
    """Run what has not been run yet."""
    tasks = [(c, s) for s in stretches for c in sorted(candidates, key=lambda c: c.estimator)]
    missing = [(c, s) for c, s in tasks if (c.label, s) not in score.outcomes]
    for (candidate, stretch), outcome in zip(missing, run(missing), strict=True):
        score.outcomes[candidate.label, stretch] = outcome


def best(
    candidates: Sequence[Candidate], stretches: Sequence[HistoryStretch], score: Scoreboard, most: int
) -> list[Candidate]:
    """Return the best so many, the best first; of equals the plainer."""
    order = sorted(candidates, key=lambda c: (score.score(c, stretches), c.plainness, c.label))
    return order[:most]
