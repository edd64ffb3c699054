"""The one way kernels are compiled: cached, numpy's rules for division, no fast-math (results must not vary)."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function over arrays that it does not make; with NUMBA_DISABLE_JIT=1 it stays plain Python."""
    compiled: Callable[P, R] = njit(cache=True, error_model="numpy", _nrt=False)(function)
    return compiled


def allocating_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that makes arrays of its own."""
    compiled: Callable[P, R] = njit(cache=True, error_model="numpy", _nrt=True)(function)
    return compiled
