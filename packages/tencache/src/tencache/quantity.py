"""Bytes and bandwidths as people write them: "6GiB", "35%", "2GB/s"."""

import math
import re

_SCALES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*|%)\s*")


def parse_bytes(text: float | str, *, whole: int | None = None) -> int:
    """Return the bytes of "512MiB", of "35%" of `whole`, or of a plain number."""
    if isinstance(text, (int, float)) and not isinstance(text, bool) and math.isfinite(text):
        return _positive(round(text), text)
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is not an amount of bytes: write it like 6GiB, 500MB or 35%")
    number, unit = float(match[1]), match[2].lower()
    if unit == "%":
        if whole is None:
            raise ValueError(f"{text!r}: a share needs a whole; write bytes, like 6GiB")
        return _positive(round(number / 100 * whole), text)
    if unit not in _SCALES:
        raise ValueError(f"{text!r}: unknown unit {match[2]!r}; choose one of {', '.join(filter(None, _SCALES))}")
    return _positive(round(number * _SCALES[unit]), text)


def parse_bandwidth(text: float | str) -> float:
    """Return the bytes per second of "2GB/s" or of a plain number."""
    if isinstance(text, str):
        return float(parse_bytes(text.removesuffix("/s")))
    if not 0 < text < math.inf:
        raise ValueError(
            f"{text!r} bytes per second: a link must be faster than nothing, and no faster than a number can say"
        )
    return float(text)


def show_bytes(count: float) -> str:
    """Return an amount of bytes as text, with a binary unit."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _positive(count: int, text: float | str) -> int:
    if count <= 0:
        raise ValueError(f"{text!r}: an amount of bytes must be above zero")
    return count
