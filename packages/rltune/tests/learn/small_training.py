"""A training so small that a test can afford it; as a program, it trains into a checkpoint until it is killed."""

import sys
from pathlib import Path

import numpy as np

from rltune.cluster import Cluster
from rltune.jobs import Jobs
from rltune.learn.objective import Objective
from rltune.learn.ppo import PpoSettings
from rltune.learn.train import Trainer
from rltune.learn.train_settings import TrainSettings
from rltune.learn.training_windows import Variation


def jobs(n: int = 600) -> Jobs:
    """Make jobs that queue."""
    rng = np.random.default_rng(0)
    return Jobs.from_arrays(
        submit_s=np.cumsum(rng.exponential(60.0, n)),
        duration_s=rng.lognormal(5.0, 1.2, n),
        gpus=rng.choice([1, 1, 2, 4], n),
        user=rng.choice(["ann", "bob", "cy"], n).tolist(),
    )


def settings(**changes) -> TrainSettings:
    """Make the smallest settings that still learn something."""
    given = {
        "epochs": 3,
        "windows": 4,
        "size": 40,
        "pool": 8,
        "contended_s": 10.0,
        "held_windows": 2,
        "held_size": 40,
        "held_every": 1,
        "hidden": (8, 8),
        "imitate": 1,
        "variation": Variation(load=1.3, cluster=0.2),
        "ppo": PpoSettings(passes=2, minibatches=2),
        **changes,
    }
    return TrainSettings(**given)


def trainer(threads: int = 1, spread=None, init=None, **changes) -> Trainer:
    """Make a training on two nodes of four GPUs."""
    return Trainer(jobs(), Cluster.uniform(2, 4), settings(**changes), init, spread, threads)


def trained(**changes) -> Trainer:
    """Train to the end."""
    made = trainer(**changes)
    for _ in made.epochs():
        pass
    return made


if __name__ == "__main__":
    made = trainer(epochs=1000, patience=0, objective=Objective.parse("wait", "1.2x"))
    for progress in made.epochs():
        made.save(Path(sys.argv[1]))
        print(progress.epoch, flush=True)  # noqa: T201  the parent waits for it
