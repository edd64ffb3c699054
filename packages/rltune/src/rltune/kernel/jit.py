"""The one way kernels are compiled: cached, numpy's rules for division, no fast-math (results must not vary).

They do not hold Python's lock, so windows can be run on several threads.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")

_COMPILED: dict[str, Any] = {"cache": True, "error_model": "numpy", "nogil": True}
_UNCOUNTED: dict[str, Any] = {"_nrt": False}  # no reference counting: a kernel that makes no array needs none
_COUNTED: dict[str, Any] = {"_nrt": True}


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function over arrays that it does not make; with NUMBA_DISABLE_JIT=1 it stays plain Python."""
    compiled: Callable[P, R] = njit(**_COMPILED, **_UNCOUNTED)(function)
    return compiled


def allocating_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that makes arrays of its own."""
    compiled: Callable[P, R] = njit(**_COMPILED, **_COUNTED)(function)
    return compiled
