"""A console on which names that users chose cannot steer the terminal of whoever reads them.

Names of jobs, users and partitions come from others. An escape code in one could clear the reader's screen, rename the
window or hide a line; so what is shown loses its control characters, and those that turn the direction of writing.
Nor is anything read as markup: a partition [gpu], or an interval [unknown, 3.1], would be left out without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.segment import Segment

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType

_CODES = (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_STEERING = {code: None for code in _CODES if chr(code) not in "\n\t"}


def harmless(text: str) -> str:
    """Return a text without what steers a terminal; lines and tabs stay."""
    return text.translate(_STEERING)


class HarmlessConsole(Console):
    """Prints what is given without control characters, as it stands; colours and progress bars are its own."""

    def __init__(self, *, width: int | None = None, stderr: bool = False) -> None:
        super().__init__(width=width, stderr=stderr, markup=False, emoji=False, highlight=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the parts of what is printed."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(harmless(part.text), part.style)
