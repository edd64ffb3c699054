"""The one way kernels are compiled: cached, numpy's rules for division, no fast-math (results must not vary).

They do not hold Python's lock, so windows can be run on several threads.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from numba import njit
from numba.core.caching import IndexDataCacheFile

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
        _keep_apart(compiled._cache)  # noqa: SLF001  numba has no public way; tested with the release that is pinned
    result: Callable[P, R] = compiled
    return result


def _keep_apart(cache: Any) -> None:
    """Keep the machine code of this very source in files of its own.

    Numba asks only whether a function's own file has changed, not what it calls. An index that names a class which is
    gone cannot even be read, and two versions that compile at the same time would overwrite each other's code.
    """
    base = f"{cache._impl.filename_base}.{SOURCE_HASH}"  # noqa: SLF001
    stamp = cache._impl.locator.get_source_stamp()  # noqa: SLF001
    own: Any = IndexDataCacheFile
    cache._cache_file = own(cache._cache_path, base, stamp)  # noqa: SLF001
