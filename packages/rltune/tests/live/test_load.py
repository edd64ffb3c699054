import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCHMARK = Path(__file__).parents[4] / "benchmarks/rltune/control.py"


def measured(jobs: int) -> dict[str, Any]:
    """Run the benchmark in a process of its own."""
    command = [sys.executable, str(BENCHMARK), "--jobs", str(jobs), "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def test_two_thousand_waiting_jobs_are_cheap_and_written_once():
    """A fifth of what the benchmark shows: few processes, each number written once, little memory and time."""
    few = measured(50)  # compiles what is not compiled yet, which takes memory of its own
    found = measured(2000)
    assert found["waiting"] == 2000
    assert found["changes"][0] >= 1400  # the others stand near enough to their places already
    assert found["changes"][1:] == [0, 0]
    assert found["refused"] == 0
    assert max(found["processes"][1:]) <= 6
    assert found["processes"][0] <= few["processes"][0] + 2  # the lock is taken and the record begun: not by job
    assert found["peak_mib"] < 1024
    assert max(found["cpu_seconds"]) < 3
