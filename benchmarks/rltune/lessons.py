"""What the benchmarks of learning share: a trace, a short training, a judgement on held-out windows."""

import argparse
from dataclasses import dataclass, replace
from time import perf_counter

from rltune import Cluster, Jobs, read_trace
from rltune.evaluation import evaluate
from rltune.learn.train import Trainer
from rltune.learn.train_settings import TrainSettings
from rltune.model.learned_model import Model
from rltune.parallel import Processes
from rltune.policy.learned import Learned
from rltune.trace import synthesise

SYNTHETIC = "philly"
LOAD = 0.95


@dataclass(frozen=True)
class Lesson:
    """A trace on a cluster, and how long to train."""

    name: str
    jobs: Jobs
    cluster: Cluster
    estimator: str
    base: str
    epochs: int
    windows: int
    size: int
    every: int
    contended_s: float
    workers: int


def options(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", default=SYNTHETIC, help="a file, or philly, helios, pai for a synthetic one")
    parser.add_argument("--cluster", help="a preset or a file; the trace's slice")
    parser.add_argument("--jobs", type=int, default=20_000, help="of a synthetic trace")
    parser.add_argument("--estimator", default="history")
    parser.add_argument("--base", default="saf")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--windows", type=int, default=40, help="of an epoch, 256 jobs each")
    parser.add_argument("--size", type=int, default=1024, help="jobs in a held-out window")
    parser.add_argument("--every", type=int, default=128, help="jobs between the starts of held-out windows")
    parser.add_argument("--contended", type=float, default=600.0)
    parser.add_argument("--workers", type=int, default=1)
    return parser


def lesson(args):
    synthetic = args.trace in {"philly", "helios", "pai"}
    cluster = Cluster.load(args.cluster or f"{args.trace}-slice")
    jobs = synthesise(args.trace, args.jobs, 0, LOAD, cluster) if synthetic else read_trace(args.trace)
    name = f"synthetic {args.trace}, {args.jobs:,} jobs, load {LOAD}" if synthetic else args.trace
    how = (args.estimator, args.base, args.epochs, args.windows, args.size, args.every, args.contended, args.workers)
    return Lesson(f"{name} on {cluster.name}", jobs, cluster, *how)


def trained(of: Lesson, features: str, seed: int = 0, init: Model | None = None, **settings) -> tuple[Model, str]:
    """Train a network, if need be from one that is there; give it and what is to be said of its training."""
    began = perf_counter()
    usual = TrainSettings(
        base=of.base,
        estimators=(of.estimator,),
        features=features,
        epochs=of.epochs,
        windows=of.windows,
        pool=of.epochs * of.windows,
        held_size=of.size,
        contended_s=of.contended_s,
        seed=seed,
    )
    made = replace(usual, **settings)
    trainer = Trainer(of.jobs, of.cluster, made, init, threads=of.workers, trace=of.name)
    for _ in trainer.epochs():
        pass
    at = trainer.progress
    choices = sum(entry.get("choices", 0.0) for entry in at.log)
    best = f"{at.best.score:.3f} of {of.base} on validation in epoch {at.best_epoch} of {at.epoch}"
    return trainer.best_model(), f"{best}, {choices:,.0f} choices, {perf_counter() - began:.0f} s"


def judged(of: Lesson, models: dict[str, Model], also: tuple[str, ...] = ()):
    """Run models, FCFS, the base policy and others on the test part, without backfilling."""
    policies = [of.base, *(Learned(model, name) for name, model in models.items()), *also]
    with Processes(of.workers) as spread:
        return evaluate(
            of.jobs,
            of.cluster,
            policies,
            estimator=of.estimator,
            size=of.size,
            every=of.every,
            contended_s=of.contended_s,
            baseline=of.base,
            spread=spread,
        )
