"""The examples of docs/how-to/make-your-job-give-way.md go on from their checkpoints, whenever they are stopped."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rltune.lab.experiment import checkpointing_job

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "make-your-job-give-way.md").read_text(encoding="utf-8")
CODE = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", PAGE, flags=re.DOTALL))


def run_to_the_end(script, folder, checkpoint, sign, stops):
    """Run a script, stop it so many times while it works, and run it to its end."""
    for _ in range(stops):
        process = subprocess.Popen([sys.executable, script], cwd=folder)
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None and not (checkpoint.exists() and checkpoint.stat().st_mtime_ns > before):
            time.sleep(0.002)
        process.send_signal(sign)
        process.wait(30)
    subprocess.run([sys.executable, script], cwd=folder, check=True)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_the_plain_loop(tmp_path, sign):
    """Work as long as the test needs: each step takes a while."""
    script = tmp_path / "plain_loop.py"
    script.write_text(CODE["plain_loop"].replace("  # your work", "; import time; time.sleep(0.0005)"))
    run_to_the_end(script, tmp_path, tmp_path / "checkpoint.json", sign, 2)
    assert json.loads((tmp_path / "checkpoint.json").read_text()) == {"step": 1000, "total": sum(range(1000))}


def test_pytorch_ends_with_the_very_weights_of_a_run_that_was_not_stopped(tmp_path):
    torch = pytest.importorskip("torch")
    weights = []
    for stops in (0, 1):
        folder = tmp_path / str(stops)
        folder.mkdir()
        script = folder / "torch_training.py"
        slowly = CODE["torch_training"].replace("    step += 1\n", "    step += 1; time.sleep(0.002)\n")
        script.write_text(f"import time\n{slowly}")
        run_to_the_end(script, folder, folder / "checkpoint.pt", signal.SIGTERM, stops)
        saved = torch.load(folder / "checkpoint.pt", weights_only=True)
        assert saved["step"] == 200
        weights.append(saved["model"])
    assert torch.equal(weights[0]["weight"], weights[1]["weight"])


def test_lightning(tmp_path):
    pytest.importorskip("lightning", reason="lightning is no dependency")
    exec(CODE["lightning_training"], {})


def test_the_labs_job_counts_its_work_over_kills(tmp_path):
    """It ends once, and no start goes back behind the last checkpoint."""
    command = [sys.executable, checkpointing_job.__file__, str(tmp_path), "60", "5", "1", "60"]
    process = subprocess.Popen(command)
    while not (tmp_path / "job.json").exists():
        time.sleep(0.005)
    process.kill()
    process.wait()
    subprocess.run(command, check=True)
    told = [line.split() for line in (tmp_path / "job.log").read_text().splitlines()]
    starts = [float(done) for what, done, _ in told if what == "start"]
    assert starts[0] == 0
    assert starts[1] >= 5
    assert told[-1][:2] == ["end", "60.000"]
    assert [what for what, *_ in told].count("end") == 1
