"""Weights of the multifactor priority, fitted to who started first.

Whenever a job starts that had waited, others wait that would have fitted in its place: of as many GPUs, no more CPUs
and memory, not longer, for the same nodes. That it went before them tells of the order. A logistic regression on the
differences of the factors (age, fair share, and each QOS and partition) gives the weights. The weight of the size
cannot be told: whether a larger job would have fitted is not recorded, and that a smaller one fitted is no choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.calibration.finding import SiteFact
from rltune.calibration.history import Happened
from rltune.jobs import Floats
from rltune.labels import Labels
from rltune.text import percent

Mask = NDArray[np.bool_]

MOST_PAIRS = 20_000
FEWEST_PAIRS = 200
WAITED_S = 60.0
BETTER = 0.02  # of the pairs held out: by so much weights must be better than first come, first served
EXPLAINED = 0.75  # of the pairs: if fewer are in the order of the weights, something hidden orders the queue
OFFERED = 0.6  # of the pairs: weights that order fewer are hardly better than a coin
MAX_AGE_S = HALF_LIFE_S = 7 * 86_400.0
HIDDEN = "hidden priorities"
_TRIES = 30
_EACH = 3  # pairs of one start
_MOST_NAMES = 6
_RIDGE = 1e-6
_BINS = 4000


@dataclass(frozen=True)
class Order:
    """Pairs of jobs of which the first started while the second waited and could have, at the moments of the starts."""

    first: NDArray[np.intp]
    second: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.first)


def find_weights(history: Happened, held: Mask, seed: int = 0, *, known: bool = False) -> list[SiteFact]:
    """Fit weights on one half of the pairs, judge them on the other; none are offered where the site's are known."""
    pairs = start_pairs(history, held, seed)
    if len(pairs) < FEWEST_PAIRS:
        told = f"only {len(pairs)} starts tell who goes first ({FEWEST_PAIRS} are the least), so weights are not fitted"
        return [SiteFact("order of starts", told)]
    factors = PairFactors.of(history, pairs)
    half = np.random.default_rng(seed).random(len(pairs)) < 0.5
    weights = logistic(factors.difference[half])
    held_out = factors.difference[~half]
    by_weights, by_age = (float(np.mean(held_out @ w > 0)) for w in (weights, factors.age_alone))
    right = f"{percent(by_weights)} of {len(held_out):,} pairs held out; first come, first served {percent(by_age)}"
    offered = not known and by_weights >= OFFERED
    if by_weights < by_age + BETTER:
        lines = ("[scheduler]", 'policy = "fcfs"', 'backfill = "easy"')
        as_submitted = () if known or by_age < EXPLAINED else lines
        told = f"nothing fitted orders pairs better than submission, which is right in {percent(by_age)}"
        found = [SiteFact("order of starts", told, as_submitted)]
    else:
        found = [
            SiteFact("weights of the order", f"fitted weights order {right}", factors.toml(weights) if offered else ())
        ]
    if max(by_weights, by_age) < EXPLAINED:
        told = f"age, fair share, QOS and partition explain the order of {percent(max(by_weights, by_age))} of pairs"
        found.append(SiteFact(HIDDEN, f"{told}: something else decides who goes first"))
    return found


