"""Numbers packed for a page: little-endian typed arrays in base64, as narrow as they can be."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

Packed = dict[str, str]


def pack_floats(values: NDArray[Any]) -> Packed:
    """Pack with about seven digits."""
    return _pack(values, "<f4")


def pack_counts(values: NDArray[Any]) -> Packed:
    """Pack whole numbers from 0 on in one, two or four bytes each."""
    top = int(values.max()) if len(values) else 0
    return _pack(values, "<u1" if top < 2**8 else "<u2" if top < 2**16 else "<u4")


def _pack(values: NDArray[Any], kind: str) -> Packed:
    return {"t": kind[1:], "b": base64.b64encode(values.astype(kind).tobytes()).decode("ascii")}
