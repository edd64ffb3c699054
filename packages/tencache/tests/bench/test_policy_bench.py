"""The benchmark compares what it says it compares."""

import pytest

from tencache import cli
from tencache.bench.policy_bench import CONTENDERS, BenchSetting, TimedTraining, compare_policies, shares_of_bound


def test_bench_gives_a_row_for_every_policy_and_link(capsys):
    options = ["--small", "--rounds", "1", "--links", "4GB/s", "--tokens", "16", "--budget", "40%"]
    assert cli.main(["bench", *options]) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split("|")[2].strip() for row in rows] == list(CONTENDERS)


def test_none_exceeds_its_bound():
    rows = compare_policies(BenchSetting(rounds=1, tokens=8, small=True), ["0.5GB/s"], ("ahead", "zero3"))
    assert all(0 < row.of_bound.high <= 1 for row in rows)


def test_a_bound_is_of_the_least_compute_or_of_the_link():
    """Round 1 was crowded for the unwrapped step, round 2 for the other one."""
    resident, runner = (TimedTraining(name, None, None) for name in ("resident", "ahead"))
    resident.device_seconds, runner.device_seconds = [9.0, 3.0, 2.0], [9.0, 2.0, 3.0]
    runner.seconds, runner.chosen = [1.0, 2.5, 4.0], [1, 2]
    assert shares_of_bound(runner, resident, 0.1) == pytest.approx([2.0 / 2.5, 2.0 / 4.0])
    assert shares_of_bound(runner, resident, 2.4) == pytest.approx([2.4 / 2.5, 2.4 / 4.0])
