"""The one way kernels are compiled: cached, numpy's rules for division, no fast-math (results must not vary).

They do not hold Python's lock, so windows can be run on several threads.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")

_COMPILED: dict[str, Any] = {"cache": True, "error_model": "numpy", "nogil": True}
_UNCOUNTED: dict[str, Any] = {"_nrt": False}  # no reference counting: a kernel that makes no array needs none
_COUNTED: dict[str, Any] = {"_nrt": True}


def _source() -> str:
    """Return a hash of all kernels' source."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


SOURCE_HASH = _source()


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function over arrays that it does not make; with NUMBA_DISABLE_JIT=1 it stays plain Python."""
    return _compiled(function, _UNCOUNTED)


def allocating_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that makes arrays of its own."""
    return _compiled(function, _COUNTED)


def _compiled(function: Callable[P, R], flags: dict[str, Any]) -> Callable[P, R]:
    compiled: Any = njit(**_COMPILED, **flags)(function)
    if hasattr(compiled, "_cache"):  # plain Python has none
        # Numba asks only whether the function's own file has changed, not what it calls. And an index on disk that
        # names a class which is gone cannot even be read, so one of another source must not be opened.
        index = compiled._cache._cache_file  # noqa: SLF001  numba has no public way; tested with the release pinned
        index._version = f"{index._version} {SOURCE_HASH}"  # noqa: SLF001
    result: Callable[P, R] = compiled
    return result
