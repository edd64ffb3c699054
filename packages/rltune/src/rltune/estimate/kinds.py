"""Which jobs are of a kind: same size, user, words of the name, array or burst; and what a job tells of itself.

All of it is known when a job is submitted. A burst is told from what was submitted before, never after.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.jobs import Floats, Jobs
from rltune.kernel.build.job_shapes import distinct_rows

Codes = NDArray[np.int64]
BURST_GAP_S = 300.0  # jobs of a user that ask the same are of one burst if no more lies between two of them
NUMBERS_KEPT = 3  # of a name
DAY_S = 86_400.0
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")


@dataclass(frozen=True)
class Kinds:
    """Per job the number of its kind at each level, coarse to fine, and what it tells of itself."""

    levels: tuple[str, ...]
    of: Codes  # [job, level]; -1 = none
    count: int
    own: Floats  # [job, column]; NaN = not told
    columns: tuple[str, ...]
    labels: tuple[int, ...]  # columns of `own` that hold labels, not numbers


def split_name(name: str) -> tuple[str, tuple[float, ...]]:
    """Split a name into its words and its first numbers: `train_lr1e-4_ep20` is `train_lr#_ep#`, 0.0001 and 20."""
    numbers = tuple(float(text) for text in _NUMBER.findall(name)[:NUMBERS_KEPT])
    return _NUMBER.sub("#", name).lower(), tuple(min(number, 1e12) for number in numbers)


def kinds_of(jobs: Jobs) -> Kinds:
    """Return the kinds of a table in order of submission."""
    code = {name: getattr(jobs, name).codes.astype(np.int64) for name in ("vc", "user", "account", "qos", "name")}
    code["type"] = jobs.gpu_types.codes.astype(np.int64)
    words, numbers = _names(jobs)
    gpus, limit = jobs.gpus.astype(np.int64), np.nan_to_num(jobs.limit_s, nan=-1.0)
    user, vc, named = code["user"], code["vc"], code["name"] >= 0
    levels: dict[str, Codes] = {
        "all jobs": np.zeros(len(jobs), dtype=np.int64),
        "size": _number([gpus]),
        "size and partition": np.where(vc >= 0, _number([gpus, vc]), -1),
        "size, partition and limit": np.where(limit >= 0, _number([gpus, vc, limit]), -1),
        "user": np.where(user >= 0, _number([user]), -1),
        "user, size and limit": np.where(user >= 0, _number([user, gpus, vc, limit]), -1),
        "words of the name": np.where(named, _number([words, gpus]), -1),
        "user and words of the name": np.where(named & (user >= 0), _number([user, words, gpus]), -1),
        "user and name": np.where(named & (user >= 0), _number([user, code["name"], gpus]), -1),
        "array or burst": bursts(_number([user, vc, gpus, words, limit]), jobs.submit_s, jobs.array),
    }
    told = {level: kind for level, kind in levels.items() if (kind >= 0).any()}
    of = np.empty((len(jobs), len(told)), dtype=np.int64)
    count = 0
    for column, kind in enumerate(told.values()):
        of[:, column] = np.where(kind >= 0, kind + count, -1)
        count += int(kind.max(initial=0)) + 1
    own, columns, labels = _own(jobs, {**code, "words": words}, numbers)
    return Kinds(tuple(told), of, count, own, columns, labels)


def bursts(alike: Codes, submit_s: Floats, array: NDArray[np.int32]) -> Codes:
    """Return numbers of arrays, and of bursts of jobs alike that follow each other closely, in order of submission."""
    order = np.lexsort((np.arange(len(alike)), alike))
    new = np.ones(len(alike), dtype=np.bool_)
    same = alike[order][1:] == alike[order][:-1]
    new[1:] = ~(same & (submit_s[order][1:] - submit_s[order][:-1] <= BURST_GAP_S))
    burst = np.empty(len(alike), dtype=np.int64)
    burst[order] = np.cumsum(new) - 1
    _, array_number = np.unique(array, return_inverse=True)
    return np.where(array >= 0, array_number + len(alike), burst)


def _number(columns: list[NDArray[np.generic]]) -> Codes:
    return distinct_rows(columns)[0].astype(np.int64)


def _names(jobs: Jobs) -> tuple[Codes, Floats]:
    """Return per job a number for the words of its name (-1 = no name), and the numbers in it."""
    split = [split_name(name) for name in jobs.name.names]
    known: dict[str, int] = {}
    word = np.array([*(known.setdefault(words, len(known)) for words, _ in split), -1], dtype=np.int64)
    number = np.full((len(split) + 1, NUMBERS_KEPT), np.nan)
    for row, (_, numbers) in enumerate(split):
        number[row, : len(numbers)] = numbers
    return word[jobs.name.codes], number[jobs.name.codes]


def _own(jobs: Jobs, code: dict[str, Codes], numbers: Floats) -> tuple[Floats, tuple[str, ...], tuple[int, ...]]:
    """Lay out what jobs tell of themselves; columns in which all are alike are left out."""
    columns: dict[str, Floats] = {
        "GPUs": np.log1p(jobs.gpus),
        "limit": np.log1p(jobs.limit_s),
        "CPUs": np.log1p(jobs.cpus),
        "memory": np.log1p(jobs.mem_gib),
        "hour": jobs.submit_s % DAY_S / 3600.0,
        "weekday": jobs.submit_s // DAY_S % 7,
        **{f"number {i + 1} in the name": np.log1p(numbers[:, i]) for i in range(NUMBERS_KEPT)},
    }
    labels = {
        "partition": code["vc"],
        "GPU type": code["type"],
        "QOS": code["qos"],
        "account": code["account"],
        "user name": code["user"],
        "words": code["words"],
    }
    columns |= {name: np.where(each >= 0, each, np.nan) for name, each in labels.items()}
    kept = {name: column for name, column in columns.items() if _tells(column)}
    table = np.stack(list(kept.values()), axis=1) if kept else np.zeros((len(jobs), 0))
    return table, tuple(kept), tuple(i for i, name in enumerate(kept) if name in labels)


def _tells(column: Floats) -> bool:
    known = column[~np.isnan(column)]
    return len(known) > 0 and bool(known.min() < known.max() or len(known) < len(column))
