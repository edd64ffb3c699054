"""An agent of one's own in the Gymnasium environment: here one that always takes the smallest job that may be next."""
# ruff: noqa: INP001, T201

import gymnasium
import numpy as np

import rltune
from rltune.learn.env import ID, windows_of
from rltune.trace import synthesise

cluster = rltune.Cluster.preset("philly-slice")
jobs = synthesise("philly", jobs=2048, seed=1, load=1.2, cluster=cluster)
windows = windows_of(jobs, cluster, size=1024, estimator="user")
env = gymnasium.make(ID, windows=windows, features="job_size+gpus", base="fcfs", disable_env_checker=True)

for i in range(len(windows)):
    seen, info = env.reset(options={"window": i})
    choices, over, reward = 0, False, 0.0
    while not over:
        size = np.where(info["action_mask"], seen["jobs"][:, 0], np.inf)
        seen, reward, over, _, info = env.step(int(size.argmin()))
        choices += 1
    print(
        f"window {i}: {choices} choices, mean wait {100 * float(reward):.1f} % below that of first come, first served"
    )
