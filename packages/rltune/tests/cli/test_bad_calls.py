"""A selection of the bad calls of benchmarks/rltune/bad_calls.py: those that compile and simulate nothing."""

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[4] / "benchmarks/rltune/bad_calls.py"
SLOW = {"train", "evolve", "reproduce", "slurm", "evaluate", "transfer"}  # they import or compile much


def _table():
    spec = importlib.util.spec_from_file_location("bad_calls", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if not FILE.exists():
    pytest.skip("the package is tested without its benchmarks", allow_module_level=True)
TABLE = _table()
ALL = list(TABLE.calls())
CHEAP = [call for call in ALL if call.cheap and call.words[0] not in SLOW][::3]


def test_there_are_two_hundred():
    assert len({call.words for call in ALL}) >= 200


@pytest.mark.parametrize("call", CHEAP, ids=lambda call: " ".join(call.words)[:60])
def test_a_bad_call_is_one_sentence_and_changes_nothing(call, tmp_path):
    fault, said = TABLE.fault_of(call, TABLE.make_files(tmp_path))
    assert fault == "", said
