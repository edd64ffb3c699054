"""The learned policy in RLScheduler's machine: trained on traces made by Lublin's model, tested on lublin_256.swf.

python benchmarks/rltune/lublin.py --trace lublin_256.swf [--model lublin.rltune] [--generations 20]

Bounded slowdown with backfilling by the shadow time, ten windows of 1,024 jobs (docs/reference/semantics.md). The file
is read only after training has ended.
"""

import argparse
from pathlib import Path

import numpy as np

from rltune import Cluster, read_trace
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.learn.cma_es import EvolveSettings, Told, evolve, two_scores
from rltune.learn.replayed_windows import Stage, costs, mean_slowdown
from rltune.model.card import Card, Lessons
from rltune.model.feature_sets import get_recipe
from rltune.model.learned_model import Model
from rltune.model.model_file import read_model, save_model
from rltune.policy import get_policy
from rltune.policy.base import Policy
from rltune.policy.learned import Learned
from rltune.trace.lublin import lublin

MACHINE = Cluster.uniform(1, 256)
STARTS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)  # of the published table
SEEDS = "synth:lublin, seeds 100-187"
RULES = ("fcfs", "sjf", "f1", "wfp3", "saf")
# What the network sees, with the middle and the spread of each in such traces.
INPUTS = {
    "gpus": (2.0, 1.4),
    "requested_time": (6.0, 2.5),
    "job_size": (8.0, 3.0),
    "submit_time": (6.0, 3.0),
    "can_schedule_now": (0.5, 0.5),
    "urgency": (2.0, 2.0),
    "queue_length": (3.0, 1.5),
    "busy": (0.8, 0.2),
    "future_availability": (4.0, 3.0),
}


def machine(jobs: Jobs, policy: Policy) -> Machine:
    """Prepare a window in RLScheduler's machine."""
    pipeline = parse_pipeline(policy, "shadow", head="global", commit=True)
    return Machine.of(jobs, MACHINE, pipeline, get_estimator("oracle"))


def slowdown(jobs: Jobs, policy: Policy) -> float:
    """Run a window."""
    run = machine(jobs, policy)
    run.run()
    return mean_slowdown(run)


def drawn(seeds: range, each: int, rng: np.random.Generator) -> list[Jobs]:
    """Draw windows of generated traces."""
    starts = {seed: rng.integers(0, 8_900, each).tolist() for seed in seeds}
    traces = {seed: lublin(10_000, 256, seed) for seed in seeds}
    return [traces[seed].window(first, 1024) for seed in seeds for first in starts[seed]]


def staged(windows: list[Jobs], model: Model) -> tuple[list[Stage], np.ndarray]:
    """Make windows ready, with what smallest-area-first costs in each."""
    base = [slowdown(window, get_policy("saf")) for window in windows]
    return [Stage.of(machine(window, Learned(model))) for window in windows], np.array(base)


def train(generations: int, threads: int) -> Model:
    """Evolve a network on 64 generated traces, chosen by 24 more."""
    recipe = get_recipe("+".join(INPUTS))
    norm = np.array([[middle, 1 / spread, -np.inf, np.inf] for middle, spread in INPUTS.values()])
    norm = np.nan_to_num(norm, posinf=1e9, neginf=-1e9)
    weights, matrix = two_scores(recipe, (8, 6), norm, np.random.default_rng(1))
    start = np.zeros(matrix.shape[1])
    start[recipe.inputs.index("job_size")] = -1.5  # smallest area first
    model = Model(recipe, (8, 6), weights + matrix @ start, norm, "saf", "off")
    rng = np.random.default_rng(0)
    training, held = drawn(range(100, 164), 4, rng), drawn(range(164, 188), 4, rng)
    settings = EvolveSettings(generations, 12, 64, sigma=0.15, every=2, patience=8, threads=threads)
    parts = staged(training, model), staged(held, model)
    found, _ = evolve(weights, matrix, start, *parts, settings, mean_slowdown, tell)
    lessons = Lessons.of([(SEEDS, window) for window in training], [(SEEDS, window) for window in held])
    card = Card(trace=SEEDS, command="python benchmarks/rltune/lublin.py", lessons=lessons, unknown="")
    return Model(recipe, (8, 6), found, norm, "saf", "off", card)


def tell(news: Told) -> None:
    """Print how it goes."""
    print(f"generation {news.generation}: {news.validation:.3f} of saf's on generated held-out windows", flush=True)


def main() -> None:
    """Train if there is no model yet, then test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", required=True, help="lublin_256.swf")
    parser.add_argument("--model", default="lublin.rltune", help="where the model is kept; trained if it is not there")
    parser.add_argument("--generations", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if not Path(options.model).exists():
        save_model(train(options.generations, options.threads), options.model)
    model = read_model(options.model)
    trace = read_trace(options.trace)
    windows = [trace.window(first, 1024) for first in STARTS]
    values = {name: [slowdown(window, get_policy(name)) for window in windows] for name in RULES}
    for name in RULES:
        print(f"{name:8s} {np.mean(values[name]):8.2f}")
    ours = costs([Stage.of(machine(window, Learned(model))) for window in windows], [model.weights], mean_slowdown, 1)
    ratio = ours[0] / values["saf"]
    print(f"{'learned':8s} {ours.mean():8.2f}   single windows {ratio.min():.1f} to {ratio.max():.1f} of saf's")


if __name__ == "__main__":
    main()
