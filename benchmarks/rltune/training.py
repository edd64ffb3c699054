"""How long a training of the paper's size takes: 100 epochs of 100 windows of 256 jobs, updates and all.

python benchmarks/rltune/training.py [--trace synth:philly,jobs=40000] [--cluster philly-slice] [--epochs 100]

Both wall-clock and CPU time are told: on a machine that others use, only the second says much.
"""

import argparse
import time

from rltune import Cluster
from rltune.cli.trace_argument import load_workload
from rltune.learn.train import Trainer
from rltune.learn.train_settings import TrainSettings
from rltune.parallel import Threads

PUBLISHED = (150, 516)  # job decisions a second of the published training loop on a machine like this


def main() -> None:
    """Train, and tell what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", default="synth:philly,jobs=40000")
    parser.add_argument("--cluster", default="philly-slice")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    cluster = Cluster.load(args.cluster)
    work = load_workload(args.trace, None, cluster)
    settings = TrainSettings(epochs=args.epochs, windows=100, size=256, patience=0)
    wall, cpu = time.perf_counter(), time.process_time()
    trainer = Trainer(work.jobs, cluster, settings, None, Threads(args.threads), args.threads)
    for progress in trainer.epochs():
        if progress.epoch % 10 == 0:
            print(f"epoch {progress.epoch}: {time.perf_counter() - wall:.0f} s", flush=True)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    decisions = args.epochs * 100 * 256
    rolled = sum(entry.get("rollout_s", 0.0) for entry in trainer.progress.log)
    print(f"{work.name} on {cluster.name}, {args.threads} threads")
    print(f"{args.epochs} epochs of 100 windows of 256 jobs: {wall / 60:.1f} min, {cpu / 60:.1f} min of CPU time")
    print(f"{decisions / wall:,.0f} job decisions a second in all, {decisions / rolled:,.0f} in drawing and rollouts")
    print(f"published loop: {PUBLISHED[0]} to {PUBLISHED[1]}")


if __name__ == "__main__":
    main()
