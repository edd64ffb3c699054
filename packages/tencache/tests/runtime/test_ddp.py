"""Two processes under DistributedDataParallel train to the same bits with tencache as without."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ddp_ranks import ORDERS, WAYS
from tencache_cases import shows_kept, shows_refused

SCRIPT = Path(__file__).with_name("ddp_ranks.py")


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """What each of two processes found."""
    folder = tmp_path_factory.mktemp("ddp")
    paths = [str(SCRIPT.parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(rank), str(folder)], stderr=subprocess.PIPE, text=True, env=environment
        )
        for rank in range(2)
    ]
    for rank in ranks:
        _, err = rank.communicate(timeout=600)
        assert rank.returncode == 0, err
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@shows_kept("`DistributedDataParallel` over gloo, on two processes: around the wrapped model, or wrapped itself")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("way", WAYS)
def test_two_processes_train_as_without_tencache(findings, way, order):
    assert [found[f"{way}; {order}"] for found in findings] == [True, True]


def test_updates_come_late_and_gradients_are_reduced_before_them(findings):
    for found in findings:
        assert len(found["late updates"]) == len(WAYS) * len(ORDERS)
        assert all(count > 0 for count in found["late updates"])


def test_a_second_backward_is_reduced_no_more_than_without_tencache(findings):
    assert [found["twice"] for found in findings] == [True, True]


@shows_refused("`DistributedDataParallel` with an option or hook that reduces otherwise", "leave it out")
@pytest.mark.parametrize("option", ["find_unused_parameters", "static_graph", "gradient_as_bucket_view", "comm_hooks"])
def test_another_way_to_reduce_is_refused(findings, option):
    for found in findings:
        assert f"DistributedDataParallel with {option} reduces" in found[option]


@shows_refused("a parameter without a gradient under `DistributedDataParallel`", "use it, or freeze it")
def test_a_parameter_that_is_not_used_is_refused(findings):
    for found in findings:
        assert "second.weight had no gradient" in found["unused"]
        assert "second.weight had no gradient" in found["unused in a closure"]


@shows_refused("two backwards through parts of one `DistributedDataParallel` forward", "call `backward()` once")
def test_two_gradients_of_one_parameter_are_refused(findings):
    for found in findings:
        assert "has two gradients" in found["two gradients"]
