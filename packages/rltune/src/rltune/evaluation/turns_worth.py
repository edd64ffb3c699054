"""What taking turns would be worth here: by the share of jobs that agree to it, and by what a restart costs.

Both sides are chosen on the validation part of a history: the best pipeline without turns, and the best with. Then they
are frozen and run on the contended windows of the test part, for every share and every cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.engine.parse_pipeline import read_pipeline
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.evaluation.evaluate import HeldOutTrial, beside_fcfs, run_part
from rltune.evaluation.results import Results
from rltune.evaluation.who_pays_for_turns import DISPLACED, JOBS, Payers, ledger
from rltune.opt_in import opted_in
from rltune.parallel import Here
from rltune.preemption_rules import PreemptionRule
from rltune.text import percent, seconds
from rltune.trials.contention import CONTENDED_S, fcfs_schedule, is_contended, mean_wait_s
from rltune.trials.outcome import Outcome
from rltune.trials.parts import split, usual_size
from rltune.trials.trial import Trial, in_order

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.engine.pipeline import Pipeline
    from rltune.evaluation.evaluate import Progress
    from rltune.jobs import Floats, Jobs
    from rltune.parallel import Spread
    from rltune.trials.intervals import Interval

SHARES = (0.1, 0.3, 0.5, 1.0)
RESTARTS_S = (30.0, 120.0, 600.0)
CHECKPOINT_S = 600.0
_ENOUGH = 10  # windows that share no job, for an interval to say something
_PROMISING = 0.9
_RULES = ("fcfs", "sjf", "saf", "wfp3", "unicep", "f1")
WITHOUT = tuple(f"{rule}{backfill}" for rule in _RULES for backfill in ("", " + fit-first", " + easy"))
WITH = tuple(
    f"{rule}+preempt:{order}{backfill}"
    for order, rule in (("las", "fcfs"), ("las", "saf"), ("gittins", "fcfs"), ("srsf", "fcfs"))
    for backfill in (" + fit-first", " + easy")
)


@dataclass(frozen=True)
class Consent:
    """Which share of the jobs may be displaced, and what it costs them."""

    share: float
    restart_s: float
    checkpoint_s: float = CHECKPOINT_S

    def applied(self, jobs: Jobs, cluster: Cluster, seed: int) -> Jobs:
        """Return the jobs of which such a share, by lot, may be displaced, and nobody else."""
        drawn = PreemptionRule(share=self.share, seed=seed, checkpoint=self.checkpoint_s, restart=self.restart_s)
        rules = (drawn, PreemptionRule(preemptible=False))
        return opted_in(jobs, replace(cluster, preemption=rules))

    def __str__(self) -> str:
        return f"{percent(self.share)} of jobs, restarts of {seconds(self.restart_s)}"


@dataclass(frozen=True)
class Worth:
    """What taking turns came to with one consent, over the windows of the test part."""

    consent: Consent
    delay_s: float
    ratio: Interval  # of the mean delay to that without turns
    p99_ratio: Interval
    preemptions: float  # a job
    lost_share: float  # of GPU time
    payers: Payers

    @property
    def shown(self) -> bool:
        """Return whether it is shown to be better than no turns."""
        return self.ratio.high < 1

    @property
    def worse(self) -> bool:
        """Return whether it is shown to be worse."""
        return self.ratio.low > 1


@dataclass(frozen=True)
class TurnsWorth:
    """All of it: the two sides, and what each consent came to."""

    without: str  # the pipeline that was chosen without turns
    turns: str  # and with
    estimator: str
    without_delay_s: float
    windows: int
    disjoint: int
    size: int
    cells: tuple[Worth, ...]
    among: int  # pipelines that the two were chosen among

    @property
    def verdict(self) -> str:
        """Return in a sentence or two what an operator should conclude."""
        usual = [cell for cell in self.cells if cell.consent.restart_s == self._usual_restart_s]
        paying = [cell for cell in usual if cell.shown]
        best = min(usual, key=lambda cell: cell.ratio.estimate)
        if not paying:
            return self._nothing_shown(best, worse=any(cell.worse for cell in usual))
        least = paying[0]
        return (
            f"With {percent(least.consent.share)} of the jobs willing to give way the mean delay is {_of(least.ratio)} "
            f"of the best without turns; with {percent(best.consent.share)} it is {_of(best.ratio)}. "
            f"Restarts of {seconds(best.consent.restart_s)} and checkpoints every "
            f"{seconds(best.consent.checkpoint_s)} are assumed; {percent(best.lost_share)} of GPU time goes into them."
        )

    def _nothing_shown(self, best: Worth, *, worse: bool) -> str:
        if worse:
            return "Taking turns is shown to make things worse here. Stay without."
        if self.disjoint < _ENOUGH and best.ratio.estimate < _PROMISING:
            return (
                f"Too little history to tell: over {self.disjoint} windows the mean delay is {_of(best.ratio)} of the "
                f"best without turns. {_ENOUGH} windows that share no job are needed, so about "
                f"{_ENOUGH / max(self.disjoint, 1):.0f} times this history, or smaller windows."
            )
        return "Taking turns is not shown to be worth anything here. Stay without."

    @property
    def _usual_restart_s(self) -> float:
        """Return the middle of the restart costs that were tried."""
        tried = sorted({cell.consent.restart_s for cell in self.cells})
        return tried[len(tried) // 2]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; what cannot be told is None."""
        from rltune.metrics.formats import plain

        cells = [
            {
                **asdict(cell.consent),
                "delay_s": cell.delay_s,
                "ratio": asdict(cell.ratio),
                "p99_ratio": asdict(cell.p99_ratio),
                "preemptions_a_job": cell.preemptions,
                "lost_share": cell.lost_share,
            }
            for cell in self.cells
        ]
        facts = {name: value for name, value in self.__dict__.items() if name != "cells"}
        values: dict[str, Any] = plain({**facts, "verdict": self.verdict, "cells": cells})
        return values


