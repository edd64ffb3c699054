"""The quality report: the account adds up, prints itself, and its rules are documented."""

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from rltune.trace import formats, load
from rltune.trace.quality import RULES, Ledger
from rltune.trace.trace_file import Source

DATA = Path(__file__).parent / "data"
DOCS = Path(__file__).parents[4] / "docs" / "reference" / "traces.md"


@pytest.fixture
def ledger():
    return Ledger(Source("f", b"one\ntwo\nthree\nfour"), np.arange(1, 5))


def mask(*rows):
    return np.isin(np.arange(4), rows)


def test_the_first_rule_that_drops_a_row_counts_it(ledger):
    ledger.drop("half-written", mask(0, 1))
    ledger.drop("never-started", mask(1, 2))
    quality = ledger.close("x")
    assert (quality.rows, quality.kept, quality.count("dropped")) == (4, 1, 3)
    assert quality["half-written"] == 2
    assert quality["never-started"] == 1
    assert quality["zero-run-time"] == 0


def test_repairs_of_rows_that_are_dropped_later_do_not_count(ledger):
    ledger.mark("gpu-share-rounded-up", mask(0, 3))
    ledger.drop("never-started", mask(0))
    quality = ledger.close("x")
    assert quality["gpu-share-rounded-up"] == 1
    found = next(f for f in quality.findings if f.rule == "gpu-share-rounded-up")
    assert (found.line, found.example) == (4, "four")


def test_a_rule_used_twice_adds_up(ledger):
    ledger.drop("no-run-time", mask(0))
    ledger.drop("no-run-time", mask(0, 1))
    assert ledger.close("x")["no-run-time"] == 2


def test_a_rule_without_a_name_cannot_be_used(ledger):
    with pytest.raises(KeyError):
        ledger.drop("because", mask(0))
    with pytest.raises(AssertionError):
        ledger.mark("never-started", mask(0))


def test_it_prints_and_dumps():
    quality = load(DATA / "sacct.txt").quality
    with Console(width=140, record=True, file=None, quiet=False, force_terminal=False) as console:
        with console.capture() as captured:
            console.print(quality)
        text = captured.get()
    assert "17 rows read, 9 jobs kept" in text
    assert "earlier-spell" in text
    assert "9  2019|2019|again" in text
    again = json.loads(json.dumps(quality.to_dict()))
    assert (again["dropped"], again["merged"]) == (7, 1)
    assert again["findings"][0]["rule"] == "job-step"
    assert "never-started 3 dropped" in str(quality)


def test_a_clean_file_says_so(tmp_path):
    (tmp_path / "mine.csv").write_text("submit_s,duration_s,gpus\n0,3.5,1\n")
    assert str(load(tmp_path / "mine.csv").quality).endswith("1 rows read, 1 jobs kept; nothing to repair")


@pytest.mark.skipif(not DOCS.exists(), reason="the package is tested without its documentation")
def test_every_rule_and_format_is_documented():
    text = DOCS.read_text()
    assert [rule for rule in RULES if f"`{rule}`" not in text] == []
    assert [name for name in formats() if f"`{name}`" not in text] == []
