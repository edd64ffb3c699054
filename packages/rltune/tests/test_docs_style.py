"""The documentation keeps its form: short lines, no empty sections, links that lead somewhere, files that exist."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MOST_COLUMNS = 120
PAGES = [  # the log of changes is written by many hands; tencache looks after its own pages
    *sorted(page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md"),
    ROOT / "packages/rltune/README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "tencache" not in str(page.relative_to(ROOT))),
]
HOMES = [  # what a path in the text may be relative to
    ROOT,
    *sorted((ROOT / "packages").glob("*")),
    *sorted((ROOT / "packages").glob("*/src/*")),
]
NAMED_FILES = re.compile(r"`([\w./-]+/[\w.-]+\.(?:py|sql|toml|service|md|svg))`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> list[tuple[int, str]]:
    """Return the lines that are neither code nor table, with their numbers."""
    kept, fenced = [], False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", "\t", "|")):
            kept.append((number, line))
    return kept


def relative_links(page: Path) -> list[str]:
    """Return where a page's links lead, tables included, as far as that is in the repository."""
    tables = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    found = [target for line in [*(line for _, line in prose(page)), *tables] for target in LINK.findall(line)]
    return [target for target in found if not re.match(r"[a-z]+:", target)]


@cache
def anchors(page: Path) -> set[str]:
    """Return the names by which a page's headings are linked to: lower case, no punctuation, hyphens for spaces."""
    titles = [line.lstrip("#").strip() for _, line in prose(page) if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_are_short(page):
    """Lines are at most 120 characters, but for code, tables and a link that is longer by itself."""
    long = [
        number
        for number, line in prose(page)
        if len(line) > MOST_COLUMNS and len(LINK.sub("", line).strip()) > MOST_COLUMNS // 2
    ]
    assert long == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_section_is_empty(page):
    """A heading is followed by text, or by a heading below it."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.strip()]
    fenced = False
    empty = []
    for line, after in zip(lines, [*lines[1:], "# end"], strict=True):
        fenced ^= line.lstrip().startswith("```")
        if fenced or not re.match(r"#+ ", line):
            continue
        level, following = len(line.split(" ")[0]), re.match(r"(#+) ", after)
        if following and len(following[1]) <= level:
            empty.append(line)
    assert empty == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_has_one_title_and_it_comes_first(page):
    titles = [number for number, line in prose(page) if line.startswith("# ")]
    assert titles == [1]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings(page):
    """Relative links name files that exist, and headings that they have."""
    broken = []
    for target in relative_links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_are_named_exist(page):
    """A path in the text is one of the repository, so that pages follow when the tree changes."""
    named = NAMED_FILES.findall(page.read_text(encoding="utf-8"))
    own = [name for name in named if not name.startswith(("/", "out/", "~"))]
    assert [name for name in own if not any((home / name).exists() for home in HOMES)] == []


def test_every_page_is_found_from_the_index():
    """Starting at docs/README.md and following links, every page of rltune is reached."""
    reached, todo = set(), [ROOT / "docs/README.md"]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        todo += [(page.parent / target.partition("#")[0]).resolve() for target in relative_links(page)]
    assert [name_of(page) for page in PAGES if page.is_relative_to(ROOT / "docs") and page not in reached] == []
