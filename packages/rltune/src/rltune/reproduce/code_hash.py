"""A hash of the code that a result depends on: a module and all of ours that it imports, without comments."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from importlib import util
from pathlib import Path

PACKAGE = "rltune"


@cache
def code_hash(module: str) -> str:
    """Hash the syntax of a module and of everything of this package that it imports, directly or not."""
    digest = hashlib.sha256()
    for name in sorted(_reached(module)):
        digest.update(name.encode())
        digest.update(_syntax(name).encode())
    return digest.hexdigest()[:16]


def _reached(module: str) -> set[str]:
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += _imports(name)
    return seen


@cache
def _imports(module: str) -> tuple[str, ...]:
    """List the modules of this package that a module's text imports, wherever in it."""
    found: list[str] = []
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return tuple(name for name in found if name.split(".")[0] == PACKAGE and _path(name) is not None)


@cache
def _syntax(module: str) -> str:
    tree = _tree(module)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            node.body = body[1:]  # type: ignore[attr-defined]  # a docstring says nothing about results
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _tree(module: str) -> ast.Module:
    path = _path(module)
    assert path is not None
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _path(module: str) -> Path | None:
    """Find the file of a module; None for what is no module, such as a class that is imported from one."""
    try:
        found = util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(found.origin) if found and found.origin and found.origin.endswith(".py") else None
