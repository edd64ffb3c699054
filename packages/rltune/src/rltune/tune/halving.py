"""Successive halving: many candidates on little, few on all. What is run is counted out beforehand, not timed.

The budget in minutes is turned into jobs to run at fixed speeds (`rltune.tune.work`), so that the same history, settings
and seed give the same answer on every machine and on any number of cores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.trials.even_ratio import even_ratio
from rltune.trials.intervals import Interval, over_blocks, ratio
from rltune.tune.stretches import BlockSums, HistoryStretch, blocks_of
from rltune.tune.tried_pipelines import variations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rltune.tune.tried_pipelines import Candidate
    from rltune.tune.work import Site

    Run = Callable[[Sequence[tuple[Candidate, HistoryStretch]]], list[BlockSums]]

SEARCH_SHARE = 0.7  # of the budget; the rest is for the report on the last part
FINALISTS = 6
VARIED = 3  # of the best, whose parts are changed
SHARES = (0.25, 0.5)  # of the part, in the rounds before the last
PIECES = 2  # of the part in these rounds
KEPT = 3  # one of so many goes on
CALM = 0.02  # of the mean: blocks in which both wait less than this are alike
SECOND = 1.0
SMALL = 4_000  # jobs: a part this short is run as a whole in every round
JOINING = 4  # of the best of the first round are tried with what is dear as well
ENOUGH = 10_000  # jobs: who is dear is not tried at the price of a last round that is shorter


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
    """Which stretches each round runs, the last being one stretch, and who runs when."""

    early: tuple[tuple[HistoryStretch, ...], ...]
    final: HistoryStretch
    first: tuple[Candidate, ...]  # who runs from the first round on
    joining: tuple[Candidate, ...] = ()  # who may join in the second, if their like were among the best
    left_out: tuple[Candidate, ...] = ()  # who is too dear for this budget

    @classmethod
    def of(cls, part: HistoryStretch, candidates: Sequence[Candidate], minutes: float, site: Site) -> Rounds:
        """Plan rounds that the budget has room for.

        If it is short, candidates that are much work join in the second round, where their like did well in the first;
        if it is shorter still they are left out. Then stretches are made shorter by one factor.
        """
        if len(part) <= SMALL and site.seconds(candidates) * len(part) <= _search_s(minutes) / 2:
            return cls((), part, tuple(candidates))
        dear = tuple(c for c in candidates[1:] if site.dear(c))
        cheap = [c for c in candidates if c not in dear]  # what there is now, the first, is in every round
        scale = _scale(part, candidates, (), minutes, site)
        if not dear or scale >= 1:
            return cls._cut(part, scale, tuple(candidates))
        scale = _scale(part, cheap, dear, minutes, site)
        if scale * len(part) >= min(ENOUGH, len(part) / 2):
            return cls._cut(part, scale, tuple(cheap), joining=dear)
        return cls._cut(part, _scale(part, cheap, (), minutes, site), tuple(cheap), left_out=dear)

    @classmethod
    def _cut(cls, part: HistoryStretch, scale: float, first: tuple[Candidate, ...], **others: Any) -> Rounds:
        shorter = tuple(part.cut(PIECES, share * min(scale, 1.0)) for share in SHARES)
        return cls(shorter, part.last(max(1, int(len(part) * min(scale, 1.0)))), first, **others)

    def joined(self, order: Sequence[Candidate]) -> list[Candidate]:
        """Return who joins after the first round: those that are like the best but for what they know of run times."""
        like = {c.pipeline.label for c in order[:JOINING]}
        return [c for c in self.joining if c.pipeline.label in like]


def _search_s(minutes: float) -> float:
    return SEARCH_SHARE * 60.0 * minutes


def _scale(
    part: HistoryStretch, first: Sequence[Candidate], joining: Sequence[Candidate], minutes: float, site: Site
) -> float:
    """Return by which factor stretches must be shorter for the rounds to fit the budget; above 1 there is room."""
    tried = [*first, *joining]
    early = site.seconds(first), site.seconds(first) / KEPT
    join = min(1.0, JOINING / max(len({c.pipeline.label for c in joining}), 1)) * site.seconds(joining)
    last = (max(FINALISTS, len(first) / KEPT**2) + 1) * site.seconds(tried) / len(tried)
    changed = variations(tried[:1], sorted({c.estimator for c in tried}), solver=False)
    all_tried = any(map(site.dear, tried[1:]))
    varied = VARIED * site.seconds(c for c in changed if all_tried or not site.dear(c))
    work = (SHARES[0] * early[0] + SHARES[1] * (early[1] + join) + last + varied) * len(part)
    stretches = PIECES + 1 if joining else PIECES * len(SHARES) + 1
    return max(_search_s(minutes) - stretches * site.learn_s(tried), 0.0) / work


def halve(rounds: Rounds, always: Candidate, score: Scoreboard, run: Run) -> list[Candidate]:
    """Return the candidates that reach the last round, best first; `always` is among them."""
    left = list(rounds.first)
    for number, stretches in enumerate(rounds.early):
        measure(left, stretches, score, run)
        order = best(left, stretches, score, len(left))
        left = order[: max(FINALISTS, -(-len(left) // KEPT))]
        left += rounds.joined(order) if number == 0 else []
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
