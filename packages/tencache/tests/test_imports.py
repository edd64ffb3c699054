"""What a module may import: no private name of another, and no torch where plans are made."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tencache

ROOT = Path(tencache.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
WITHOUT_TORCH = ["tencache", "tencache.cli", "tencache.errors", "tencache.progress_bar", "tencache.quantity"]


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def private_uses(source: str) -> list[str]:
    """Return each private name of another tencache module that this source imports, or reads from an imported one."""
    tree = ast.parse(source)
    found, modules = [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names if alias.name.split(".")[0] == "tencache"]
            modules.update((alias.asname or alias.name) for alias in node.names if alias.name in named)
            found += [name for name in named if any(map(is_private, name.split(".")))]
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "tencache"):
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            modules.update(alias.asname or alias.name for alias in node.names)
            found += [part for part in parts if is_private(part)]
    reads = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and is_private(node.attr)]
    return found + [ast.unparse(node) for node in reads if ast.unparse(node.value) in modules]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_uses_a_private_name_of_another(path):
    assert private_uses(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "from tencache.plan.planner import _sweep",
        "from tencache.plan.planner import plan_ahead, _sweep as sweep",
        "from .planner import _sweep",
        "from tencache.plan import _hidden_room",
        "import tencache.plan._hidden",
        "def late():\n    from tencache.plan.planner import _sweep",
        "from tencache.plan import planner\nplanner._sweep()",
        "import tencache.plan.planner\ntencache.plan.planner._sweep()",
        "from tencache.runtime.attach import Cached\nCached._build",
    ],
)
def test_a_private_import_is_found(source):
    assert private_uses(source)


@pytest.mark.parametrize(
    "source", ["from tencache.plan.planner import plan_ahead", "from torch import _C", "self._own = 1", "import os"]
)
def test_other_imports_are_let_through(source):
    assert private_uses(source) == []


def test_plans_are_made_without_torch_and_numpy():
    """Asked of a fresh interpreter: contracts read import statements, this also sees imports made while loading."""
    plan = [f"tencache.plan.{path.stem}" for path in (ROOT / "plan").glob("*.py") if path.stem != "__init__"]
    lines = [f"import {name}" for name in [*WITHOUT_TORCH, "tencache.plan", *plan]]
    code = "\n".join([*lines, "import sys", "print(sorted({'torch', 'numpy'} & set(sys.modules)))"])
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_public_interface_is_listed_and_there():
    assert dir(tencache) == sorted(tencache.__all__)
    assert all(getattr(tencache, name).__doc__ for name in tencache.__all__)
    with pytest.raises(AttributeError, match="no attribute 'warp'"):
        _ = tencache.warp


def test_a_name_stands_for_one_thing():
    files = Counter(path.name for path in MODULES if path.name != "__init__.py")
    classes = Counter(
        node.name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in (files + classes).items() if count > 1] == []
