import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[4] / "benchmarks/rltune/control.py"


def test_two_thousand_waiting_jobs_are_cheap_and_written_once():
    """A fifth of what the benchmark shows: few processes, each number written once, little memory and time."""
    command = [sys.executable, str(BENCHMARK), "--jobs", "2000", "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found["waiting"] == 2000
    assert found["changes"][0] >= 1990
    assert found["changes"][1:] == [0, 0]
    assert found["refused"] == 0
    assert max(found["processes"]) <= 5
    assert found["peak_mib"] < 600
    assert max(found["cpu_seconds"]) < 3
