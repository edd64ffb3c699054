"""How well a site's run times can be told, and what that is worth in waits there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.errors import InputError
from rltune.estimate.kind_memory import TOLD
from rltune.estimate.predicted import LOOK_EVERY, REFIT, PredictionCourse
from rltune.estimate.run_time_spread import KeptShares
from rltune.evaluation.evaluate import evaluate
from rltune.opt_in import for_replay
from rltune.text import counted, seconds
from rltune.trials.intervals import Interval, over_time, ratio
from rltune.trials.parts import split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rltune.cluster import Cluster
    from rltune.estimate.run_time_spread import RunTimeSpread
    from rltune.evaluation.evaluate import Progress
    from rltune.evaluation.results import Results
    from rltune.jobs import Floats, Jobs
    from rltune.parallel import Spread

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
INTERVAL = 0.8
KEPT_RIGHT_FROM = 2 * REFIT  # jobs before a part
FEW = 30  # jobs of a group, of which more should be told
MOST_GROUPS = 12
WAITS_OF = ("history", "predicted", "oracle")
TRUTH = "oracle"


@dataclass(frozen=True)
class ToldJobs:
    """What was predicted of the jobs of a part when each was submitted, and what came true."""

    jobs: Jobs
    log_s: Floats  # predicted
    mean_s: Floats
    quantiles_s: Floats  # [job, share of SHARES]
    low_s: Floats  # of the interval
    high_s: Floats
    weights: dict[str, float]  # what decides, as shares; the largest first

    @property
    def log_run(self) -> Floats:
        """Return the logarithms of the true run times."""
        return np.log(np.maximum(self.jobs.duration_s, 1.0))

    @property
    def coverage(self) -> float:
        """Return the share of the jobs that ran as long as the interval said."""
        run = self.jobs.duration_s
        return float(((self.low_s <= run) & (run <= self.high_s)).mean())

    @property
    def reliability(self) -> list[tuple[float, float]]:
        """Return for each share the share of the jobs that did not run longer than that quantile."""
        run = self.jobs.duration_s[:, None]
        return list(zip(SHARES, (run <= self.quantiles_s).mean(axis=0).tolist(), strict=True))

    def rank_correlation(self, rows: Any = slice(None)) -> float:
        """Return Spearman's correlation of predicted with true run times."""
        a, b = (_ranks(values[rows]) for values in (self.log_s, self.log_run))
        return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) and np.ptp(b) else 0.0

    def factor_off(self, rows: Any = slice(None)) -> float:
        """Return the factor by which half of the predictions are off at most."""
        return float(np.exp(np.median(np.abs(self.log_s - self.log_run)[rows])))


@dataclass(frozen=True)
class Group:
    """Jobs that have something in common."""

    name: str
    jobs: int
    mean_run_s: float
    rank_correlation: float
    factor_off: float


@dataclass(frozen=True)
class EstimatorWorth:
    """What knowing so much makes of waits."""

    estimator: str
    wait_s: float
    ratio: Interval  # to the first


