"""Check that every number of rltune's paper.toml stands in the paper's text, in its table row or section.

python benchmarks/rltune/check_paper.py rltune.txt      # the paper as text; it is not part of this repository
"""

import argparse
import re
import sys
from pathlib import Path

from rltune.reproduce.paper import PaperNumber, numbers, table, table_names

AROUND_A_CAPTION = 12  # lines: a caption stands above its rows or below them
HEADINGS = {
    "abstract": "Abstract",
    "section 1": "1 Introduction",
    "section 2": "2 Background and Motivation",
    "section 3": "3 Design",
    "section 4": "4 Experimental Setup",
    "section 5": "5 Evaluation",
    **{f"section 5.{i}": f"5.{i} " for i in range(1, 8)},
    "section 6": "6 Related Work",
    "conclusion": "7 Conclusion",
    "acknowledgments": "Acknowledgments",
}
CITATION = re.compile(r"\[\d+(?:[,\u2013] ?\d+)*\]")
WORDS = {3: "three", 4: "four", 5: "five", 7: "seven", 8: "eight", 10: "ten"}


def sections(text: str) -> dict[str, str]:
    """Cut the text at its headings."""
    starts = {name: re.search(rf"^{re.escape(title)}", text, re.MULTILINE) for name, title in HEADINGS.items()}
    missing = [name for name, found in starts.items() if found is None]
    if missing:
        sys.exit(f"no heading of: {', '.join(missing)}")
    order = sorted((found.start(), name) for name, found in starts.items() if found)
    ends = [start for start, _ in order[1:]] + [len(text)]
    return {name: text[start:end] for (start, name), end in zip(order, ends, strict=True)}


def prints(number: PaperNumber) -> list[str]:
    """List the ways in which a value may be printed, as patterns."""
    decimals = max(0, -round(_exponent(number.step)))
    plain = f"{abs(number.value):.{decimals}f}"
    forms = [plain, f"{abs(number.value):,.{decimals}f}"]
    if number.step >= 100:
        scaled = number.value / 1000
        digits = max(0, 3 - round(_exponent(number.step)))
        forms += [f"{scaled:.{digits}f}[kK]", f"{scaled:,.{digits}f}[kK]", f"{number.value / 1e6:.1f} million"]
    if number.step == 1:
        forms += [f"(?i:{WORDS[int(abs(number.value))]})"] if abs(number.value) in WORDS else []
    return [form if form.endswith(("]", ")")) else re.escape(form) for form in forms]


def _exponent(step: float) -> float:
    return float(f"{step:e}".partition("e")[2])


def pattern(number: PaperNumber) -> str:
    """Return a pattern for the value that does not match inside a longer number."""
    sign = "-" if number.value < 0 and number.note != "worse" else ""  # the text calls it a degradation instead
    return rf"(?<![\d.,-]){sign}(?:{'|'.join(prints(number))})(?![\d]|[.,]\d)"


def unfound_in_row(line: str, cells: list[PaperNumber]) -> list[PaperNumber]:
    """Return the cells that do not follow each other in the row's line, in the order of the columns."""
    at, missing = 0, []
    for cell in cells:
        found = re.compile(pattern(cell)).search(line, at)
        if found is None:
            missing.append(cell)
        else:
            at = found.end()
    return missing


def around(lines: list[str], place: str) -> list[str]:
    """Return the lines near a table's caption."""
    caption = next(i for i, line in enumerate(lines) if line.startswith(f"{place.capitalize()}:"))
    return lines[max(0, caption - AROUND_A_CAPTION) : caption + AROUND_A_CAPTION]


def unfound_in_tables(lines: list[str]) -> list[str]:
    """Look for each row of each table near the table's caption."""
    missing = []
    for name in table_names():
        this = table(name)
        near = around(lines, f"table {name.removeprefix('table')}")
        for row in this.rows:
            cells = [cell for cell in this.cells if cell.row == row]
            candidates = [line for line in near if line.startswith(this.labels[row] + "\t")]
            misses = [unfound_in_row(line.removeprefix(this.labels[row]), cells) for line in candidates]
            best = min(misses, key=len, default=cells)
            missing += [f"{cell.key} = {cell.value:g}: not in its row" for cell in best]
    return missing


def unfound_in_text(text: str) -> list[str]:
    """Look for each number of the text in each section that is said to hold it."""
    by_name = sections(text)
    by_name["table 5"] = "\n".join(around(text.splitlines(), "table 5"))
    in_text = [number for number in numbers() if not number.row]
    return [
        f"{number.key} = {number.value:g}: not in {place}"
        for number in in_text
        for place in (number.where, *number.also)
        if not re.search(pattern(number), whole(by_name, place))
    ]


def whole(by_name: dict[str, str], place: str) -> str:
    """Return a section with its subsections."""
    return "".join(text for name, text in by_name.items() if name == place or name.startswith(f"{place}."))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", type=Path, help="the paper as plain text")
    text = CITATION.sub("", parser.parse_args().paper.read_text(encoding="utf-8"))
    missing = unfound_in_tables(text.splitlines()) + unfound_in_text(text)
    print("\n".join(missing) if missing else f"all {len(numbers())} numbers stand where they are said to stand")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
