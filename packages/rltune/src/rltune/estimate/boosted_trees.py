"""Run times predicted by gradient boosting from earlier history: the extra `rltune[boost]`.

The trees are grown once, before the run, on jobs that had ended when its first job is submitted. In the run they are
corrected online by what ends there, as the history estimator is. So nothing of the future is known at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError
from rltune.estimate.estimators import Estimates, ended_by, likeness, together
from rltune.jobs import Floats, Jobs
from rltune.kernel.build.job_shapes import distinct_rows

FEWEST = 50  # jobs that the trees need
NUMBERS = ("gpus", "nodes", "gpus_per_node", "cpus", "mem_gib", "limit_s")
LABELS = ("vc", "user", "account", "qos", "name", "gpu_types")
HISTORY = (("gpus",), ("gpus", "vc"), ("gpus", "user"), ("gpus", "user", "name"), ("vc",), ("user",))
_DAY = 86400.0


@dataclass(frozen=True)
class Trees:
    """Trees grown on earlier jobs (LightGBM), one thread, so that they are the same everywhere."""

    rounds: int = 200
    leaves: int = 31
    learning_rate: float = 0.05
    newest: int = 50_000  # of the earlier jobs, so many are learnt from

    def predict(self, before: Jobs | None, jobs: Jobs, seed: int) -> Floats:
        """Predict the mean run time of every job from jobs that had ended when the first one is submitted."""
        lightgbm = _lightgbm()
        if before is None:
            raise InputError("boost learns from earlier history: name it as in boost:TRACE, or give Boost(before=jobs)")
        if not len(jobs):
            return np.zeros(0)
        start_s = float(jobs.submit_s[0])
        earlier = ended_by(before, start_s)
        if len(earlier) < FEWEST:
            known = f"{len(earlier)} of {len(before)} jobs had ended when the first is submitted, at {start_s:g} s"
            raise InputError(f"boost needs {FEWEST} jobs of earlier history to learn from: {known}")
        table, labels = _features(earlier, jobs, start_s)
        learnt = slice(max(0, len(earlier) - self.newest), len(earlier))
        data = lightgbm.Dataset(
            table[learnt], np.maximum(earlier.duration_s[learnt], 1.0), categorical_feature=labels, free_raw_data=True
        )
        booster = lightgbm.train(self._parameters(seed), data, self.rounds)
        return np.asarray(booster.predict(table[len(earlier) :], num_threads=1), dtype=np.float64)

    def _parameters(self, seed: int) -> dict[str, object]:
        return {
            "objective": "gamma",  # of all with a logarithmic link it is the one that predicts the mean
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "seed": seed,
            "verbose": -1,
        }


@dataclass(frozen=True)
class Boost:
    """What the trees predict, corrected online by the mean of ended jobs of the same VC, user and name."""

    before: Jobs | None = field(default=None, repr=False, compare=False)  # earlier history, needed
    trust: float = 16.0  # how many ended jobs of a likeness count as much as what was thought before
    trees: Trees = field(default_factory=Trees)
    name: str = "boost"

    def after(self, before: Jobs) -> Boost:
        """Learn from the jobs of an earlier part of the trace that had ended when the run begins."""
        return replace(self, before=before)

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:
        """Grow the trees, and leave their correction to the run."""
        predicted = self.trees.predict(self.before, jobs, seed)
        levels = (("gpus", "vc", "user"), ("gpus", "vc", "user", "name"))
        return Estimates(predicted, likeness(jobs, levels, trust=self.trust, own=predicted))


def _lightgbm() -> ModuleType:
    try:
        import lightgbm
    except ModuleNotFoundError:
        raise InputError("boost needs lightgbm, which is not installed: pip install 'rltune[boost]'") from None
    except OSError as error:
        raise InputError(f"lightgbm cannot be loaded ({error}); on Debian and Ubuntu: apt install libgomp1") from error
    module: ModuleType = lightgbm
    return module


def _features(earlier: Jobs, jobs: Jobs, start_s: float) -> tuple[Floats, list[int]]:
    """Return a row of features per job, the earlier ones first, and say which columns hold labels.

    An earlier job is told of what had ended before its submission, the others of what had before the start.
    """
    submit = together(earlier, jobs, "submit_s")
    asked_at = np.concatenate([earlier.submit_s, np.full(len(jobs), start_s)])
    columns: list[NDArray[np.generic]] = [together(earlier, jobs, name) for name in (*LABELS, *NUMBERS)]
    columns += [submit % _DAY / 3600.0, submit // _DAY % 7]
    for level in HISTORY:
        columns += _rolling(earlier, distinct_rows([together(earlier, jobs, name) for name in level])[0], asked_at)
    return np.stack([np.asarray(c, dtype=np.float64) for c in columns], axis=1), list(range(len(LABELS)))


def _rolling(ended: Jobs, key: NDArray[np.int32], asked_at: Floats) -> list[Floats]:
    """Return per job how many of its key had ended before it was asked, and the mean logarithm of their run times."""
    start = np.where(np.isnan(ended.recorded_start_s), ended.submit_s, ended.recorded_start_s)
    n = len(asked_at)
    keys = np.concatenate([key[: len(ended)], key])
    times = np.concatenate([start + ended.duration_s, asked_at])
    value = np.concatenate([np.log1p(ended.duration_s), np.zeros(n)])
    is_end = np.arange(len(keys)) < len(ended)
    order = np.lexsort((is_end, times, keys))  # an end does not count for what is asked at that very time
    counted, summed = np.cumsum(is_end[order]), np.cumsum(value[order])
    first = np.searchsorted(keys[order], keys[order])  # of its key; what was counted before it is of other keys
    count, total = np.empty(len(keys)), np.empty(len(keys))
    count[order] = counted - np.concatenate([[0], counted])[first]
    total[order] = summed - np.concatenate([[0.0], summed])[first]
    count, total = count[len(ended) :], total[len(ended) :]
    return [count, np.where(count > 0, total / np.maximum(count, 1.0), np.nan)]
