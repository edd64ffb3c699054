"""A model that is divided over processes trains to the bits of one that is not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from shard_ranks import WAYS
from tencache_cases import shows_kept, shows_refused
from torch import nn

import tencache
from tencache.errors import RefusedError
from tencache.runtime.tensors.shards import share_out

SCRIPT = Path(__file__).with_name("shard_ranks.py")


def run(folder, processes):
    paths = [str(SCRIPT.parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(rank), str(processes), str(folder)],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(processes)
    ]
    for rank in ranks:
        _, err = rank.communicate(timeout=600)
        assert rank.returncode == 0, err
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(processes)]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What each of two processes found."""
    return run(tmp_path_factory.mktemp("shards"), 2)


@shows_kept("a model divided over two processes (`shard=`): the bits of `DistributedDataParallel`, also clipped")
@pytest.mark.parametrize("way", WAYS)
def test_two_processes_have_the_bits_of_ddp(two, way):
    for found in two:
        assert found[way]["losses"]
        assert found[way]["states"] == [True] * 4


def test_each_process_holds_about_half_of_the_state(two):
    shares = [found["plain"]["share"] for found in two]
    assert all(0.4 < share < 0.6 for share in shares)
    assert sum(shares) == pytest.approx(1)


@shows_refused(
    "with `shard=`: writing to parameters, reading `.grad`",
    "write before `wrap()`; `cached.clip_grad_norm_()`",
)
def test_what_cannot_be_kept_is_refused_and_changes_nothing(two):
    for found in two:
        refused = found["refusals"]
        assert all("divided over processes" in refused[name] for name in ("write", "assign", "load", "view"))
        assert "clip_grad_norm_" in refused["gradient"]
        assert "shares memory with a tensor outside" in refused["held"]
        assert refused["after"] == refused["untried"]


def test_processes_with_unequal_gradients_all_refuse(two):
    assert all("gradients in process" in found["refusals"]["unequal"] for found in two)


def test_a_process_that_ends_is_an_error_in_the_other_and_what_it_held_is_no_number(two):
    ends = two[0]["ends"]
    assert "process 1 has ended" in ends["training"]
    assert "process 1 has ended" in ends["unwrap"]
    assert ends["lost"] > 0


def test_three_processes_add_gradients_in_the_order_of_ranks(tmp_path):
    assert run(tmp_path, 3) == [True, True, True]


def test_dividing_needs_processes():
    model = nn.Linear(4, 4)
    with pytest.raises(RefusedError, match="init_process_group"):
        tencache.wrap(model, torch.optim.SGD(model.parameters(), lr=0.1), budget="100%", shard=True)


def test_units_are_shared_out_evenly():
    assert share_out([5, 1, 4, 2, 2], 2) == [0, 1, 1, 1, 0]
    assert sorted(share_out([1] * 6, 3)) == [0, 0, 1, 1, 2, 2]
