"""What taking turns is worth beside the best that can be done without, on held-out windows of the public traces.

python benchmarks/rltune/turns.py --traces DIR

Disjoint contended windows of 1,024 jobs, estimates from history, restarts of 120 s, checkpoints every 600 s. One
pipeline with turns is judged on the last tenth of every trace, with everybody willing and with three in ten. It was
chosen on earlier jobs: --earlier shows what it was chosen from, there. Beside it stands the best in hindsight on those
very windows. The pipeline without turns is always the best in hindsight: of all rules and all shipped models, under
three ways of backfilling, and of the three best of them with the look-ahead solver. Ratios are to it, paired by window,
with 95 % intervals.

--quick takes the pipeline without turns that was the best in a whole run. --lots draws several times who is willing.
--bases asks, on earlier windows, whose order those should keep who may not be displaced.
--prototype asks again what a prototype was asked, on Venus' last 27 days: one pool, cheaper restarts, other windows.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

import rltune
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.opt_in import opted_in
from rltune.policy.by_name import LEARNED, MODELS, policy_table
from rltune.preemption_rules import PreemptionRule
from rltune.schedule import Schedule
from rltune.trials.contention import fcfs_wait_s, is_contended
from rltune.trials.intervals import over_windows, ratio
from rltune.trials.parts import Part, split
from rltune.trials.trial import Trial, in_order

TRACES = {
    "Philly": ("philly_jobs.csv.gz", "philly-slice"),
    "Helios (Venus)": ("venus_gpu_jobs.csv.gz", "helios-slice"),
    "PAI": ("pai_tasks_sample.csv.gz", "pai-slice"),
}
SIZE, CONTENDED_S, RESTART_S, CHECKPOINT_S = 1024, 600.0, 120.0, 600.0
SHIPPED = sorted(file.name.removesuffix(".rltune") for file in MODELS.iterdir() if file.name.endswith(".rltune"))
ORDERED = (*(rule.name for rule in policy_table()), *(f"{LEARNED}:{name}" for name in SHIPPED))
WITHOUT = tuple((policy, backfill, "best-fit") for policy in ORDERED for backfill in ("none", "fit-first", "easy"))
WITH = tuple(
    (f"{policy}+preempt:{order}{most}", backfill, "best-fit")
    for policy, order in (("fcfs", "las"), ("saf", "las"), ("fcfs", "gittins"), ("saf", "gittins"), ("saf", "srsf"))
    for most in ("", ":most=20")
    for backfill in ("fit-first", "easy")
)
QUICK_WITHOUT = {
    "Philly": (f"{LEARNED}:philly-slowdown", "fit-first", "milp"),
    "Helios (Venus)": (f"{LEARNED}:pai-slowdown", "easy", "best-fit"),
    "PAI": (f"{LEARNED}:philly-noisy", "none", "best-fit"),
}
QUICK_WITH = tuple(named for named in WITH if "most" not in named[0])
BASE = f"{LEARNED}:mixed"  # those keep its order who may not be displaced
CHOSEN = (f"{BASE}+preempt:gittins:most=20", "fit-first", "best-fit")
SHARES = (1.0, 0.3)
BOUNDS = (
    (":late=24h", "one day"),
    (":late=off", "no bound"),
    (":cover=1", "covered"),
)  # beside the usual one of two days
BOUND_S = 172800.0
EARLIER_FROM, EARLIER_WINDOWS = 0.6, 20  # what is chosen is chosen between there and the last tenth
EARLIER_WITHOUT = tuple((p, b, "best-fit") for p in ("saf", "qssf", "sjf", LEARNED) for b in ("fit-first", "easy"))
TRIED = (
    *((f"{BASE}+preempt:gittins{told}", "fit-first") for told in ("", ":late=24h", ":late=off")),
    *((f"{CHOSEN[0]}:late={late}", "fit-first") for late in ("24h", "48h", "72h", "off")),
    (f"{CHOSEN[0]}:late=24h:times=4", "fit-first"),
    *((f"{CHOSEN[0]}:{told}", "fit-first") for told in ("margin=2", "each=0", "each=0.3", "gain=4")),
    (CHOSEN[0], "easy"),
    *((f"{BASE}+preempt:{told}:most=20", "fit-first") for told in ("las", "srsf", "srsf:margin=4:each=0.05")),
)
BASES = ("fcfs", "saf", LEARNED, *(f"{LEARNED}:{name}" for name in ("mixed", "philly-slowdown", "pai-slowdown")))
BASE_SHARES, BASE_LOTS = (0.0, 0.1, 0.3), 3
OTHER_CHECKPOINTS_S = (0.0, 1800.0, 3600.0)
LOTS = 8  # times that it is drawn who is willing
PROTOTYPE_DAYS, PROTOTYPE_POOL = 27, (54, 8)
FREE = "run=600:most=1000:late=off:once=0:each=0"  # a prototype had no bound and weighed nothing
SHOWN = 3  # of the best without turns, and with the solver
DELAY, P99, LOST, PREEMPTIONS, DISPLACED, LATE, OVER_H = range(7)
HEAD = (
    "trace",
    "windows",
    "willing",
    "checkpoints",
    "pipeline",
    "mean delay",
    "ratio",
    "p99 of the delay",
    "turns a job",
    "lost",
    "later by two days",
)

HEADS_OF = {
    "all": HEAD,
    "bases": ("trace", "windows", "base", *(f"{share:.0%}" for share in BASE_SHARES)),
    "lots": ("trace", "willing", "lots", "ratio of means (least to most)", "p99 of the delay", "lost"),
    "prototype": ("windows", "pipeline", "estimates", "willing", "restart", "mean delay", "turns a job"),
}

Named = tuple[str, str, str]  # policy, backfilling, placement


def measures(schedule: Schedule) -> np.ndarray:
    """Return mean delay, its 99th percentile, the share of GPU time that was lost, and preemptions a job.

    Then how many jobs were displaced, how many of them ended later than if they had run on by more than the usual
    bound, and by how many hours more, in all. A job that was displaced would have run on from its first start.
    """
    ran = schedule.ran
    gpus, lost = schedule.jobs.gpus[ran], schedule.lost_s[ran]
    held = gpus @ (schedule.jobs.duration_s[ran] + lost)
    delay = schedule.delay_s[ran]
    displaced = schedule.preemptions[ran] > 0
    toll_s = (schedule.end_s - schedule.start_s - schedule.jobs.duration_s)[ran][displaced]
    over_s = toll_s[toll_s > BOUND_S + 60.0] - BOUND_S
    cost = [gpus @ lost / held, schedule.preemptions[ran].mean(), displaced.sum(), len(over_s), over_s.sum() / 3600]
    return np.array([delay.mean(), np.percentile(delay, 99), *cost])


def willing(
    jobs: rltune.Jobs,
    cluster: rltune.Cluster,
    share: float,
    checkpoint_s: float,
    lot: int = 0,
    restart_s: float = 120.0,
) -> rltune.Jobs:
    """Return the jobs of which such a share, by lot, may be displaced, and nobody else."""
    rules = (
        PreemptionRule(share=share, checkpoint=checkpoint_s, restart=restart_s, seed=lot),
        PreemptionRule(preemptible=False),
    )
    return opted_in(jobs, replace(cluster, preemption=rules))


@dataclass(frozen=True, eq=False)
class Bench:
    """One trace, and how many windows of it are run at most."""

    name: str
    jobs: rltune.Jobs
    cluster: rltune.Cluster
    most: int
    quick: bool

    @cache  # noqa: B019  a bench lives as long as its rows
    def starts(self, part: str) -> list[int]:
        """Return where disjoint contended windows of a part start, evenly spread."""
        starts = self._part(part).starts(SIZE, SIZE)
        good = [s for s in starts if is_contended(fcfs_wait_s(self.jobs.window(s, SIZE), self.cluster), CONTENDED_S)]
        most = min(self.most, EARLIER_WINDOWS) if part == "earlier" else self.most
        return [good[i] for i in np.unique(np.linspace(0, len(good) - 1, min(most, len(good))).round().astype(int))]

    def _part(self, name: str) -> Part:
        parts = split(len(self.jobs), 0.1)
        return parts.test if name == "test" else Part(name, int(EARLIER_FROM * len(self.jobs)), parts.validation.end)

    @cache  # noqa: B019  a bench lives as long as its rows
    def trial(self, share: float, checkpoint_s: float, lot: int = 0) -> Trial:
        """Return the trace with such a share willing."""
        return Trial(willing(self.jobs, self.cluster, share, checkpoint_s, lot), self.cluster, "history")

    @cache  # noqa: B019  a bench lives as long as its rows
    def run(
        self, named: Named, part: str, share: float, checkpoint_s: float = CHECKPOINT_S, lot: int = 0
    ) -> np.ndarray:
        """Return [window, measure]."""
        policy, backfill, placement = named
        pipeline = parse_pipeline(policy, backfill, placement)
        trial = self.trial(share, checkpoint_s, lot)
        return np.array([measures(trial.run(pipeline, start, SIZE)) for start in self.starts(part)])

    def ranked(self, among: tuple[Named, ...], part: str, share: float) -> list[Named]:
        """Return pipelines in order of their mean delay."""
        return sorted(among, key=lambda named: self.run(named, part, share)[:, DELAY].mean())

    def best_without(self) -> list[Named]:
        """Return the best pipelines without turns, in hindsight."""
        if self.quick:
            return [QUICK_WITHOUT[self.name]]
        greedy = self.ranked(WITHOUT, "test", 0.0)[:SHOWN]
        solved = tuple((policy, backfill, "milp") for policy, backfill, _ in greedy)
        return self.ranked((*greedy, *solved), "test", 0.0)


def compared(values: np.ndarray, best: np.ndarray) -> str:
    """Return the mean delay, and it and its 99th percentile as ratios to the best without turns."""
    delay, p99 = (over_windows(values[:, m], best[:, m], ratio, confidence=0.95) for m in (DELAY, P99))
    told = (f"{r.estimate:.2f} [{r.low:.2f}, {r.high:.2f}]" for r in (delay, p99))
    return f"{values[:, DELAY].mean():,.0f} s | {' | '.join(told)}"


def late(values: np.ndarray) -> str:
    """Return how many of the displaced ended later by more than the usual bound, and by how much more on average."""
    displaced, many, hours = values[:, [DISPLACED, LATE, OVER_H]].sum(axis=0)
    return f"{many:.0f} of {displaced:.0f}" + (f", by {hours / many:.0f} h" if many else "")


def told(values: np.ndarray) -> str:
    """Return turns a job, the share of GPU time that was lost, and who was late."""
    return f"{values[:, PREEMPTIONS].mean():.2f} | {values[:, LOST].mean():.1%} | {late(values)}"


def earlier_rows(bench: Bench) -> Iterator[str]:
    """Yield, on earlier windows, the best of a few pipelines without turns and all that were tried with turns."""
    best = bench.run(bench.ranked(EARLIER_WITHOUT, "earlier", 0.0)[0], "earlier", 0.0)
    start = f"| {bench.name} | {len(bench.starts('earlier'))} |"
    for share in SHARES:
        for named in TRIED:
            values = bench.run((*named, "best-fit"), "earlier", share)
            label = f"{share:.0%} | {CHECKPOINT_S / 60:g} min | {' + '.join(named)}"
            yield f"{start} {label} | {compared(values, best)} | {told(values)} |"


def base_rows(bench: Bench) -> Iterator[str]:
    """Yield, on earlier windows, the delay by base, over lots, beside the best base with nobody willing."""
    delays = [[_over_lots(bench, base, share) for share in BASE_SHARES] for base in BASES]
    best = min(row[0] for row in delays)
    for base, row in zip(BASES, delays, strict=True):
        told = " | ".join(f"{delay / best:.2f}" for delay in row)
        yield f"| {bench.name} | {len(bench.starts('earlier'))} | {base} | {told} |"


def _over_lots(bench: Bench, base: str, share: float) -> float:
    """Return the mean delay with such a share willing, over lots."""
    named = (CHOSEN[0].replace(BASE, base), *CHOSEN[1:])
    lots = BASE_LOTS if share else 1
    runs = (bench.run(named, "earlier", share, CHECKPOINT_S, lot) for lot in range(lots))
    return float(np.mean([values[:, DELAY].mean() for values in runs]))


def rows(bench: Bench, *, everything: bool, bounds_alone: bool) -> Iterator[str]:
    """Yield the best without turns, then by share what was chosen, with other bounds too, and the best in hindsight."""
    start = f"| {bench.name} | {len(bench.starts('test'))} |"
    without = bench.best_without()
    best = bench.run(without[0], "test", 0.0)
    for named in without:
        yield f"{start} - | - | {' + '.join(named)} | {compared(bench.run(named, 'test', 0.0), best)} | | | |"

    def row(named: Named, share: float, note: str, checkpoint_s: float = CHECKPOINT_S) -> str:
        values = bench.run(named, "test", share, checkpoint_s)
        label = f"{' + '.join(named[:2])}, {note}"
        ratios = compared(values, best)
        return f"{start} {share:.0%} | {checkpoint_s / 60:g} min | {label} | {ratios} | {told(values)} |"

    for share in SHARES:
        yield row(CHOSEN, share, "chosen before")
        yield from (row((f"{CHOSEN[0]}{word}", *CHOSEN[1:]), share, note) for word, note in BOUNDS)
        if bounds_alone:
            continue
        ranked = bench.ranked(QUICK_WITH if bench.quick else WITH, "test", share)
        shown = ranked if everything or bench.quick else ranked[:1]
        yield from (row(named, share, "in hindsight") for named in shown)
        yield from (row(CHOSEN, share, "chosen before", every) for every in OTHER_CHECKPOINTS_S)


def lot_rows(bench: Bench) -> Iterator[str]:
    """Yield, for what was chosen, the ratio of means by each of several lots that draw who is willing."""
    best = bench.run(bench.best_without()[0], "test", 0.0)
    for share in (0.0, 0.1, 0.3, 0.5):
        by_lot = [bench.run(CHOSEN, "test", share, CHECKPOINT_S, lot) for lot in range(LOTS if share else 1)]
        delay, p99 = (np.array([one[:, m].mean() / best[:, m].mean() for one in by_lot]) for m in (DELAY, P99))
        lost = np.array([one[:, LOST].mean() for one in by_lot])
        spread = " | ".join(f"{v.mean():.2f} ({v.min():.2f} to {v.max():.2f})" for v in (delay, p99))
        yield f"| {bench.name} | {share:.0%} | {len(by_lot)} | {spread} | {lost.mean():.1%} |"


def prototype_rows(jobs: rltune.Jobs) -> Iterator[str]:
    """Yield the mean delay and preemptions a job of what the prototype tried, over the same windows of its own."""
    pool = rltune.Cluster.uniform(*PROTOTYPE_POOL)
    first = int(np.searchsorted(jobs.submit_s, jobs.submit_s[-1] - PROTOTYPE_DAYS * 86400.0))
    places = range(first, len(jobs) - SIZE + 1, SIZE)
    starts = [s for s in places if is_contended(fcfs_wait_s(jobs.window(s, SIZE), pool), CONTENDED_S)]

    def row(policy: str, backfill: str, knows: str, share: float = 1.0, restart_s: float = 60.0) -> str:
        trial = Trial(willing(jobs, pool, share, 0.0, 0, restart_s), pool, knows)
        values = np.array([measures(trial.run(parse_pipeline(policy, backfill), start, SIZE)) for start in starts])
        who = f"{len(starts)} | {policy} + {backfill} | {knows} | {share:.0%} | {restart_s:g} s"
        return f"| {who} | {values[:, DELAY].mean():,.0f} s | {values[:, PREEMPTIONS].mean():.2f} |"

    yield from (row("saf", "easy", knows) for knows in ("history", "oracle"))
    yield row(f"fcfs+preempt:las:{FREE}", "fit-first", "history")
    yield row(f"fcfs+preempt:las:{FREE.replace('600', '1800')}", "fit-first", "history", 1.0, 300.0)
    yield row(f"saf+preempt:srsf:{FREE}:margin=1", "fit-first", "oracle")
    yield row(CHOSEN[0], CHOSEN[1], "history")
    for share in (0.1, 0.3, 0.5):
        yield row(f"fcfs+preempt:las:{FREE}", "fit-first", "history", share, 120.0)
        yield row(CHOSEN[0], CHOSEN[1], "history", share, 120.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, metavar="DIR", help="where the traces lie, at any depth")
    parser.add_argument("--windows", type=int, default=100, help="the most windows of a part of a trace")
    parser.add_argument("--only", choices=tuple(TRACES), help="one trace alone")
    parser.add_argument("--all", action="store_true", help="show all pipelines with turns, not only the best")
    parser.add_argument("--quick", action="store_true", help="without the search for the best without turns")
    parser.add_argument(
        "--earlier", action="store_true", help="what was tried, on earlier windows; nothing of the last"
    )
    parser.add_argument("--bounds", action="store_true", help="only the pipeline that was chosen, with each bound")
    parser.add_argument("--lots", action="store_true", help="what was chosen, with several lots for who is willing")
    parser.add_argument("--bases", action="store_true", help="whose order who is not willing keeps, on earlier windows")
    parser.add_argument("--prototype", action="store_true", help="what a prototype was asked, on Venus' last weeks")
    args = parser.parse_args()
    if args.prototype:
        args.only = "Helios (Venus)"
    head = HEADS_OF[next((mode for mode in ("bases", "lots", "prototype") if getattr(args, mode)), "all")]
    print(f"| {' | '.join(head)} |")
    print("| --- " * len(head) + "|")
    for name, (file, preset) in TRACES.items():
        if args.only not in {None, name}:
            continue
        found = sorted(args.traces.rglob(file))
        if not found:
            parser.error(f"{file} is not in {args.traces}")
        jobs, _ = in_order(rltune.read_trace(found[0]), None)
        bench = Bench(name, jobs, rltune.Cluster.load(preset), args.windows, args.quick)
        if args.prototype:
            shown = prototype_rows(jobs)
        elif args.lots:
            shown = lot_rows(bench)
        elif args.bases:
            shown = base_rows(bench)
        elif args.earlier:
            shown = earlier_rows(bench)
        else:
            shown = rows(bench, everything=args.all, bounds_alone=args.bounds)
        for row in shown:
            print(row, flush=True)


if __name__ == "__main__":
    main()
