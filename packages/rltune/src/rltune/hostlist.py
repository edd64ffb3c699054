"""Slurm's short form of lists of nodes: `p100-[1-2],m40-1` is p100-1, p100-2, m40-1."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product

_PART = re.compile(r"(?:[^,\[\]]+|\[[^\[\]]*\])+")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
MOST = 1_000_000  # names; more is no list of nodes but a slip
NO_NODES = ("(null)", "None assigned")  # Slurm's words for none


@lru_cache(maxsize=10_000)
def expand(text: str) -> tuple[str, ...]:
    """Spell a list out, in its order. Raises ValueError."""
    if not text or text in NO_NODES:
        return ()
    parts: list[str] = _PART.findall(text)
    if ",".join(parts) != text:
        raise ValueError(f"{text!r} is no list of nodes")
    return tuple(name for part in parts for name in _names(part))


def is_hostlist(text: str | None) -> bool:
    """Return whether a text is a list of nodes; nothing is an empty one."""
    try:
        expand(text or "")
    except ValueError:
        return False
    return True


def _names(part: str) -> list[str]:
    choices = [_range(ranges) if ranges else [plain] for ranges, plain in _PIECE.findall(part)]
    return ["".join(pieces) for pieces in product(*choices)]


def _range(text: str) -> list[str]:
    """Spell out what stands in brackets: `01-03,7`."""
    numbers: list[str] = []
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        last = last or first
        if not (first.isdecimal() and last.isdecimal()) or not 0 <= int(last) - int(first) < MOST:
            raise ValueError(f"{text!r} is no list of nodes")
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return numbers
