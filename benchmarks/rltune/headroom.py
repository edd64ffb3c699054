"""How much is left to be gained by order alone, run times known: rules and models beside an offline search by window.

    python benchmarks/rltune/headroom.py --traces DIR

The search sees the whole window beforehand, which no scheduler does. It gives every job a place in one order, begins at
a rule's, moves a few jobs at a time and keeps what shortens the mean wait, under each backfilling. What it finds can be
had; what it does not find may be there all the same.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from turns import ORDERED, SHIPPED, SIZE, TRACES, Bench

import rltune
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.estimate.estimators import Estimates
from rltune.policy.by_name import LEARNED
from rltune.policy.portfolio import PORTFOLIO
from rltune.schedule import Schedule
from rltune.trials.intervals import over_windows, ratio
from rltune.trials.trial import Trial, in_order

KNOWN = "oracle"
BACKFILLS = ("none", "fit-first", "easy")
RULES = tuple(name for name in ORDERED if not name.startswith((LEARNED, PORTFOLIO)))
MODELS = tuple(f"{LEARNED}:{name}" for name in SHIPPED)
SEARCHED = ("saf+search:16", f"{LEARNED}+search:16")
MOST_MOVED = 8
WARMEST = 0.003  # of the mean wait: so much worse an order is taken now and then, at first
HEAD = ("trace", "windows", "what", "mean wait", "of the best rule", "of the headroom")

Named = tuple[str, str]  # policy, backfilling
Floats = NDArray[np.float64]


def mean_wait_s(schedule: Schedule) -> float:
    """Return the mean wait, in seconds."""
    return float(schedule.wait_s[schedule.ran].mean())


@dataclass(frozen=True)
class Ordered:
    """Run times as they are, and places to go by instead of them."""

    places: Floats
    name: str = "ordered"

    def estimate(self, jobs: rltune.Jobs, seed: int) -> Estimates:  # noqa: ARG002
        """Tell the truth, and rank by the places."""
        return Estimates(jobs.duration_s, rank_s=self.places)


def in_given_order(window: rltune.Jobs, cluster: rltune.Cluster, places: Floats, backfill: str) -> Schedule:
    """Return the schedule if waiting jobs go by these places, lowest first; reservations know the run times."""
    return rltune.simulate(window, cluster, "sjf", backfill, estimator=Ordered(places))


def moved(places: Floats, rng: np.random.Generator) -> Floats:
    """Return the places with a few jobs of one stretch of the window moved up or down, far or a little."""
    count = len(places)
    stretch = int(rng.integers(8, count))
    first = int(rng.integers(0, count - stretch))
    jobs = first + rng.choice(stretch, size=int(rng.integers(1, MOST_MOVED + 1)), replace=False)
    changed = places.copy()
    changed[jobs] *= np.exp(rng.normal(0.0, rng.choice([0.1, 0.5, 2.0]), size=len(jobs)))
    return changed


def passed(places: Floats, ran: Schedule, rng: np.random.Generator) -> Floats:
    """Return the places with one who waited put just before one of those who started meanwhile, or those behind it."""
    wait_s = np.where(ran.ran, ran.wait_s, 0.0)
    if not wait_s.sum() > 0.0:
        return moved(places, rng)
    late = int(rng.choice(len(places), p=wait_s / wait_s.sum()))
    since_s, until_s = ran.jobs.submit_s[late], ran.start_s[late]
    meanwhile = np.flatnonzero(ran.ran & (ran.start_s >= since_s) & (ran.start_s <= until_s))
    others = meanwhile[meanwhile != late]
    if not len(others):
        return moved(places, rng)
    changed = places.copy()
    other = int(rng.choice(others))
    if rng.random() < 0.5:
        changed[late] = places[other] * (1.0 - 1e-9)
    else:
        changed[other] = places[late] * (1.0 + 1e-9)
    return changed


def searched_wait_s(window: rltune.Jobs, cluster: rltune.Cluster, tried: int, seed: int) -> float:
    """Return the shortest mean wait that so many orders give, a third of them under each backfilling.

    A worse order is gone on with at times, ever more rarely, so that the search leaves what is best nearby.
    """
    rng = np.random.default_rng(seed)
    area = np.maximum(window.gpus, 1) * np.maximum(window.duration_s, 1.0)
    starts = (area, np.maximum(window.duration_s, 1.0), 1.0 + window.submit_s - window.submit_s[0])
    found = []
    for backfill in BACKFILLS:
        ran = [in_given_order(window, cluster, places, backfill) for places in starts]
        first = int(np.argmin([mean_wait_s(schedule) for schedule in ran]))
        here, places = ran[first], starts[first]
        here_s = best_s = mean_wait_s(here)
        steps = tried // len(BACKFILLS)
        for step in range(steps):
            other = passed(places, here, rng) if rng.random() < 0.7 else moved(places, rng)
            there = in_given_order(window, cluster, other, backfill)
            there_s = mean_wait_s(there)
            warmth_s = WARMEST * best_s * (1.0 - step / steps)
            if there_s <= here_s or rng.random() < np.exp((here_s - there_s) / max(warmth_s, 1e-9)):
                here, here_s, places = there, there_s, other
                best_s = min(best_s, here_s)
        found.append(best_s)
    return min(found)


def rows(name: str, bench: Bench, tried: int) -> Iterator[str]:
    """Yield the best rule in hindsight, the shipped models, search at decision time, and the offline search."""
    starts = bench.starts("test")
    windows = [bench.jobs.window(start, SIZE) for start in starts]
    trial = Trial(bench.jobs, bench.cluster, KNOWN)

    def waits(named: Named) -> Floats:
        pipeline = parse_pipeline(*named, "best-fit")
        return np.array([mean_wait_s(trial.run(pipeline, start, SIZE)) for start in starts])

    def best_of(policies: tuple[str, ...]) -> tuple[str, Floats]:
        ran = {f"{policy} + {b}": waits((policy, b)) for policy in policies for b in BACKFILLS}
        best = min(ran, key=lambda what: ran[what].mean())
        return best, ran[best]

    rule, of_rule = best_of(RULES)
    offline = np.array([searched_wait_s(w, bench.cluster, tried, i) for i, w in enumerate(windows)])
    offline = np.minimum(offline, of_rule)  # the rule's schedule can be had, too
    usual = {f"{LEARNED} + {b}": waits((LEARNED, b)) for b in BACKFILLS}
    model, of_model = best_of(MODELS)
    search, of_search = best_of(SEARCHED)
    told = {
        f"best rule in hindsight: {rule}": of_rule,
        **usual,
        f"best model in hindsight: {model}": of_model,
        f"best search at decision time: {search}": of_search,
        f"offline search, {tried:,} orders a window": offline,
    }
    room_s = of_rule.mean() - offline.mean()
    for what, values in told.items():
        to_rule = over_windows(values, of_rule, ratio, confidence=0.95)
        reached = f"{(of_rule.mean() - values.mean()) / room_s:.0%}"
        interval = f"{to_rule.estimate:.3f} [{to_rule.low:.3f}, {to_rule.high:.3f}]"
        yield f"| {name} | {len(windows)} | {what} | {values.mean():,.0f} s | {interval} | {reached} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, metavar="DIR", help="where the traces lie, at any depth")
    parser.add_argument("--only", choices=tuple(TRACES), help="one trace alone")
    parser.add_argument("--windows", type=int, default=100, help="the most windows of a trace")
    parser.add_argument("--tried", type=int, default=12000, help="orders that the offline search tries a window")
    args = parser.parse_args()
    print(f"| {' | '.join(HEAD)} |")
    print("| --- " * len(HEAD) + "|")
    for name, (file, preset) in TRACES.items():
        if args.only in {None, name}:
            jobs, _ = in_order(rltune.read_trace(next(iter(sorted(args.traces.rglob(file))))), None)
            for row in rows(name, Bench(name, jobs, rltune.Cluster.load(preset), args.windows, quick=True), args.tried):
                print(row, flush=True)


if __name__ == "__main__":
    main()
