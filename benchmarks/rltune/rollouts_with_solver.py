"""What a training window costs with the solver in its rollouts, against best fit: python rollouts_with_solver.py

CPU time of one rollout of 256 jobs, rounds interleaved, the first left out (it compiles).
"""

import time

import numpy as np

from rltune.cluster import Cluster
from rltune.learn.rollouts import roll
from rltune.learn.train import Trainer
from rltune.learn.train_settings import TrainSettings
from rltune.policy.learned import Learned
from rltune.trace import synthesise

PLACEMENTS = ("best-fit", "milp:8")
WINDOWS = 6


def main() -> None:
    on = Cluster.load("philly-slice")
    jobs = synthesise("philly", 8000, seed=1, load=1.5, cluster=on)
    small = {"windows": WINDOWS, "pool": WINDOWS, "held_windows": 4, "held_size": 1024, "imitate": 1}
    trainers = {p: Trainer(jobs, on, TrainSettings(placement=p, **small)) for p in PLACEMENTS}
    took = {p: [] for p in PLACEMENTS}
    rows = dict.fromkeys(PLACEMENTS, 0)
    for i in range(WINDOWS):
        for placement, trainer in trainers.items():
            policy = Learned(trainer._model(trainer.actor.to_flat()))  # noqa: SLF001
            machine = trainer._batch(0)[i].machine(policy)  # noqa: SLF001
            begin = time.process_time()
            rows[placement] += len(roll(machine, i).rows)
            took[placement].append(time.process_time() - begin)
    print("| placement | CPU ms a window, median | candidates written a window |\n| --- | --- | --- |")
    for placement in PLACEMENTS:
        print(f"| {placement} | {1e3 * np.median(took[placement][1:]):.1f} | {rows[placement] / WINDOWS:,.0f} |")


if __name__ == "__main__":
    main()