@dataclass(frozen=True)
class Predictability:
    """The answer: how well, for whom, by what, and what it is worth."""

    told: ToldJobs
    groups: dict[str, tuple[Group, ...]]
    worth: tuple[EstimatorWorth, ...]  # none without a cluster
    windows: int

    @property
    def waits_are_told(self) -> bool:
        """Return whether there were enough windows with a queue to say anything of waits."""
        return bool(self.worth) and not any(np.isnan(w.ratio.low) for w in self.worth[1:])

    @property
    def left(self) -> float:
        """Return how much of the distance from the first estimator's wait to the truth's is left; NaN if untold."""
        if len(self.worth) < 3:
            return float("nan")
        first, learned, truth = (w.wait_s for w in self.worth[:3])
        return (learned - truth) / (first - truth) if first != truth else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values."""
        return {
            "jobs": len(self.told.jobs),
            "rank_correlation": self.told.rank_correlation(),
            "factor_off": self.told.factor_off(),
            "interval": INTERVAL,
            "coverage": self.told.coverage,
            "reliability": [{"said": said, "was": was} for said, was in self.told.reliability],
            "decides": self.told.weights,
            "groups": {name: [vars(group) for group in rows] for name, rows in self.groups.items()},
            "waits": [{"estimator": w.estimator, "wait_s": w.wait_s, "ratio": vars(w.ratio)} for w in self.worth],
            "windows": self.windows,
        }


def predictability(
    jobs: Jobs,
    cluster: Cluster | None = None,
    *,
    part: str = "test",
    every: int = 256,
    seed: int = 0,
    estimators: Sequence[str] = WAITS_OF,
    spread: Spread | None = None,
    progress: Progress | None = None,
) -> Predictability:
    """Predict the held-out jobs as of their submissions; with a cluster, say what that is worth in waits.

    Waits are those of smallest area first with EASY on contended windows of the last tenth, paired window by window.
    """
    jobs = (jobs if cluster is None else for_replay(jobs, cluster)).sorted()
    told = told_at_submission(jobs, part=part, seed=seed)
    worth: tuple[EstimatorWorth, ...] = ()
    windows = 0
    if cluster is not None:
        worth, windows = waits(jobs, cluster, estimators, every=every, seed=seed, spread=spread, progress=progress)
    return Predictability(told, _groups(told), worth, windows)


def told_at_submission(jobs: Jobs, *, part: str = "test", seed: int = 0, plain: bool = False) -> ToldJobs:
    """Predict every job of a part from what was known when it was submitted, as recorded.

    Quantiles are kept right by what has ended by then, from some jobs before the part on.
    """
    first, end = _span(len(jobs), part)
    rows = np.arange(max(first - KEPT_RIGHT_FROM, min(first, REFIT)), end)
    course = PredictionCourse(jobs, known=len(jobs), seed=seed, plain=plain)
    table = course.table()[rows]
    log_s, mean_s = np.empty(len(rows)), np.empty(len(rows))
    quantiles = np.empty((len(rows), len(SHARES) + 2))
    right = _KeptRight(course, rows, quantiles)
    fitted_at = np.maximum(rows // REFIT * REFIT, np.where(rows < first, rows[0], first))
    for at in np.unique(fitted_at):
        here = np.flatnonzero(fitted_at == at)
        fit = course.fit_before(int(at))
        log_s[here] = fit.log_s(table[here], course.usual_log_s(rows[here], table[here]))
        mean_s[here] = fit.spread.mean_s(log_s[here])
        right.tell(here, log_s, fit.spread)
    regressor = fit.regressor
    weights = {} if regressor is None else _deciding(course, regressor.weights())
    told = slice(first - int(rows[0]), None)
    quantiles = quantiles[told]
    return ToldJobs(
        jobs.take(rows[told]), log_s[told], mean_s[told], quantiles[:, :-2], quantiles[:, -2], quantiles[:, -1], weights
    )


class _KeptRight:
    """Tells quantiles of jobs in order of submission, each by what had ended before."""

    def __init__(self, course: PredictionCourse, rows: NDArray[np.int64], quantiles: Floats) -> None:
        self._submit_s, self._run_s = course.submit_s[rows], course.run_s[rows]
        self._order = np.argsort(course.end_s[rows], kind="stable")
        self._end_s = course.end_s[rows][self._order]
        self._taken_in = 0
        self._told_s = quantiles
        self._shares = KeptShares(np.array((*SHARES, (1 - INTERVAL) / 2, (1 + INTERVAL) / 2)))

    def tell(self, here: NDArray[np.int64], log_s: Floats, spread: RunTimeSpread) -> None:
        """Enter the quantiles of some jobs, a few at a time."""
        for begin in range(int(here[0]), int(here[-1]) + 1, LOOK_EVERY):
            some = slice(begin, min(begin + LOOK_EVERY, int(here[-1]) + 1))
            self._take_in_before(begin)
            for i, share in enumerate(self._shares.now):
                self._told_s[some, i] = spread.quantile_s(log_s[some], float(share))

    def _take_in_before(self, begin: int) -> None:
        """Take in the jobs that had ended when one was submitted and that were told of before it."""
        upto = int(np.searchsorted(self._end_s, self._submit_s[begin], side="right"))
        ended = self._order[self._taken_in : upto]
        ended = ended[ended < begin]
        self._shares.note(self._run_s[ended], self._told_s[ended])
        self._taken_in = upto


def waits(
    jobs: Jobs,
    cluster: Cluster,
    estimators: Sequence[str],
    *,
    every: int = 256,
    seed: int = 0,
    spread: Spread | None = None,
    progress: Progress | None = None,
) -> tuple[tuple[EstimatorWorth, ...], int]:
    """Evaluate smallest area first with EASY under each estimator; each is compared with the first."""
    made: list[Results] = [
        evaluate(
            jobs, cluster, ["saf"], ["easy"], estimator=e, every=every, seed=seed, spread=spread, progress=progress
        ).test
        for e in estimators
    ]
    columns = [results.values[-1, :, 0] for results in made]
    assert all(results.starts == made[0].starts for results in made)
    first = made[0]
    found = tuple(
        EstimatorWorth(str(e), float(np.nanmean(each)), over_time(each, columns[0], first.course, ratio, **first.how))
        for e, each in zip(estimators, columns, strict=True)
    )
    return found, len(first.starts)


def lines(made: Predictability) -> list[str]:
    """Return the answer in a few sentences."""
    told = made.told
    off, rank = told.factor_off(), told.rank_correlation()
    found = [
        (
            f"Half of the last {len(told.jobs):,} jobs ran within a factor of {off:.1f} of what was predicted when "
            f"they were submitted; their order of length has a rank correlation of {rank:.2f} with it (1 = perfect)."
        ),
        f"Of the intervals that should hold {INTERVAL:.0%} of the jobs, {told.coverage:.0%} did.",
    ]
    return [*found, *_worth_told(made)]


def _worth_told(made: Predictability) -> list[str]:
    """Return what predictions are worth in waits; nothing but that it cannot be told, where windows are too few."""
    if not made.worth:
        return []
    usual, *others = made.worth
    if not made.waits_are_told:
        few = counted(made.windows, "window")
        return [f"Only {few} of these jobs had a queue: too few to say what knowing run times is worth in waits here."]
    return [*(_told_beside(w, usual.estimator) for w in others), *_told_reached(made)]


def _told_beside(w: EstimatorWorth, usual: str) -> str:
    """Return what an estimator makes of waits beside the usual one, and whether that is more than chance."""
    ends = w.ratio.ends("{:.2f}".format)
    shown = "" if w.ratio.low > 1 or w.ratio.high < 1 else ", no difference is shown"
    return f"Mean wait {seconds(w.wait_s)} with {w.estimator}: {w.ratio.estimate:.2f} of {usual}'s {ends}{shown}."


def _told_reached(made: Predictability) -> list[str]:
    """Return how much of what the truth would gain is reached, where it gains anything."""
    best = made.worth[-1]
    if best.estimator != TRUTH or not np.isfinite(made.left) or best.ratio.high >= 1:
        return []
    reached = f"{1 - made.left:.0%}" if made.left < 1 else "nothing"
    return [f"Of what perfect knowledge would gain here, {reached} is reached."]


def _span(jobs: int, part: str) -> tuple[int, int]:
    parts = split(jobs)
    where = parts.test if part == "test" else parts.validation
    if where.first < 1 or len(where) < FEW:
        raise InputError(f"the history has {jobs:,} jobs: too few to learn from some and predict others")
    return where.first, where.end


def _groups(told: ToldJobs) -> dict[str, tuple[Group, ...]]:
    """Return how well run times are predicted for users, partitions and sizes with enough jobs, the largest first."""
    jobs = told.jobs
    names: dict[str, Sequence[str | None]] = {
        "size": [f"{gpus} GPU{'' if gpus == 1 else 's'}" for gpus in jobs.gpus.tolist()],
        "partition": jobs.vc.to_list(),
        "user": jobs.user.to_list(),
    }
    found = {name: _grouped(told, each) for name, each in names.items()}
    return {name: groups for name, groups in found.items() if groups}


def _grouped(told: ToldJobs, names: Sequence[str | None]) -> tuple[Group, ...]:
    labels, code = np.unique(np.array([name or "" for name in names]), return_inverse=True)
    count = np.bincount(code, minlength=len(labels))
    chosen = [k for k in np.argsort(-count, kind="stable") if count[k] >= FEW and labels[k]][:MOST_GROUPS]
    return tuple(
        Group(
            str(labels[k]),
            int(count[k]),
            float(told.jobs.duration_s[code == k].mean()),
            told.rank_correlation(code == k),
            told.factor_off(code == k),
        )
        for k in chosen
    )


def _deciding(course: PredictionCourse, weights: Floats) -> dict[str, float]:
    """Name the columns that decide, those of a kind together."""
    kinds = course.kinds
    names = [*kinds.columns, *(f"jobs of the same: {level}" for level in kinds.levels for _ in TOLD)]
    shares: dict[str, float] = {}
    for name, weight in zip(names, weights, strict=False):
        shares[name] = shares.get(name, 0.0) + float(weight)
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _ranks(values: Floats) -> Floats:
    """Return ranks; equal values share the mean of theirs."""
    _, code, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2.0)[code]
