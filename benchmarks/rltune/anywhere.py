"""Teach the networks for any workload: least regret over many workloads at once, and not gain on one.

python benchmarks/rltune/anywhere.py --traces DIR -o anywhere.rltune [--generations 50]

A group is a workload (a public trace or a synthetic one, a cluster, a load) with an estimator and a backfilling: four
windows in which jobs queue. A candidate's regret in a group is the logarithm of its cost over that of the rule that is
best there in hindsight, by mean wait and by bounded slowdown. It is scored by the mean of its regrets plus the root
mean square of those above 0, so that one bad workload counts for more than many good ones. Of Philly, Helios and PAI
the first 45 % teach and the next 15 % choose; what comes later is left for safe.py. So are the other traces, and the
seeds of its synthetic ones.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from safe import Workload, at_load, read_list

from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.jobs import Jobs
from rltune.learn.cma_es import Cma, as_written, two_scores
from rltune.learn.input_scaling import Queues, Scaling
from rltune.learn.replayed_windows import Stage, costs, mean_slowdown, mean_wait
from rltune.learn.training_windows import TrainingWindow
from rltune.model.card import Card, HeldOut, Lessons
from rltune.model.feature_sets import get_recipe
from rltune.model.learned_model import Model
from rltune.model.model_file import read_model, save_model
from rltune.policy.base import Policy
from rltune.policy.learned import Learned
from rltune.trace import load, synthesise
from rltune.trials.contention import CONTENDED_S, fcfs_wait_s
from rltune.trials.even_ratio import even_ratio
from rltune.trials.warm_start import Knowledge

FEATURES = (
    "gpus+requested_time+job_size+submit_time+urgency+can_schedule_now+leftover+demand_supply+future_availability"
)
START = {"job_size": -1.0, "gpus": -0.7, "requested_time": -0.5}  # more or less smallest area first
HIDDEN = (8, 6)
EACH = 4  # windows of a group
PROBED = 24  # windows that are looked at to find them
SHARES = ((0.0, 0.45), (0.45, 0.6))  # of a public trace: what teaches, what chooses
SEEDS = (5000, 9000)  # of synthetic traces, from these on
PUBLIC = {
    "philly_jobs.csv*": ("philly-slice", "32x8", "16x4+16x8"),
    "venus_gpu_jobs.csv*": ("helios-slice", "40x4+20x8", "24x8"),
    "pai_tasks_sample.csv*": ("pai-slice", "64x4", "20x2+24x8"),
}
SYNTHETIC = {
    "lublin": ("256x1", "32x4", "16x8+32x4", "128x2"),
    "philly": ("philly-slice", "24x8", "20x2+15x8"),
    "helios": ("helios-slice", "32x8", "20x4+16x8"),
    "pai": ("pai-slice", "48x8", "16x4+32x2"),
    "habits": ("philly-slice", "16x8", "32x4"),
    "campaigns": ("10x2+20x8", "16x8", "64x2"),
}
GUESSES = ("history", "history", "oracle", "noisy", "noisy:0.6", "user")
BACKFILLS = ("none", "easy", "fit-first")
SIZES = (256, 256, 256, 512)
LEAST, CALM = 1.0, 0.02  # second or slowdown, and share of the mean, below which windows are alike


@dataclass(frozen=True)
class Group:
    """Windows of one workload under one estimator and one backfilling, and what the best rule costs in each."""

    name: str
    windows: tuple[TrainingWindow, ...]
    best: np.ndarray  # [metric, window]


def drawn_workload(folder: dict[str, Jobs], part: int, rng: np.random.Generator) -> tuple[str, Jobs, Cluster]:
    """Draw a workload: a public trace's part at its own clock or at a load, or a synthetic trace."""
    level = float(rng.uniform(0.6, 1.4))
    if rng.random() < 0.4:
        trace = str(rng.choice(list(PUBLIC)))
        where = str(rng.choice(PUBLIC[trace]))
        machine, jobs = machine_of(where), folder[trace]
        jobs = at_load(jobs, machine.gpu_count, level) if where not in Cluster.presets() or rng.random() < 0.5 else jobs
        first, last = (int(share * len(jobs)) for share in SHARES[part])
        return f"{trace} {where} {level:.2f}", jobs.window(first, last - first), machine
    kind = str(rng.choice(list(SYNTHETIC)))
    where, seed = str(rng.choice(SYNTHETIC[kind])), int(SEEDS[part] + rng.integers(4000))
    machine = machine_of(where)
    return f"{kind} {seed} {where} {level:.2f}", synthesise(kind, 12_000, seed, level, machine).sorted(), machine


