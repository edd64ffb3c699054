"""Tables as the pages have them."""

from collections.abc import Iterable, Sequence


def markdown_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table under its title."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join([f"## {title}", *(f"| {' | '.join(line)} |" for line in lines)])
