"""How far run times lie from what was predicted: a mean, quantiles, and what is left of a job that has run for a while.

Predictions are logarithms. Held-out jobs, put in order of what was predicted for them and cut into groups, show how
far the truth lies from it where predictions are such as this one. So the mean is free of the bias that the exponential
of a mean logarithm has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from rltune.jobs import Floats

STEPS = 256  # quantiles that are kept of a group
GROUPS = 6
FEWEST = 150  # jobs of a group
MOST_STOOD_FOR = 20.0  # jobs that one long job may count for
_MIDDLES = (np.arange(STEPS) + 0.5) / STEPS
OVERRUN = 1.5  # a job that has outlived all that is known runs half as long again, as by the core's rule


@dataclass(frozen=True)
class RunTimeSpread:
    """Quantiles of (true - predicted) logarithms, by group of what was predicted."""

    edges: Floats  # predictions at which the next group begins
    off: Floats  # [group, STEPS] in ascending order
    rest: Floats  # [group, STEPS] sum of the exponentials from this step on

    @classmethod
    def of(cls, predicted: Floats, log_run: Floats, weight: Floats) -> RunTimeSpread:
        """Learn from jobs that were predicted before they ran; each counts by its weight."""
        order = np.argsort(predicted, kind="stable")
        predicted, log_run, weight = predicted[order], log_run[order], weight[order]
        count = max(1, min(GROUPS, len(order) // FEWEST))
        cuts = np.arange(1, count) * len(order) // count
        cuts = cuts[predicted[cuts] > predicted[cuts - 1]]  # equal predictions are of one group
        groups = np.split(np.arange(len(order)), cuts)
        off = np.stack([_quantiles(log_run[g] - predicted[g], weight[g]) for g in groups])
        means = np.stack([_step_means(np.exp(log_run[g] - predicted[g]), weight[g]) for g in groups])
        return cls.of_steps(np.array([predicted[g[0]] for g in groups[1:]]), off, means)

    @classmethod
    def of_steps(cls, edges: Floats, off: Floats, means: Floats) -> RunTimeSpread:
        """Make one from the quantiles of each group, and the mean factor between each two of them."""
        return cls(edges, off, np.cumsum(means[:, ::-1], axis=1)[:, ::-1])

    def mean_s(self, predicted: Floats) -> Floats:
        """Return the mean run time of jobs with these predictions."""
        found: Floats = np.exp(predicted) * self.rest[self._group(predicted), 0] / STEPS
        return found

    def quantile_s(self, predicted: Floats, share: float) -> Floats:
        """Return the run time that such a share of the jobs does not exceed.

        A share below 0 or above 1 lies beyond all that was seen, by the factor e for every tenth.
        """
        beyond = 10.0 * (share - min(max(share, 0.0), 1.0))
        place = np.clip(share * STEPS - 0.5, 0, STEPS - 1)
        low, part = int(place), place - int(place)
        off = self.off[self._group(predicted)]
        off_by = (1 - part) * off[:, low] + part * off[:, min(low + 1, STEPS - 1)]
        found: Floats = np.exp(predicted + off_by + beyond)
        return found

    def mean_beyond_s(self, predicted: Floats, attained_s: Floats) -> Floats:
        """Return the mean whole run time of jobs that have run for so long and have not ended."""
        group = self._group(predicted)
        gone = np.log(np.maximum(attained_s, 1e-9)) - predicted
        ended = (self.off[group] <= gone[:, None]).sum(axis=1)
        some = ended < STEPS
        rest = self.rest[group, np.minimum(ended, STEPS - 1)] / np.maximum(STEPS - ended, 1)
        whole = np.where(some, np.exp(predicted) * rest, OVERRUN * attained_s)
        return np.maximum(whole, attained_s + 1.0)

    def _group(self, predicted: Floats) -> np.ndarray:
        return np.searchsorted(self.edges, predicted, side="right")


@dataclass
class KeptShares:
    """Shares of quantiles, moved by what came true until as many jobs as was said run no longer than each.

    Errors of a while ago are those of another month: where work changes, quantiles of them hold too few jobs, or too
    many. So each job that ends moves the share that is looked up a little (adaptive conformal inference, Gibbs and
    Candes, NeurIPS 2021).
    """

    said: Floats  # of the jobs should run no longer
    step: float = 0.005
    now: Floats = field(init=False)  # what is looked up to that end; below 0 or above 1 where no error was as large

    def __post_init__(self) -> None:
        self.now = self.said.copy()

    def note(self, run_s: Floats, told_s: Floats) -> None:
        """Take in jobs that have ended: their run times, and the quantiles that were told of each, [job, share]."""
        missed = len(run_s) * self.said - (run_s[:, None] <= told_s).sum(axis=0)
        self.now = self.now + self.step * missed


def wide_spread() -> RunTimeSpread:
    """Return what is assumed where nothing is known yet: a factor of four either way."""
    normal = NormalDist(0.0, float(np.log(4.0)))
    off = np.array([[normal.inv_cdf(share) for share in _MIDDLES]])
    return RunTimeSpread.of_steps(np.zeros(0), off, np.exp(off))


def _quantiles(values: Floats, weight: Floats) -> Floats:
    """Return the values in the middle of each of equal shares of the weight."""
    order = np.argsort(values, kind="stable")
    found: Floats = np.interp(_MIDDLES, (np.cumsum(weight[order]) - 0.5 * weight[order]) / weight.sum(), values[order])
    return found


def _step_means(factors: Floats, weight: Floats) -> Floats:
    """Return the mean of each of equal shares of the values, lowest first: no tail is cut off."""
    order = np.argsort(factors, kind="stable")
    share = np.concatenate([[0.0], np.cumsum(weight[order])]) / weight.sum()
    total = np.concatenate([[0.0], np.cumsum(weight[order] * factors[order])]) / weight.sum()
    means: Floats = np.diff(np.interp(np.arange(STEPS + 1) / STEPS, share, total)) * STEPS
    return means


def seen_weights(run_s: Floats, age_s: Floats) -> Floats:
    """Return how many jobs each ended one stands for: those as long that were started too lately to have ended yet.

    `age_s` is of all jobs, ended or not, how long ago they started: a job is seen to end only if it is shorter than
    that. So of the jobs that ended lately most are short, and the long ones among them count for more.
    """
    older = 1.0 - np.searchsorted(np.sort(age_s), run_s, side="left") / max(len(age_s), 1)
    weight: Floats = 1.0 / np.maximum(older, 1.0 / MOST_STOOD_FOR)
    return weight
