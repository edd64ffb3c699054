"""The example scripts print what the files beside them say, so the documentation cannot rot.

If an example rightly prints something else: for f in packages/rltune/examples/*.py; do python $f > ${f%.py}.out; done
"""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_there_are_examples():
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_is_written_beside_it(script, capsys):
    runpy.run_path(str(script), run_name="__main__")
    beside = script.with_suffix(".out")
    expected = beside.read_text(encoding="utf-8") if beside.exists() else ""  # some only define a policy
    assert capsys.readouterr().out == expected