def machine_of(text: str) -> Cluster:
    """Return a cluster by its preset's name or as nodes x GPUs."""
    return Workload("", "", text, 0, ()).machine()


def draw_group(folder: dict[str, Jobs], part: int, rng: np.random.Generator, rules: Sequence[str]) -> Group:
    """Draw a workload, an estimator, a backfilling and windows with a queue."""
    while True:
        name, jobs, machine = drawn_workload(folder, part, rng)
        size, backfill = int(rng.choice(SIZES)), str(rng.choice(BACKFILLS))
        limits = np.isfinite(jobs.limit_s).mean() > 0.9
        guess = str(rng.choice(GUESSES if limits else GUESSES[:-1]))
        firsts = np.sort(rng.choice(np.arange(len(jobs) // 5, len(jobs) - size, size // 2), PROBED))
        firsts = [f for f in np.unique(firsts).tolist() if fcfs_wait_s(jobs.window(f, size), machine) > CONTENDED_S]
        if len(firsts) >= EACH:
            break
    known = Knowledge(jobs, 0)
    chosen = sorted(rng.permutation(firsts)[:EACH].tolist())
    windows = tuple(window_of(jobs, machine, first, size, guess, backfill, known) for first in chosen)
    policies = [parse_pipeline(rule).policy for rule in rules]
    tried = np.array([[run(w, known.policy(p, w.first, size)) for w in windows] for p in policies])
    best = [tried[tried[:, :, metric].mean(axis=1).argmin(), :, metric] for metric in range(2)]
    return Group(f"{name} {guess} {backfill} {size}", windows, np.array(best))


def window_of(
    jobs: Jobs, machine: Cluster, first: int, size: int, guess: str, backfill: str, known: Knowledge
) -> TrainingWindow:
    """Return a window with what was known when it begins."""
    estimates = known.made(guess, first, jobs.window(first, size))
    return TrainingWindow(first, jobs.window(first, size), machine, estimates, parse_pipeline("saf", backfill))


def both(machine: Machine) -> tuple[float, float]:
    """Return the mean wait and the bounded slowdown of a run."""
    return mean_wait(machine), mean_slowdown(machine)


def run(window: TrainingWindow, policy: Policy) -> tuple[float, float]:
    """Return what a policy costs in a window, by either metric."""
    machine = window.machine(policy)
    machine.run()
    return both(machine)


def regrets(found: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Return the logarithm of costs over the best rule's, window by window and of sums: the last axis is gone."""
    floor = LEAST + CALM * best.mean(axis=-1, keepdims=True)
    found, best = np.maximum(found, floor), np.maximum(best, floor)
    return np.log(even_ratio(found.sum(axis=-1) / best.sum(axis=-1), found, best))


def score(regret: np.ndarray) -> np.ndarray:
    """Return one number a candidate: the mean, and once more the root mean square of what is above 0."""
    return regret.mean(axis=-1) + np.sqrt((np.maximum(regret, 0.0) ** 2).mean(axis=-1))


@dataclass(frozen=True)
class Staged:
    """Groups that are ready to be run again and again."""

    stages: list[Stage]
    best: np.ndarray  # [metric, group, window]

    @classmethod
    def of(cls, groups: Sequence[Group], model: Model) -> "Staged":
        """Prepare every window once."""
        stages = [Stage.of(w.machine(Learned(model))) for g in groups for w in g.windows]
        return cls(stages, np.array([g.best for g in groups]).swapaxes(0, 1))

    def regrets(self, weights: list[np.ndarray], chosen: np.ndarray | None = None) -> np.ndarray:
        """Run weights on some groups, all if not told: [candidate, metric and group]."""
        chosen = np.arange(self.best.shape[1]) if chosen is None else chosen
        picked = [self.stages[EACH * g + i] for g in chosen for i in range(EACH)]
        found = costs(picked, weights, both, 1).reshape(2, len(weights), len(chosen), EACH).swapaxes(0, 1)
        return regrets(found, self.best[:, chosen]).reshape(len(weights), -1)


def teach(train: Sequence[Group], held: Sequence[Group], given: argparse.Namespace) -> Iterator[tuple[Model, float]]:
    """Evolve; give a model whenever it is better on the groups that choose, with its mean ratio there."""
    recipe, seen = get_recipe(FEATURES), [w for g in [*train, *held] for w in g.windows[:2]]
    scaling = Scaling.of(Queues.under_base(seen, recipe, "saf"))
    begin = read_model(given.begin) if given.begin else None
    norm = scaling.seen_through(begin.norm).norm if begin else scaling.norm
    weights, matrix = two_scores(recipe, HIDDEN, norm, np.random.default_rng(given.seed))
    start = np.array([*(START.get(name, 0.0) for name in recipe.inputs), *np.zeros(len(recipe.inputs)), 1.0])
    if begin:
        start, *_ = np.linalg.lstsq(matrix, begin.weights - weights, rcond=None)  # its two scores
    model = Model(recipe, HIDDEN, as_written(weights + matrix @ start), norm, "saf", "job")
    staged, judge = Staged.of(train, model), Staged.of(held, model)
    rng = np.random.default_rng(given.seed)
    cma, least = Cma(start, given.sigma, given.tried, rng), np.inf
    for generation in range(given.generations + 1):
        if generation % 5 == 0:
            now = as_written(weights + matrix @ cma.mean)
            found = judge.regrets([now])[0]
            middle, worst = float(np.exp(found.mean())), float(np.exp(found.max()))
            print(f"{generation}: {score(found):.4f}, mean {middle:.3f}, worst {worst:.2f}", flush=True)
            if score(found) < least:
                least = float(score(found))
                yield replace(model, weights=now), middle
        chosen = rng.choice(len(train), min(given.groups, len(train)), replace=False)
        cma.tell(score(staged.regrets([as_written(weights + matrix @ p) for p in cma.ask()], chosen)))


def lessons(folder: dict[str, Jobs], groups: Sequence[Sequence[Group]]) -> Lessons:
    """Note what taught and what chose: the parts of public traces, and the windows of synthetic ones."""
    noted = []
    for part, share in enumerate(SHARES):
        spans = [
            (t.rstrip("*"), j.window(int(share[0] * len(j)), int((share[1] - share[0]) * len(j))))
            for t, j in folder.items()
        ]
        made = [
            (f"synth:{g.name.split()[0]}", w.jobs)
            for g in groups[part]
            if not g.name.startswith(tuple(PUBLIC))
            for w in g.windows
        ]
        noted.append([*spans, *made])
    return Lessons.of(*noted)


def main() -> None:
    """Draw groups, teach, write the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, help="the folder of the public traces")
    parser.add_argument("--generations", type=int, default=50)
    parser.add_argument("--tried", type=int, default=12)
    parser.add_argument("--groups", type=int, default=22, help="that all candidates of a generation are tried on")
    parser.add_argument("--drawn", type=int, nargs=2, default=(64, 32), help="groups that teach, and that choose")
    parser.add_argument("--begin", type=Path, help="go on from such a model")
    parser.add_argument("--sigma", type=float, default=0.3, help="size of the first steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path, required=True)
    given = parser.parse_args()
    rules = read_list()[0]["rules"]
    folder = {trace: load(next(iter(sorted(given.traces.rglob(trace))))).jobs.sorted() for trace in PUBLIC}
    rng = np.random.default_rng(given.seed)
    groups = [[draw_group(folder, part, rng, rules) for _ in range(count)] for part, count in enumerate(given.drawn)]
    print(f"{sum(map(len, groups))} groups drawn", flush=True)
    noted, traces = lessons(folder, groups), "; ".join([*(t.rstrip("*") for t in folder), "synthetic traces"])
    for model, middle in teach(*groups, given):
        card = Card(
            trace=traces,
            cluster="presets and others, 20 in all",
            command=f"python benchmarks/rltune/anywhere.py --traces DIR -o {given.out.name}",
            estimators=tuple(dict.fromkeys(GUESSES)),
            held_out=HeldOut(EACH * len(groups[1])),
            settings={
                "objective": "wait and slowdown",
                "backfill": ", ".join(BACKFILLS),
                "held out, of the best rule in hindsight": round(middle, 3),
            },
            lessons=noted,
            unknown="",
        )
        save_model(replace(model, card=card), given.out)


if __name__ == "__main__":
    main()
