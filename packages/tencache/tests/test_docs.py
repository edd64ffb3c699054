"""The tutorial runs as it is written."""

import re
from pathlib import Path

TUTORIAL = Path(__file__).parents[3] / "docs" / "tencache" / "tutorial.md"


def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert "ready" in capsys.readouterr().out
    assert (tmp_path / "trace.json").is_file()
    names["cached"].unwrap()
