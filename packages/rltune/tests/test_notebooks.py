"""The notebooks run, and show what is kept in them.

If one rightly shows something else: python packages/rltune/tests/test_notebooks.py
"""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))
PATIENCE_S = 300  # for one cell: the first compiles the core


def run(path: Path) -> nbformat.NotebookNode:
    """Run a notebook in a kernel of its own; an error in a cell is raised."""
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=PATIENCE_S, kernel_name="python3", record_timing=False).execute(cwd=str(path.parent))
    return book


def shown(book: nbformat.NotebookNode) -> list[list[str]]:
    """List per cell what it shows as text; the HTML of others' libraries may change with their versions."""
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    return [[out.get("text") or out.data["text/plain"] for out in cell.outputs] for cell in cells]


def test_there_is_a_notebook():
    assert [path.name for path in NOTEBOOKS] == ["first-look.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_kept_in_it(path):
    kept = nbformat.read(path, as_version=4)
    nbformat.validate(kept)
    assert shown(run(path)) == shown(kept)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_results_are_kept_as_html_as_well(path):
    outputs = [out for cell in nbformat.read(path, as_version=4).cells for out in cell.get("outputs", ())]
    tables = [out.data["text/html"] for out in outputs if "data" in out and "text/html" in out.data]
    assert sum("<table" in html for html in tables) >= 5


if __name__ == "__main__":
    for notebook in NOTEBOOKS:
        nbformat.write(run(notebook), notebook)
