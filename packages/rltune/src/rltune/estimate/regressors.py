"""What predicts the logarithm of a run time from a row of features: boosted trees (LightGBM), or a plain regression.

The extra `rltune[boost]` brings LightGBM. Without it numpy alone does what it can: a ridge regression on the same
features, each beside a column that says whether it is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from rltune.errors import InputError
from rltune.jobs import Floats

ROUNDS = 100
LEAVES = 31
RATE = 0.07
RIDGE = 3.0  # rows' worth of belief that a feature says nothing


class Regressor(Protocol):
    """Predicts, and says what decides."""

    def predict(self, table: Floats) -> Floats:
        """Predict one number a row."""
        ...

    def weights(self) -> Floats:
        """Return how much each column decides, as shares."""
        ...


def fit_regressor(
    table: Floats, labels: tuple[int, ...], target: Floats, weight: Floats, seed: int, *, plain: bool
) -> Regressor:
    """Learn a target from a table, some of whose columns hold labels; rows count by their weights."""
    if plain:
        return Ridge.fit(table, labels, target, weight)
    return Trees.fit(table, labels, target, weight, seed)


@dataclass(frozen=True)
class Trees:
    """Trees grown by LightGBM on one thread, so that they are the same everywhere."""

    booster: Any

    @classmethod
    def fit(cls, table: Floats, labels: tuple[int, ...], target: Floats, weight: Floats, seed: int) -> Trees:
        """Grow the trees."""
        lightgbm = _lightgbm()
        data = lightgbm.Dataset(table, target, weight=weight, categorical_feature=list(labels), free_raw_data=True)
        return cls(lightgbm.train(_parameters(seed), data, ROUNDS))

    def predict(self, table: Floats) -> Floats:
        """Predict one number a row."""
        return np.asarray(self.booster.predict(table, num_threads=1), dtype=np.float64)

    def weights(self) -> Floats:
        """Return what each column has gained, as shares."""
        gain = np.asarray(self.booster.feature_importance("gain"), dtype=np.float64)
        return gain / max(float(gain.sum()), 1e-12)


def _parameters(seed: int) -> dict[str, object]:
    return {
        "objective": "regression",  # of the logarithm; RunTimeSpread makes a mean of it
        "num_leaves": LEAVES,
        "learning_rate": RATE,
        "feature_fraction": 0.5,
        "min_data_in_leaf": 50,
        "max_bin": 63,
        "cat_smooth": 50,
        "min_data_per_group": 100,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "seed": seed,
        "verbose": -1,
    }


def has_lightgbm() -> bool:
    """Return whether LightGBM can be loaded."""
    try:
        _lightgbm()
    except InputError:
        return False
    return True


def _lightgbm() -> ModuleType:
    try:
        import lightgbm
    except ModuleNotFoundError:
        raise InputError("trees need lightgbm, which is not installed: pip install 'rltune[boost]'") from None
    except OSError as error:
        raise InputError(f"lightgbm cannot be loaded ({error}); on Debian and Ubuntu: apt install libgomp1") from error
    module: ModuleType = lightgbm
    return module


@dataclass(frozen=True)
class Ridge:
    """A linear regression on standardised numbers; labels are left to the means of their kinds."""

    columns: np.ndarray  # of the table that are used
    middle: Floats
    scale: Floats
    weight: Floats  # of the columns, then of whether each is told
    offset: float

    @classmethod
    def fit(cls, table: Floats, labels: tuple[int, ...], target: Floats, weight: Floats) -> Ridge:
        """Solve for the weights."""
        numeric = np.setdiff1d(np.arange(table.shape[1]), labels)
        columns = numeric[~np.isnan(table[:, numeric]).all(axis=0)]
        middle = np.nanmean(table[:, columns], axis=0)
        scale = np.maximum(np.nanstd(table[:, columns], axis=0), 1e-9)
        made = cls(columns, middle, scale, np.zeros(2 * len(columns)), float(np.average(target, weights=weight)))
        x = made._inputs(table)
        counted = x * weight[:, None]
        square = x.T @ counted + RIDGE * np.eye(x.shape[1])
        solved: Floats = np.asarray(np.linalg.solve(square, counted.T @ (target - made.offset)), dtype=np.float64)
        return cls(columns, middle, scale, solved, made.offset)

    def predict(self, table: Floats) -> Floats:
        """Predict one number a row."""
        return self._inputs(table) @ self.weight + self.offset

    def weights(self) -> Floats:
        """Return the size of each column's weight, as shares."""
        share = np.zeros(int(self.columns.max(initial=0)) + 1)
        share[self.columns] = np.abs(self.weight[: len(self.columns)])
        return share / max(float(share.sum()), 1e-12)

    def _inputs(self, table: Floats) -> Floats:
        x = (table[:, self.columns] - self.middle) / self.scale
        told = ~np.isnan(x)
        return np.concatenate([np.clip(np.where(told, x, 0.0), -4.0, 4.0), told - 0.5], axis=1)
