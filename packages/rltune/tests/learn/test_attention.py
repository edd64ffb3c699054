"""The benchmark of attention over the queue: what it compares is what it says, and it runs."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from learn.small_training import trained

from rltune.policy.learned import Learned

BENCHMARKS = Path(__file__).parents[4] / "benchmarks/rltune"
FIRST = np.array([0, 3, 4, 9])  # three queues


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def actor(*, alone: bool) -> torch.nn.Module:
    """Make a network for two inputs."""
    from attention import QueueActor

    torch.manual_seed(0)
    return QueueActor(2, 8, 2, alone=alone)


def rows() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32))


@pytest.mark.parametrize("alone", [False, True])
def test_a_queue_is_scored_as_if_no_other_were_beside_it(alone):
    """Padding to the longest queue of a batch changes nothing."""
    made, x = actor(alone=alone), rows()
    together = made(x, FIRST).tolist()
    for lo, hi in pairwise(FIRST):
        assert made(x[lo:hi], np.array([0, hi - lo])).tolist() == pytest.approx(together[lo:hi], abs=1e-6)


def test_only_attention_sees_the_other_jobs_of_a_queue():
    """A change of one job changes the logits of its queue with attention, and its own alone in the control."""
    x = rows()
    changed = x.clone()
    changed[4] += 1.0
    for alone, moved in ((True, [4]), (False, [4, 5, 6, 7, 8])):
        made = actor(alone=alone)
        assert torch.nonzero(made(x, FIRST) != made(changed, FIRST)).flatten().tolist() == moved


def test_the_control_has_as_many_weights():
    assert len(actor(alone=False).to_flat()) == len(actor(alone=True).to_flat())


def test_a_network_played_from_python_makes_the_schedule_that_the_core_makes():
    """So what the benchmark measures is what the core would do if it knew the network."""
    from dataclasses import replace

    from playing import eyes_of, play

    trainer = trained(epochs=1)
    model = replace(trainer.best_model(), drift="off")
    trainer.actor.from_flat(model.weights)
    games = play(trainer.held, trainer.actor, eyes_of(model.recipe, model.norm, model.base))
    for game in games:
        assert game.times.start_s.tolist() == game.window.times(Learned(model)).start_s.tolist()


def test_what_is_played_is_paid_by_the_gap_to_the_base_policy():
    from playing import eyes_of, play

    trainer = trained(epochs=1)
    model = trainer.best_model()
    eyes = eyes_of(model.recipe, model.norm, model.base)
    objective = trainer.settings.objective
    for game in play(trainer.held, trainer.actor, eyes, np.random.default_rng(0)):
        made = game.trajectory(objective)
        assert made.reward.sum() == pytest.approx(objective.gap(game.times, game.window.under_base))
        assert (made.taken < np.diff(made.first)).all()


def test_the_benchmark_runs(tmp_path):
    """Two trainings of one epoch on a small cluster, tested on its last jobs."""
    small = tmp_path / "small.toml"
    small.write_text('name = "small"\n[[group]]\ncount = 3\ngpus = 8\n')
    size = "--jobs 2000 --epochs 1 --windows 2 --train-size 40 --size 60 --every 20 --contended 1 --width 8"
    command = [sys.executable, str(BENCHMARKS / "attention.py"), "--cluster", str(small), *size.split()]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "| attention, seed 0 |" in told
    assert "| each job alone, seed 0 |" in told