def start_pairs(history: Happened, held: Mask, seed: int) -> Order:
    """Draw, for starts of jobs that had waited, others that waited and would have fitted in their place.

    Jobs that a limit held back tell nothing of the order.
    """
    rng = np.random.default_rng(seed)
    jobs, size = history.jobs, history.size
    cpus, mem = np.nan_to_num(jobs.cpus), np.nan_to_num(jobs.mem_gib)
    limit = np.where(np.isnan(jobs.limit_s), np.inf, jobs.limit_s)
    waited = history.start_s - history.ready_s >= WAITED_S
    take = min(1.0, 4 * MOST_PAIRS / max(int(waited.sum()), 1))
    asked = waited & (rng.random(len(history)) < take)
    time = np.concatenate([history.ready_s, history.start_s])
    order = np.lexsort((np.repeat([1, 0], len(history)), time))  # of one moment, starts come first
    waiting: list[int] = []
    at = np.full(len(history), -1)
    pairs: list[tuple[int, int]] = []
    draws = iter(rng.random(_TRIES * (int(asked.sum()) + 1)).tolist())
    for event in order.tolist():
        row = event % len(history)
        if event < len(history):
            if history.start_s[row] > history.ready_s[row] and not held[row]:
                at[row] = len(waiting)
                waiting.append(row)
            continue
        if at[row] < 0:
            continue
        last = waiting.pop()
        if last != row:
            waiting[at[row]], at[last] = last, at[row]
        if not (asked[row] and waiting):
            continue
        drawn = 0
        for _ in range(_TRIES):
            other = waiting[int(next(draws) * len(waiting))]
            if (
                size[other] == size[row]
                and cpus[other] <= cpus[row]
                and mem[other] <= mem[row]
                and limit[other] <= limit[row]
                and jobs.gpu_types.codes[other] == jobs.gpu_types.codes[row]
                and jobs.nodes[other] <= max(int(jobs.nodes[row]), 1)
                and history.ready_s[other] <= history.start_s[row] - WAITED_S
            ):
                pairs.append((row, other))
                drawn += 1
                if drawn == _EACH:
                    break
    made = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    kept = rng.permutation(len(made))[:MOST_PAIRS]
    return Order(made[kept, 0], made[kept, 1])


@dataclass(frozen=True)
class PairFactors:
    """Per pair the differences of the factors, in the order of the names."""

    names: tuple[tuple[str, str], ...]  # a factor, and of a QOS or partition which one
    difference: Floats
    usual: dict[str, str]  # the QOS and the partition that the others are measured against

    @classmethod
    def of(cls, history: Happened, pairs: Order) -> PairFactors:
        """Compute Slurm's factors of both jobs at the moment of the start."""
        jobs, now = history.jobs, history.start_s[pairs.first]
        columns: dict[tuple[str, str], Floats] = {}
        usual: dict[str, str] = {}

        def pair(of: Floats) -> Floats:
            return of[pairs.first] - of[pairs.second]

        age = [np.minimum((now - jobs.submit_s[rows]) / MAX_AGE_S, 1.0) for rows in (pairs.first, pairs.second)]
        columns["age", ""] = age[0] - age[1]
        fair = fair_shares(history, pairs)
        if fair is not None:
            columns["fairshare", ""] = fair
        for kind, labels in (("qos", jobs.qos), ("partition", jobs.vc)):
            common = _common(labels, pairs)
            if common:
                usual[kind] = labels.names[common[0]]
            for code in common[1:]:
                columns[kind, labels.names[code]] = pair((labels.codes == code).astype(np.float64))
        kept = {key: value for key, value in columns.items() if value.any()}
        return cls(tuple(kept), np.stack(list(kept.values()), axis=1) if kept else np.zeros((len(pairs), 0)), usual)

    @property
    def age_alone(self) -> Floats:
        """Return the weights of first come, first served."""
        return np.array([float(name == ("age", "")) for name in self.names])

    def toml(self, weights: Floats) -> tuple[str, ...]:
        """Write weights as a cluster's file has them, the largest being 1000; nothing if none counts for a job."""
        by_name = dict(zip(self.names, weights.tolist(), strict=True))
        plain = {
            "age": max(by_name.get(("age", ""), 0.0), 0.0),
            "fairshare": max(by_name.get(("fairshare", ""), 0.0), 0.0),
        }
        plain["job_size"] = 0.0  # not fitted
        tables = {kind: {name: w for (k, name), w in by_name.items() if k == kind} for kind in ("partition", "qos")}
        for kind, name in self.usual.items():
            tables[kind][name] = 0.0
        reach = {kind: max([0.0, *table.values()]) - min([0.0, *table.values()]) for kind, table in tables.items()}
        largest = max([*plain.values(), *reach.values()])
        if largest <= 0:
            return ()
        scale = 1000.0 / largest
        lines = ["[scheduler]", 'policy = "multifactor"', 'backfill = "easy"']
        lines += [f"{name} = {scale * value:.1f}" for name, value in (plain | reach).items()]
        for kind, table in tables.items():
            if reach[kind] > 0:
                low = min([0.0, *table.values()])
                lines += ["", f"[scheduler.{kind}_priority]"]
                lines += [f"{_quoted(name)} = {(w - low) / reach[kind]:.3f}" for name, w in table.items()]
        return tuple(lines)


