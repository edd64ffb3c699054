"""Successive halving: many candidates on little, few on all. What is run is counted out beforehand, not timed.

Work is counted in jobs run under a plain rule. The budget in minutes is turned into such jobs at a fixed speed, so that
the same history, settings and seed give the same answer on every machine and on any number of cores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rltune.trials.even_ratio import even_ratio
from rltune.trials.intervals import Interval, over_blocks, ratio
from rltune.tune.stretches import BlockSums, HistoryStretch, blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rltune.tune.tried_pipelines import Candidate

    Run = Callable[[Sequence[tuple[Candidate, HistoryStretch]]], list[BlockSums]]

JOBS_A_MINUTE = 600_000.0  # under a rule, on one slow core
FINALISTS = 6
VARIED = 3  # of the best, whose parts are changed
SHARES = (0.25, 0.5)  # of the part, in the rounds before the last
PIECES = 2  # of the part in these rounds
KEPT = 3  # one of so many goes on
CALM = 0.02  # of the mean: blocks in which both wait less than this are alike
SECOND = 1.0
SMALL = 4_000  # jobs: a part this short is run as a whole in every round


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


@dataclass(frozen=True)
class Rounds:
    """Which stretches each round runs; the last is one stretch."""

    early: tuple[tuple[HistoryStretch, ...], ...]
    final: HistoryStretch

    @classmethod
    def of(cls, part: HistoryStretch, candidates: Sequence[Candidate], minutes: float) -> Rounds:
        """Plan rounds that the budget has room for: stretches are made shorter by one factor if they must be."""
        if len(part) <= SMALL and _work(candidates, [part]) <= minutes * JOBS_A_MINUTE / 2:
            return cls((), part)
        early = tuple(part.cut(PIECES, share) for share in SHARES)
        sizes = [_work(candidates, early[0]), _work(candidates, early[1]) / KEPT, 2.0 * FINALISTS * len(part)]
        scale = min(1.0, minutes * JOBS_A_MINUTE / sum(sizes))
        shorter = tuple(part.cut(PIECES, share * scale) for share in SHARES)
        return cls(shorter, part.last(max(1, int(len(part) * scale))))


def _work(candidates: Sequence[Candidate], stretches: Sequence[HistoryStretch]) -> float:
    return sum(c.cost for c in candidates) * sum(len(s) for s in stretches)


def halve(
    candidates: list[Candidate], rounds: Rounds, always: Candidate, score: Scoreboard, run: Run
) -> list[Candidate]:
    """Return the candidates that reach the last round, best first; `always` is among them."""
    left = list(candidates)
    for stretches in rounds.early:
        measure(left, stretches, score, run)
        left = best(left, stretches, score, max(FINALISTS, -(-len(left) // KEPT)))
        left += [always] if always.label not in {c.label for c in left} else []
    measure(left, [rounds.final], score, run)
    return best(left, [rounds.final], score, len(left))


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
