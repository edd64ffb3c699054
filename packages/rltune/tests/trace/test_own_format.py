"""A trace format of a user's own: from a file, or from an installed package; and every way in which it can be wrong."""

import pytest
from own_package import install

import rltune
from rltune.errors import InputError
from rltune.trace import load

CODE = """
import json
from pathlib import Path
import rltune

def read(path):
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return rltune.Jobs.from_arrays(
        submit_s=[row["at"] for row in rows], duration_s=[row["took"] for row in rows], gpus=[row["n"] for row in rows]
    )
"""
IN_FRAME = """
import polars as pl

def read(path):
    return pl.read_ndjson(path).rename({"at": "submit_s", "took": "duration_s", "n": "gpus"})
"""


@pytest.fixture
def history(tmp_path):
    file = tmp_path / "history.jsonl"
    file.write_text('{"at": 9, "took": 5, "n": 1}\n{"at": 3, "took": 6, "n": 2}\n')
    return file


def own(folder, code=CODE):
    (folder / "mine.py").write_text(code)
    return f"{folder / 'mine.py'}:read"


@pytest.mark.parametrize("code", [CODE, IN_FRAME], ids=["jobs", "a frame"])
def test_a_function_in_a_file_reads(tmp_path, history, code):
    """Jobs are sorted by submit time, and the account says what was read."""
    found = load(history, own(tmp_path, code))
    assert found.jobs.gpus.tolist() == [2, 1]
    assert found.lines.tolist() == [2, 1]
    assert (found.quality.format, found.quality.rows, found.quality.kept) == ("mine:read", 2, 2)
    assert rltune.read_trace(history, own(tmp_path, code)).gpus.tolist() == [2, 1]


def test_an_installed_package_brings_one(tmp_path, history, monkeypatch):
    install(tmp_path, monkeypatch, "rltune.formats", "jsonl", CODE, "read")
    assert load(history, "jsonl").quality.format == "jsonl"
    with pytest.raises(InputError, match="did you mean jsonl"):
        load(history, "jsnl")


def test_a_file_that_is_not_text_is_the_reader_s_to_read(tmp_path):
    (tmp_path / "h.bin").write_bytes(bytes([0, 1, 2, 255]))
    code = "import os, rltune\ndef read(path):\n"
    code += "    return rltune.Jobs.from_arrays(list(range(os.stat(path).st_size)), 1.0, 1)\n"
    assert len(load(tmp_path / "h.bin", own(tmp_path, code)).jobs) == 4


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("read = 3", "3 is no function from a path to jobs"),
        ("def read(path): return [1]", "gave a list, not rltune.Jobs or a polars frame of jobs"),
        ("def read(path): raise OSError('oh')", "failed: OSError: oh"),
        ("import polars as pl\ndef read(path): return pl.read_ndjson(path)", "column submit_s is missing"),
        ("", "holds no 'read'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, history, code, why):
    with pytest.raises(InputError, match=why):
        load(history, own(tmp_path, code))


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        load(tmp_path / "absent", own(tmp_path))
