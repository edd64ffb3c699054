"""What the repository shows of a run: a page of results in Markdown, and a block of figures for the READMEs."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from rltune.reproduce.cells import COLUMNS, HONEST, PAPER

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGIN, END = "<!-- from docs/results/reproduce/results.json: begin -->", "<!-- end -->"
COLUMNS_OF_TEXT = 118
SHOWN = (  # cells of the README's table: section, row, column
    ("fig12", "Philly", "wait over FIFO"),
    ("fig12", "Helios", "wait over FIFO"),
    ("fig12", "Alibaba", "wait over FIFO"),
    ("fig12", "Alibaba", "bounded slowdown over SJF"),
    ("fig12", "Philly", "JCT over FIFO"),
    ("fig12", "Helios", "utilisation over SJF"),
    ("table8", "Philly", "wait over QSSF"),
    ("fig16", "Philly", "bounded slowdown over multifactor"),
)


def headlines(results: dict[str, Any]) -> str:
    """Return the README's block: what the run came to, and a few cells."""
    when = f"{results['date']}, {results['machine']}, commit {results['commit'] or 'unknown'}"
    rows = [_row(cell) for wanted in SHOWN if (cell := _find(results, *wanted)) is not None]
    table = [f"| | paper | {' | '.join(COLUMNS)} |", f"|{' --- |' * (2 + len(COLUMNS))}", *rows]
    return "\n".join([BEGIN, *_wrapped(" ".join(results["lead"])), "", *table, "", f"Made {when}.", END])


def with_headlines(text: str, results: dict[str, Any]) -> str:
    """Return a README with the block between its marks made anew."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no {BEGIN} ... {END} to fill")
    return before + headlines(results) + after


def results_page(results: dict[str, Any]) -> str:
    """Return the committed page: conclusions, what is behind, and every cell."""
    return "\n".join(_page(results)) + "\n"


def _page(results: dict[str, Any]) -> Iterator[str]:
    yield "# The paper's evaluation, run again"
    yield ""
    for line in results["lead"]:
        yield from _wrapped(f"- {line}")
    yield ""
    how = f"Made {results['date']} on {results['machine']}, commit {results['commit'] or 'unknown'}, scope"
    yield f"{how} `{results['scope']['name']}`:"
    yield ""
    yield "    rltune reproduce --traces DIR --out DIR --workers 2"
    yield ""
    yield "[What the columns mean](../../how-to/reproduce.md#three-columns-of-ours). Gains are in percent, above 0"
    yield "where ours is better, with 95 % intervals. Traces:"
    yield from _wrapped(", ".join(f"{name} ({told})" for name, told in results["traces"].items()) + ".")
    yield ""
    yield from _behind(results)
    for section in results["sections"]:
        yield from _section(section)
    yield from _contradictions(results)


def _behind(results: dict[str, Any]) -> Iterator[str]:
    yield "## Behind"
    yield ""
    yield "Under the paper's protocol behind the paper's gain, or honestly behind the best rule in hindsight:"
    yield ""
    yield f"| experiment | cell | paper | {PAPER} | honest, over the best rule |"
    yield "| --- | --- | --- | --- | --- |"
    for section in results["sections"]:
        for cell in section["cells"]:
            over = (cell["ours"].get(HONEST) or {}).get("over_best_rule") or {}
            beaten = over.get("percent") is not None and over["percent"] < 0
            if cell["ahead"].get(PAPER) is False or beaten:
                ours = cell["ours"].get(PAPER, {}).get("text", "-")
                name = f"{cell['row']}, {cell['column']}"
                yield f"| {section['name']} | {name} | {cell['paper']} | {ours} | {_gain(over)} |"
    yield ""


def _section(section: dict[str, Any]) -> Iterator[str]:
    yield f"## {section['title']}"
    yield ""
    yield from _wrapped(f"{section['where'][:1].upper()}{section['where'][1:]}. {section['concludes']}")
    yield ""
    for missing in section["missing"]:
        yield from _wrapped(f"Left out: {missing}")
        yield ""
    if section["cells"]:
        yield f"| | | paper | {' | '.join(COLUMNS)} |"
        yield f"|{' --- |' * (3 + len(COLUMNS))}"
        for cell in section["cells"]:
            ours = " | ".join(cell["ours"].get(column, {}).get("text", "-") for column in COLUMNS)
            yield f"| {cell['row']} | {cell['column']} | {cell['paper']} | {ours} |"
        yield ""
    for table in section["tables"]:
        yield from _wrapped(table["caption"])
        yield ""
        yield f"| {' | '.join(table['columns'])} |"
        yield f"|{' --- |' * len(table['columns'])}"
        for row in table["rows"]:
            yield f"| {' | '.join(row)} |"
        yield ""
    for figure in section["figures"]:
        yield f"![{figure}](figures/{figure}.svg)"
    if section["figures"]:
        yield ""
    if section["differs"]:
        yield "What differs from the paper:"
        yield ""
        for differs in section["differs"]:
            yield from _wrapped(f"- {differs}")
        yield ""


def _wrapped(text: str) -> list[str]:
    """Break prose into lines, a list's item below its dash."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.wrap(
        text, COLUMNS_OF_TEXT, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _contradictions(results: dict[str, Any]) -> Iterator[str]:
    yield "## Where the paper contradicts itself"
    yield ""
    yield "| claim | said | by its other numbers | compared with | why |"
    yield "| --- | --- | --- | --- | --- |"
    for each in results["contradictions"]:
        yield f"| {each['key']} | {each['said']} | {each['found']} | {each['compare']} | {each['why']} |"


def _find(results: dict[str, Any], section: str, row: str, column: str) -> dict[str, Any] | None:
    cells = (cell for s in results["sections"] if s["name"] == section for cell in s["cells"])
    found: dict[str, Any] | None = next((c for c in cells if c["row"] == row and c["column"] == column), None)
    return found


def _row(cell: dict[str, Any]) -> str:
    ours = " | ".join(cell["ours"].get(column, {}).get("text", "-") for column in COLUMNS)
    return f"| {cell['row']}, {cell['column']} | {cell['paper']} | {ours} |"


def _gain(over: dict[str, Any]) -> str:
    if over.get("percent") is None:
        return "-"
    span = f" [{over['low']:.1f}, {over['high']:.1f}]" if over.get("low") is not None else ""
    return f"{over['percent']:.1f} %{span}"
