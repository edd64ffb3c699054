"""How much of a history each round runs: work is counted, never timed.

The budget in minutes is turned into jobs to run at fixed speeds (`rltune.tune.work`), so that the same history,
settings and seed give the same answer on every machine and on any number of cores. Queues make runs slow, and how long
they are is seen only in a run: so before every round what there is now is run on it, and the round is cut shorter if
its queue is longer than was thought.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rltune.tune.tried_pipelines import variations
from rltune.tune.work import LEARN_S, learnt_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rltune.tune.stretches import HistoryStretch
    from rltune.tune.tried_pipelines import Candidate
    from rltune.tune.work import RunWork

SEARCH_SHARE = 0.7  # of the budget; the rest is for the report on the last part
FINALISTS = 6
VARIED = 3  # of the best, whose parts are changed
SHARES = (0.25, 0.5)  # of the part, in the rounds before the last
PIECES = 2  # of the part in these rounds
KEPT = 3  # one of so many goes on
SMALL = 4_000  # jobs: a part this short is run as a whole in every round
JOINING = 4  # of the best of the first round are tried with what is dear as well
ENOUGH = 10_000  # jobs: who is dear is not tried at the price of a last round that is shorter


@dataclass
class Plan:
    """What a budget has room for: who runs when, and on how many jobs."""

    part: HistoryStretch
    first: tuple[Candidate, ...]  # who runs from the first round on; what there is now is the first of them
    minutes: float
    site: RunWork
    joining: tuple[Candidate, ...] = ()  # who may join in the second round, if their like were among the best
    left_out: tuple[Candidate, ...] = ()  # who is too much work for this budget
    rounds: int = len(SHARES)  # before the last
    spent_s: float = 0.0
    known: set[tuple[str, HistoryStretch]] = field(default_factory=set)  # what estimators have learnt already
    final: HistoryStretch = field(init=False)  # the last round's

    def __post_init__(self) -> None:
        self.final = self.part

    @classmethod
    def of(cls, part: HistoryStretch, candidates: Sequence[Candidate], minutes: float, site: RunWork) -> Plan:
        """Plan for a budget.

        If it is short, candidates that are much work join in the second round, where their like did well in the first;
        if it is shorter still they are left out.
        """
        whole = cls(part, tuple(candidates), minutes, site)
        if len(part) <= SMALL and site.seconds(candidates) * len(part) <= whole.left_s / 2:
            return replace(whole, rounds=0)
        dear = tuple(c for c in candidates[1:] if site.dear(c))
        if not dear or whole.scale(0, candidates) >= 1:
            return whole
        cheap = tuple(c for c in candidates if c not in dear)
        joined = cls(part, cheap, minutes, site, joining=dear)
        if joined.scale(0, cheap) * len(part) >= min(ENOUGH, len(part) / 2):
            return joined
        return cls(part, cheap, minutes, site, left_out=dear)

    @property
    def left_s(self) -> float:
        """Return what is left of the budget for trying, in seconds of work."""
        return self._left_of(SEARCH_SHARE)

    def _left_of(self, share: float) -> float:
        return max(share * 60.0 * self.minutes - self.spent_s, 0.0)

    def scale(self, number: int, left: Sequence[Candidate]) -> float:
        """Return by which factor stretches must be shorter from this round on to fit; above 1 there is room."""
        tried = (*left, *self.joining) if number == 0 else tuple(left)
        each = self.site.seconds(left)
        works = [SHARES[0] * each, SHARES[1] * (each / KEPT + self._join_s())] if number == 0 else []
        works += [SHARES[1] * each] if number == 1 else []
        finalists = len(left) if number == self.rounds else max(FINALISTS, len(left) / KEPT ** (2 - number)) + 1
        works += [finalists * self.site.seconds(tried) / len(tried), self._varied_s()]
        stretches = PIECES * (self.rounds - number) + 1 - (PIECES if self.joining and number == 0 else 0)
        budget = max(self.left_s - stretches * sum(LEARN_S[name] for name in learnt_by(tried)), 0.0)
        return budget / (sum(works) * len(self.part))

    def _join_s(self) -> float:
        """Return the work of a job under those who may be expected to join, in seconds."""
        models = [c for c in self.joining if c.pipeline.learned]
        others = [c for c in self.joining if not c.pipeline.learned]
        share = min(1.0, JOINING / max(len({c.pipeline.label for c in others}), 1))
        return share * self.site.seconds(others) + self.site.seconds(models) / 2

    def _varied_s(self) -> float:
        """Return the work of a job under all changes of the best, in seconds."""
        estimators = sorted({c.estimator for c in (*self.first, *self.joining)})
        changed = variations(self.first[:1], estimators, solver=False)
        return VARIED * self.site.seconds(c for c in changed if self.allows(c))

    def allows(self, candidate: Candidate) -> bool:
        """Return whether the budget has room for such a candidate at all."""
        return not (self.left_out and self.site.dear(candidate))

    def cut(self, number: int, scale: float) -> tuple[HistoryStretch, ...]:
        """Return the stretches of a round; the last is one stretch, of the newest jobs."""
        if number < self.rounds:
            return self.part.cut(PIECES, SHARES[number] * min(scale, 1.0))
        return (self.part.last(max(1, int(len(self.part) * min(scale, 1.0)))),)

    def spend(self, candidates: Sequence[Candidate], stretches: Sequence[HistoryStretch]) -> None:
        """Note that candidates were run on stretches."""
        self.spent_s += sum(self._cost_s(candidates, stretch) for stretch in stretches)
        self.known |= {(name, stretch) for name in learnt_by(candidates) for stretch in stretches}

    def _cost_s(self, candidates: Sequence[Candidate], stretch: HistoryStretch) -> float:
        """Return the work of a stretch; what an estimator learns before it is learnt once."""
        new = [name for name in learnt_by(candidates) if (name, stretch) not in self.known]
        return self.site.seconds(candidates) * len(stretch) + sum(LEARN_S[name] for name in new)

    def affordable(self, candidates: Sequence[Candidate], share: float = SEARCH_SHARE) -> list[Candidate]:
        """Return those for whom a share of the budget has room in the last round, the least work first, and take it."""
        kept: list[Candidate] = []
        for candidate in sorted(candidates, key=self.site.job_us):
            if self.allows(candidate) and self._cost_s([candidate], self.final) <= self._left_of(share):
                self.spend([candidate], [self.final])
                kept.append(candidate)
        return kept

    def joined(self, order: Sequence[Candidate]) -> list[Candidate]:
        """Return who joins after the first round.

        These are candidates like the best but for what they know of run times, and models with the best's backfilling.
        """
        like = {c.pipeline.label for c in order[:JOINING]}
        backfill = order[0].pipeline.backfill
        return [
            c
            for c in self.joining
            if c.pipeline.label in like or (c.pipeline.learned and c.pipeline.backfill == backfill)
        ]
