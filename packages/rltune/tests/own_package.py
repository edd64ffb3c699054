"""An installed package that brings something of its own, as pip would leave it on disk."""

import sys
from pathlib import Path


def install(folder: Path, monkeypatch, group: str, name: str, code: str, attribute: str) -> None:
    """Put a module and the entry point `name` to one of its attributes on the path."""
    module = f"own_{group.replace('.', '_')}"
    (folder / f"{module}.py").write_text(code)
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{attribute}\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)  # another test's of the same name
