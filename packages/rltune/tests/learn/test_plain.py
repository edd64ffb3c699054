"""Kernels of the learned policies are plain Python too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import hashlib
from learn.looking import a_model, inputs, machine, stopped_at
from kernel.test_features import CLUSTER, JOBS
from learn.test_rollouts import BUSY, SMALL
from rltune import simulate
from rltune.learn.rollouts import roll
from rltune.policy.learned import Learned

model = a_model({features!r}, seed=3)
x, inside = inputs(stopped_at(100.0, machine(JOBS, CLUSTER, model)), 2)
ours = simulate(BUSY, SMALL, Learned(model), backfill={backfill!r})
episode = roll(machine(BUSY, SMALL, model, backfill={backfill!r}), 5)
told = x.tolist(), inside, ours.start_s.tolist(), ours.work, episode.taken.tolist(), episode.start_s.tolist()
print(hashlib.sha256(repr(told).encode()).hexdigest())
"""


@pytest.mark.parametrize(
    ("features", "backfill"), [("all", "none"), ("sampled", "easy"), ("schedinspector", "fit-first")]
)
def test_features_network_inspector_and_rollouts_are_the_same_uncompiled(features, backfill):
    """With NUMBA_DISABLE_JIT=1 the same code gives the same inputs, schedules and episodes, to the bit."""
    code = CODE.format(features=features, backfill=backfill)
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            cwd=Path(__file__).parents[1],
            env={**os.environ, "NUMBA_DISABLE_JIT": off},
        ).stdout
        for off in ("0", "1")
    ]
    assert told[0] == told[1]
