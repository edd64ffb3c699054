"""The order in which workers take files: one compiles rltune's core while the others do what needs no core."""

from pathlib import Path

import pytest

COMPILES = Path("rltune/tests/kernel/test_turns.py")
NEEDS_NO_CORE = "tencache"
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the file that compiles the core, then what needs no core, then long files, so that none is last."""
    long = {item.path for item in items if item.get_closest_marker("slow")}

    def place(item: pytest.Item) -> int:
        file = item.path.relative_to(HERE)
        if file == COMPILES:
            return 0
        if file.parts[0] == NEEDS_NO_CORE:
            return 1
        return 2 if item.path in long else 3

    items.sort(key=place)
