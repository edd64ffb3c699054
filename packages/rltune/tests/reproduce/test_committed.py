"""The figures in the README are those of the run that is committed."""

import json
from pathlib import Path

import pytest

from rltune.reproduce.cells import COLUMNS
from rltune.reproduce.committed import BEGIN, END, headlines, results_page, with_headlines

ROOT = Path(__file__).resolve().parents[4]
KEPT = ROOT / "docs" / "results" / "reproduce"
RESULTS = json.loads((KEPT / "results.json").read_text(encoding="utf-8"))


def test_the_readme_has_the_committed_figures():
    """After a new run: scripts/headlines DIR."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert with_headlines(readme, RESULTS) == readme


def test_the_page_is_made_of_the_committed_results():
    assert (KEPT / "README.md").read_text(encoding="utf-8") == results_page(RESULTS)


def test_every_figure_of_the_page_is_there():
    named = {name for section in RESULTS["sections"] for name in section["figures"]}
    assert {path.stem for path in (KEPT / "figures").iterdir()} >= named


def test_another_number_makes_the_readme_differ():
    """The check would see a change: of one cell, of the lead, of the date."""
    changed = json.loads(json.dumps(RESULTS))
    changed["lead"] = ["Something else."]
    assert headlines(changed) != headlines(RESULTS)
    cell = next(c for s in changed["sections"] if s["name"] == "fig12" for c in s["cells"])
    cell["ours"][COLUMNS[0]]["text"] = "99.9 %"
    assert results_page(changed) != results_page(RESULTS)


def test_a_readme_without_marks_is_refused():
    with pytest.raises(ValueError, match="begin"):
        with_headlines(f"{BEGIN} no end", RESULTS)
    assert with_headlines(f"a {BEGIN} old {END} b", RESULTS).startswith("a ")
