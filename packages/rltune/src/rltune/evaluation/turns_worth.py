"""What taking turns would be worth here: by the share of jobs that agree to it, and by what a restart costs.

Both sides are chosen on the validation part of a history: the best pipeline without turns, and the best way of taking
turns around its policy, whose order those keep who may not be displaced. Then they are frozen and run on the contended
windows of the test part, for every share and every cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.engine.parse_pipeline import read_pipeline
from rltune.engine.turns import get_turns
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.evaluation.consent import CHECKPOINT_S, Consent, ConsentTrial
from rltune.evaluation.evaluate import HeldOutTrial, beside_fcfs, run_part, settle_cut
from rltune.evaluation.results import Results
from rltune.evaluation.turns_verdict import ConsentWorth, TurnsWorth
from rltune.evaluation.who_pays_for_turns import Payers
from rltune.parallel import Here
from rltune.trials.parts import split
from rltune.trials.trial import Trial, in_order

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.engine.pipeline import Pipeline
    from rltune.evaluation.evaluate import Progress
    from rltune.jobs import Floats, Jobs
    from rltune.parallel import Spread
    from rltune.trials.parts import Split

STARTS_A_WINDOW = 4  # fewer than elsewhere: every cell of the table runs all of them
SHARES = (0.1, 0.3, 0.5, 1.0)
RESTARTS_S = (30.0, 120.0, 600.0)
_RULES = ("fcfs", "sjf", "saf", "wfp3", "unicep", "f1")
WITHOUT = tuple(f"{rule}{backfill}" for rule in _RULES for backfill in ("", " + fit-first", " + easy"))
WAYS = tuple((order, backfill) for order in ("las", "gittins", "srsf") for backfill in ("fit-first", "easy"))


def turns_worth(
    jobs: Jobs,
    cluster: Cluster,
    shares: Sequence[float] = SHARES,
    restarts_s: Sequence[float] = RESTARTS_S,
    checkpoint_s: float = CHECKPOINT_S,
    estimator: Any = "history",
    *,
    without: Sequence[str] = WITHOUT,
    turns: Sequence[str] | None = None,
    guard: str | None = None,
    holdout: float = 0.0,
    size: int | None = None,
    every: int | None = None,
    contended_s: float | None = None,
    seed: int = 0,
    spread: Spread | None = None,
    progress: Progress | None = None,
) -> TurnsWorth:
    """Return what taking turns would be worth on a history.

    Args:
        jobs: The workload; who in it may be displaced does not count: shares are drawn by lot.
        cluster: The machine.
        shares: Which shares of the jobs agree to be displaced.
        restarts_s: What a restart may cost.
        checkpoint_s: How often jobs write checkpoints.
        estimator: What is known of run times.
        without: The pipelines without turns, of which the best on the validation part is chosen.
        turns: The pipelines with turns, likewise; if not told, some around the policy of the best without.
        guard: A bound on how long a job may be overtaken, around all of them.
        holdout: The share of the trace that is the test part, and as much before it the validation part; 0 = a tenth,
            more of a short history.
        size: The jobs of a window; if not told 1,024, or fewer of a short history.
        every: How many jobs lie between the starts of two windows; if not told a quarter of a window.
        contended_s: A window counts if FCFS without backfilling waits more than this on average; if not told 600 s, or
            less if too few windows wait as long.
        seed: For everything that is drawn.
        spread: Where the work is done; in this process if not told.
        progress: Called with the windows done, the windows in all and the part.
    """
    if not shares or not restarts_s:
        raise InputError("give at least one share and one length of a restart")
    ordered, estimator = in_order(jobs.from_when_ready(), estimator)
    parts = split(len(ordered), holdout)
    work = spread or Here()
    cut = settle_cut(ordered, cluster, parts.test, work, (size or 0, every or 0, contended_s), STARTS_A_WINDOW)
    study = _Study(ordered, cluster, estimator, seed, parts, cut.size, cut.every, cut.contended_s, work, progress)
    plain, given = (
        [read_pipeline(text, seed=seed, **({"guard": guard} if guard else {})) for text in texts]
        for texts in (without, turns or ())
    )
    usual = sorted(restarts_s)[len(restarts_s) // 2]
    consent = Consent(1.0, usual, checkpoint_s)
    best = study.best(plain, consent)
    tried = ways_around(best) if turns is None else given
    consents = tuple(Consent(share, restart, checkpoint_s) for restart in restarts_s for share in sorted(shares))
    return study.judged(_Sides(best, study.best(tried, consent)), consents, len(plain) + len(tried))


def ways_around(best: Pipeline) -> list[Pipeline]:
    """Return ways of taking turns in which those who may not be displaced keep the order of a pipeline without."""
    return [replace(best, backfill=backfill, turns=get_turns(order)) for order, backfill in WAYS]


@dataclass(frozen=True)
class _Sides:
    """The best pipeline of each side."""

    without: Pipeline
    turns: Pipeline


@dataclass(frozen=True)
class _Study:
    """A history, cut into parts and windows, and where the work is done."""

    jobs: Jobs
    cluster: Cluster
    estimator: Any
    seed: int
    parts: Split
    size: int
    every: int
    contended_s: float
    spread: Spread
    progress: Progress | None

    def trial(self, consent: Consent) -> Trial:
        """Return the history with those willing who agree."""
        willing = consent.applied(self.jobs, self.cluster, self.seed)
        return Trial(willing, self.cluster, self.estimator, seed=self.seed)

    def best(self, pipelines: list[Pipeline], consent: Consent) -> Pipeline:
        """Return that with the least mean delay on the validation part."""
        if not pipelines:
            raise InputError("give pipelines without turns and pipelines with turns")
        trial = HeldOutTrial(self.trial(consent), beside_fcfs(pipelines), self.size, self.contended_s, ())
        results = run_part(trial, self.parts.validation, self.size, self.spread, self.progress)
        delays = results.means("delay")
        return min(pipelines, key=lambda one: delays[[p.label for p in results.pipelines].index(one.label)])

    def judged(self, sides: _Sides, consents: tuple[Consent, ...], among: int) -> TurnsWorth:
        """Run both sides on the windows of the test part, with each consent."""
        nobody = self.trial(replace(consents[0], share=0.0))
        willing = tuple(self.trial(consent) for consent in consents)
        trial = ConsentTrial(nobody, willing, sides.without, sides.turns, self.size, self.contended_s)
        starts = self.parts.test.starts(self.size, self.every)
        made = self.spread.map(trial, starts, lambda done: self._tell(done, len(starts)))
        outcomes = [None if one is None else one[0] for one in made]
        fcfs = beside_fcfs([sides.without])[0]
        run = (fcfs, sides.without, *(sides.turns for _ in consents))
        test = Results.of(self.parts.test, run, starts, outcomes, self.size, self.every)
        ledgers = [one[1] for one in made if one is not None]
        return TurnsWorth(
            without=sides.without.label,
            turns=sides.turns.label,
            estimator=get_estimator(self.estimator).name,
            without_delay_s=test.mean(1, "delay"),
            windows=len(test.starts),
            disjoint=test.disjoint,
            size=self.size,
            cells=tuple(_worth(test, i, consent, [row[i] for row in ledgers]) for i, consent in enumerate(consents)),
            among=among,
        )

    def _tell(self, done: int, of: int) -> None:
        if self.progress is not None:
            self.progress(done, of, "test part")


def _worth(test: Results, i: int, consent: Consent, ledgers: list[dict[str, Floats]]) -> ConsentWorth:
    total: dict[str, Floats] = {}
    for ledger_ in ledgers:
        for name, row in ledger_.items():
            total[name] = total.get(name, np.zeros(len(row))) + row
    at = i + 2  # behind FCFS and the one without turns
    return ConsentWorth(
        consent=consent,
        delay_s=test.mean(at, "delay"),
        ratio=test.ratio(at, 1, "delay"),
        p99_ratio=test.ratio(at, 1, "delay-p99"),
        preemptions=test.mean(at, "preemptions"),
        lost_share=test.mean(at, "lost"),
        payers=Payers(str(consent), total),
    )
