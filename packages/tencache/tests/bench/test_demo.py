"""The demonstration trains the same bits twice."""

import subprocess
import sys
from pathlib import Path


def test_demo_trains_the_same_bits_and_draws(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", "from tencache.cli import main; main()", "demo", "--out", tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.count("the same bits") == 7
    assert "DIFFERENT" not in result.stdout
    assert (tmp_path / "tencache-timeline.html").is_file()
    assert Path(result.stdout.split()[-1]).is_file()
