"""The documentation is true where a test can tell: the tutorial runs, links lead somewhere, names are in the code."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest
from refusals_page import PAGE, page

import tencache

REPOSITORY = Path(__file__).parents[3]
DOCS = REPOSITORY / "docs"
PAGES = [
    *sorted((DOCS / "tencache").glob("*.md")),
    *sorted((DOCS / "adr").glob("tencache-*.md")),
    DOCS / "results" / "tencache.md",
    REPOSITORY / "packages" / "tencache" / "README.md",
]
WALK = DOCS / "adr" / "tencache-0006-rooms.md"
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "tencache" / "tutorial.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)
    assert "ready" in capsys.readouterr().out
    assert (tmp_path / "trace.json").is_file()
    names["cached"].unwrap()


def test_the_page_of_refusals_is_what_the_tests_say():
    assert PAGE.read_text(encoding="utf-8") == page()


@every_page
def test_lines_are_short(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > 120] == []


@every_page
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@every_page
def test_a_table_has_a_sentence_before_it(page):
    """It says what to conclude; a table right under a heading leaves that to the reader."""
    blocks = page.read_text(encoding="utf-8").split("\n\n")
    bare = [block for before, block in pairwise(blocks) if block[0] == "|" and before[0] in "#|"]
    assert bare == []


def names_in(path: Path) -> set[str]:
    """Return every function and class of a file, methods with their class."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


def test_the_walk_names_what_is_there():
    steps = re.findall(r"`([\w/]+\.py): ([^`]+)`", WALK.read_text(encoding="utf-8"))
    assert len(steps) > 30
    root = Path(tencache.__file__).parent
    missing = [(path, name) for path, names in steps for name in names.split(", ") if name not in names_in(root / path)]
    assert missing == []
