"""How long a training of the paper's size takes: 100 epochs of 100 windows of 256 jobs, from the CPU time of a few epochs.

    python benchmarks/rltune/training.py [TRACE] [CLUSTER]

CPU time, not wall time, is measured, so that a busy machine changes little; what two cores need is half of it, since
windows and gradients are spread over threads.
"""

import os
import sys
import time

import torch

from rltune import Cluster
from rltune.cli.workload import load_workload
from rltune.learn.settings import TrainSettings
from rltune.learn.train import Trainer

EPOCHS, MEASURED = 100, 3
THEIRS = 516  # job decisions a second of the published training loop, at its best


def main() -> None:
    trace = sys.argv[1] if len(sys.argv) > 1 else "synth:philly,jobs=40000"
    cluster = Cluster.load(sys.argv[2] if len(sys.argv) > 2 else "philly-slice")
    settings = TrainSettings(epochs=2 * MEASURED, held_every=1, patience=0, pool=MEASURED * 100)
    work = load_workload(trace, None, cluster)
    spent = Stopwatch()
    trainer = Trainer(work.jobs, cluster, settings)
    setup = spent.lap()
    first, again = [], []
    trainer._judge()
    judge = spent.lap()
    torch.set_num_threads(1)
    for epoch in range(2 * MEASURED):
        trainer.progress.epoch = epoch
        rolled = trainer._roll()
        (first if epoch < MEASURED else again).append(spent.lap())
        if epoch >= MEASURED:
            trainer.ppo.update([r.trajectory for r in rolled], torch_free_rng(epoch))
            again[-1] = (again[-1], spent.lap())
    draw = sum(first) / MEASURED - sum(roll for roll, _ in again) / MEASURED
    roll, update = (sum(part) / MEASURED for part in zip(*again, strict=True))
    batches, looks = TrainSettings().pool // 100, EPOCHS // TrainSettings().held_every + 1
    total = setup + batches * draw + EPOCHS * (roll + update) + looks * judge
    jobs = EPOCHS * settings.windows * settings.size
    print(f"{work.name} on {cluster.name}, {os.cpu_count()} cores; CPU seconds")
    print(
        f"setup {setup:.1f}   drawing an epoch's windows {draw:.2f}   rollouts {roll:.2f}   update {update:.2f}   held-out {judge:.2f}"
    )
    print(
        f"{EPOCHS} epochs of {settings.windows} windows of {settings.size} jobs: {total:.0f} s CPU, {total / 2 / 60:.1f} min on 2 cores"
    )
    print(
        f"job decisions a second: {jobs / (total / 2):,.0f} on 2 cores with all of that, {jobs / total / THEIRS:.0f} times {THEIRS} on one"
    )
    print(f"rollouts alone: {settings.windows * settings.size / roll:,.0f} a second and core")


def torch_free_rng(epoch: int):
    import numpy as np

    return np.random.default_rng(epoch)


class Stopwatch:
    def __init__(self) -> None:
        self.at = time.process_time()

    def lap(self) -> float:
        before, self.at = self.at, time.process_time()
        return self.at - before


if __name__ == "__main__":
    main()