def _common(labels: Labels, pairs: Order) -> list[int]:
    """Return the names in which pairs differ, the commonest first."""
    one, other = labels.codes[pairs.first], labels.codes[pairs.second]
    differ = one != other
    found, count = np.unique(np.concatenate([one[differ], other[differ]]), return_counts=True)
    known = found >= 0
    order = found[known][np.argsort(-count[known], kind="stable")]
    return [int(code) for code in order[: 1 + _MOST_NAMES]]


def fair_shares(history: Happened, pairs: Order) -> Floats | None:
    """Return the differences of Slurm's classic fair-share factor, all shares equal; None without several users."""
    jobs = history.jobs
    pair_of = jobs.user.codes.astype(np.int64) * (len(jobs.account.names) + 1) + jobs.account.codes
    users, owner = np.unique(pair_of, return_inverse=True)
    if len(np.unique(jobs.user.codes)) < 2:
        return None
    begin, end = history.span_s
    bins = min(_BINS, max(int((end - begin) / 3600), 1))
    edges = np.linspace(begin, end, bins + 1)
    used = _decayed(history, owner, len(users), edges)
    used = used / np.maximum(used.sum(axis=0), 1e-9)
    account = np.zeros(len(users), dtype=np.int64)
    account[owner] = jobs.account.codes + 1
    _, within, siblings = np.unique(account, return_inverse=True, return_counts=True)
    share = 1.0 / siblings[within]
    if jobs.account.names:  # of what the rest of its account used, a user is counted its share
        of_account = np.stack([used[within == a].sum(axis=0) for a in range(len(siblings))])[within]
        used = used + (of_account - used) * share[:, None]
        share = share / len(siblings)
    factor = 2.0 ** (-used / share[:, None])
    now = np.clip(np.searchsorted(edges, history.start_s[pairs.first], "right") - 1, 0, bins - 1)

    def of(rows: NDArray[np.intp]) -> Floats:
        return np.where(jobs.user.codes[rows] >= 0, factor[owner[rows], now], 1.0)

    return of(pairs.first) - of(pairs.second)


def _decayed(history: Happened, owner: NDArray[np.intp], owners: int, edges: Floats) -> Floats:
    """Return what each user had used at the beginning of each bin, halved every half-life."""
    width = float(edges[1] - edges[0])
    rate = np.zeros((owners, len(edges) + 1))
    real = history.size > 0
    for moment, sign in ((history.start_s, 1.0), (history.end_s, -1.0)):
        place = np.clip((moment - edges[0]) / width, 0, len(edges) - 1)
        whole = np.floor(place).astype(np.int64)
        part = place - whole
        np.add.at(rate, (owner[real], whole[real]), sign * (history.size * (1 - part))[real])
        np.add.at(rate, (owner[real], whole[real] + 1), sign * (history.size * part)[real])
    in_bin = np.cumsum(rate, axis=1)[:, : len(edges) - 1] * width
    keep = 0.5 ** (width / HALF_LIFE_S)
    used = np.zeros_like(in_bin)
    for i in range(1, in_bin.shape[1]):
        used[:, i] = keep * (used[:, i - 1] + in_bin[:, i - 1])
    return used


def logistic(difference: Floats, steps: int = 50) -> Floats:
    """Return the weights under which the first of each pair most likely goes first: Newton's method with a ridge."""
    scale = np.maximum(difference.std(axis=0), 1e-12)
    x = difference / scale
    weights = np.zeros(x.shape[1])
    for _ in range(steps):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ weights, -30, 30)))
        slope = x.T @ (1 - p) / len(x) - _RIDGE * weights
        bend = (x * (p * (1 - p))[:, None]).T @ x / len(x) + _RIDGE * np.eye(x.shape[1])
        step = np.linalg.solve(bend, slope)
        weights += np.clip(step, -2, 2)
        if np.abs(step).max(initial=0.0) < 1e-8:
            break
    fitted: Floats = weights / scale
    return fitted


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
