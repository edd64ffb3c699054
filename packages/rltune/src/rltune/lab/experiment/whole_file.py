"""Files of an experiment that are there as a whole or not at all, whenever it is killed."""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and move it there."""
    draft = path.with_name(f"{path.name}.part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
