"""How a training went, as a file beside its model: one line of JSON for each epoch or generation."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from rltune.errors import InputError
from rltune.whole_file import write_whole

SUFFIX = ".curve.jsonl"
STEPS = ("epoch", "generation")  # what a line is counted by


def curve_beside(model: Path) -> Path:
    """Return where the curve of a model's training is kept."""
    return model.with_name(f"{model.name}{SUFFIX}")


def write_curve(path: Path, entries: Iterable[Mapping[str, float]]) -> None:
    """Write all entries so far; a reader never sees half of it. What is not a number is left out."""
    lines = [json.dumps({k: v for k, v in entry.items() if math.isfinite(v)}) for entry in entries]
    write_whole(path, "".join(f"{line}\n" for line in lines))


def read_curve(path: Path) -> list[dict[str, float]]:
    """Read the entries, in order."""
    try:
        entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        made = [{str(k): float(v) for k, v in entry.items()} for entry in entries]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError):
        raise InputError(f"{path}: is no curve of a training") from None
    if any(not any(step in entry for step in STEPS) for entry in made):
        raise InputError(f"{path}: a line names neither an epoch nor a generation")
    return made