def _of(value: Interval) -> str:
    return f"{value.estimate:.2f} [{value.low:.2f}, {value.high:.2f}]"


@dataclass(frozen=True)
class ConsentTrial:
    """Called with the row at which a window starts: outcomes of FCFS, without turns, and with each consent."""

    plain: Trial
    willing: tuple[Trial, ...]
    without: Pipeline
    turns: Pipeline
    size: int
    contended_s: float

    def __call__(self, first: int) -> tuple[list[Outcome], list[dict[str, Floats]]] | None:
        """Run the window, if it is contended."""
        fcfs = fcfs_schedule(self.plain.window(first, self.size), self.plain.cluster)
        if not is_contended(mean_wait_s(fcfs), self.contended_s):
            return None
        base = self.plain.run(self.without, first, self.size)
        made = [trial.run(self.turns, first, self.size) for trial in self.willing]
        outcomes = [Outcome.of(schedule, first, ()) for schedule in (fcfs, base, *made)]
        return outcomes, [ledger(base, schedule, np.ones(self.size, dtype=bool)) for schedule in made]


def turns_worth(
    jobs: Jobs,
    cluster: Cluster,
    shares: Sequence[float] = SHARES,
    restarts_s: Sequence[float] = RESTARTS_S,
    checkpoint_s: float = CHECKPOINT_S,
    estimator: Any = "history",
    *,
    without: Sequence[str] = WITHOUT,
    turns: Sequence[str] = WITH,
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
        turns: The pipelines with turns, likewise.
        guard: A bound on how long a job may be overtaken, around all of them.
        holdout: The share of the trace that is the test part, and as much before it the validation part; 0 = a tenth,
            more of a short history.
        size: The jobs of a window; if not told 1,024, or fewer of a short history.
        every: How many jobs lie between the starts of two windows; if not told a quarter of a window.
        contended_s: A window counts if FCFS without backfilling waits more than this on average; if not told 600 s.
        seed: For everything that is drawn.
        spread: Where the work is done; in this process if not told.
        progress: Called with the windows done, the windows in all and the part.
    """
    if not shares or not restarts_s:
        raise InputError("give at least one share and one length of a restart")
    ordered, estimator = in_order(jobs, estimator)
    parts, work = split(len(ordered), holdout), spread or Here()
    size = size or usual_size(parts.test)
    every = every or max(1, size // 4)
    contended_s = CONTENDED_S if contended_s is None else contended_s
    usual = sorted(restarts_s)[len(restarts_s) // 2]
    everybody = Consent(1.0, usual, checkpoint_s).applied(ordered, cluster, seed)
    pipelines = [read_pipeline(text, seed=seed, **({"guard": guard} if guard else {})) for text in (*without, *turns)]
    lined_up = beside_fcfs(pipelines)
    trial = HeldOutTrial(Trial(everybody, cluster, estimator, seed=seed), lined_up, size, contended_s, ())
    validation = run_part(trial, parts.validation, size, work, progress)
    best = _best(validation)
    consents = tuple(Consent(share, restart, checkpoint_s) for restart in restarts_s for share in sorted(shares))
    nobody = Consent(0.0, usual, checkpoint_s).applied(ordered, cluster, seed)
    judged = ConsentTrial(
        Trial(nobody, cluster, estimator, seed=seed),
        tuple(Trial(c.applied(ordered, cluster, seed), cluster, estimator, seed=seed) for c in consents),
        best[False],
        best[True],
        size,
        contended_s,
    )
    starts = parts.test.starts(size, every)

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, len(starts), "test part")

    made = work.map(judged, starts, tell)
    outcomes = [None if one is None else one[0] for one in made]
    sides = (beside_fcfs(pipelines)[0], best[False], *(best[True] for _ in consents))
    test = Results.of(parts.test, sides, starts, outcomes, size, every)
    ledgers = [one[1] for one in made if one is not None]
    return TurnsWorth(
        without=best[False].label,
        turns=best[True].label,
        estimator=get_estimator(estimator).name,
        without_delay_s=test.mean(1, "delay"),
        windows=len(test.starts),
        disjoint=test.disjoint,
        size=size,
        cells=tuple(_worth(test, i, consent, [row[i] for row in ledgers]) for i, consent in enumerate(consents)),
        among=len(pipelines),
    )


def _best(results: Results) -> dict[bool, Pipeline]:
    """Return the pipelines with the least mean delay, without turns (False) and with (True)."""
    means = results.means("delay")
    best: dict[bool, Pipeline] = {}
    for i in np.argsort(means, kind="stable").tolist():
        best.setdefault(bool(results.pipelines[i].turns), results.pipelines[i])
    if len(best) < 2:
        raise InputError("give pipelines without turns and pipelines with turns")
    return best


def _worth(test: Results, i: int, consent: Consent, ledgers: list[dict[str, Floats]]) -> Worth:
    total: dict[str, Floats] = {}
    for ledger_ in ledgers:
        for name, row in ledger_.items():
            total[name] = total.get(name, np.zeros(len(row))) + row
    at = i + 2  # behind FCFS and the one without turns
    return Worth(
        consent=consent,
        delay_s=test.mean(at, "delay"),
        ratio=test.ratio(at, 1, "delay"),
        p99_ratio=test.ratio(at, 1, "delay-p99"),
        preemptions=test.mean(at, "preemptions"),
        lost_share=test.mean(at, "lost"),
        payers=Payers(str(consent), total),
    )


def displaced_share(worth: Worth) -> float:
    """Return which share of the jobs was displaced at least once."""
    all_ = worth.payers.by_group[""]
    return float(all_[DISPLACED] / all_[JOBS])
