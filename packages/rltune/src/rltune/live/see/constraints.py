"""Slurm's constraints on features: `a`, `a|b`, `a&b`, brackets and parentheses."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

_TOKEN = re.compile(r"[A-Za-z0-9_.:=+-]+|[&|,()\[\]]")
_OPENING = {"(": ")", "[": "]"}

Test = Callable[[Collection[str]], bool]


class UnknownConstraintError(ValueError):
    """A constraint that is not understood here: counts of nodes, or a slip of the pen."""


def parse(constraint: str) -> Test:
    """Return a test of a node's features.

    `[a|b]` asks that all nodes of the job have the same one, which a test of one node cannot see: it is taken as (a|b).
    """
    tokens = _TOKEN.findall(constraint)
    if "".join(tokens) != constraint.replace(" ", ""):
        raise UnknownConstraintError(constraint)
    test, rest = _either(tokens)
    if rest:
        raise UnknownConstraintError(constraint)
    return test


def _either(tokens: list[str]) -> tuple[Test, list[str]]:
    first, rest = _both(tokens)
    if rest[:1] == ["|"]:
        second, rest = _either(rest[1:])
        return (lambda has: first(has) or second(has)), rest
    return first, rest


def _both(tokens: list[str]) -> tuple[Test, list[str]]:
    first, rest = _one(tokens)
    if rest[:1] in (["&"], [","]):
        second, rest = _both(rest[1:])
        return (lambda has: first(has) and second(has)), rest
    return first, rest


def _one(tokens: list[str]) -> tuple[Test, list[str]]:
    if not tokens:
        raise UnknownConstraintError
    head, rest = tokens[0], tokens[1:]
    if head in _OPENING:
        test, rest = _either(rest)
        if rest[:1] != [_OPENING[head]]:
            raise UnknownConstraintError
        return test, rest[1:]
    if head in "&|,)]":
        raise UnknownConstraintError
    return (lambda has: head in has), rest
