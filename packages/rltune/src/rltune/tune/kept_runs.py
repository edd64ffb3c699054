"""Finished runs in a file, one a line, so that an interrupted call goes on where it was."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rltune.errors import InputError
from rltune.labels import Labels
from rltune.learn.same_training import SUFFIX
from rltune.tune.stretches import BlockSums
from rltune.whole_file import write_whole

if TYPE_CHECKING:
    from rltune.tune.stretches import HistoryStretch, StretchRunner
    from rltune.tune.tried_pipelines import Candidate


PROGRAM = Path(__file__).parents[1]


class KeptRuns:
    """Runs by all that they depend on: jobs, cluster, metric, seed, the program, candidate and stretch."""

    def __init__(self, path: Path | None, runner: StretchRunner) -> None:
        self._path = path
        self._ground = _ground(runner) if path else ""
        self._found = _read(path) if path else {}

    def checkpoint(self, how: str) -> Path | None:
        """Return where it is kept how far something was learnt."""
        return None if self._path is None else self._path.with_name(f"{self._path.name}.{how}{SUFFIX}")

    def find(self, task: tuple[Candidate, HistoryStretch]) -> BlockSums | None:
        """Return a run that is kept."""
        return self._found.get(self._key(task))

    def add(self, task: tuple[Candidate, HistoryStretch], outcome: BlockSums) -> None:
        """Keep a run."""
        if self._path is None:
            return
        key = self._key(task)
        self._found[key] = outcome
        lines = (json.dumps({"run": name, **vars(found)}) for name, found in self._found.items())
        write_whole(self._path, "".join(f"{line}\n" for line in lines))

    def _key(self, task: tuple[Candidate, HistoryStretch]) -> str:
        candidate, stretch = task
        return f"{self._ground} {candidate.identity} {stretch.first} {stretch.end}"


def _read(path: Path) -> dict[str, BlockSums]:
    """Read what is there; a cut-off line is left out, a file without any run is refused: it would be replaced."""
    found: dict[str, BlockSums] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as finished runs: {error}") from None
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            row = json.loads(line)
            found[row["run"]] = BlockSums(
                tuple(row["sums"]), tuple(row["counts"]), int(row["rejected"]), float(row["queue"])
            )
    if lines and not found:
        raise InputError(f"{path}: holds something else than finished runs of `rltune tune`; name another file")
    return found


def _program() -> str:
    """Return a hash of all source: estimates and what orders queues are not all in kernels."""
    digest = hashlib.sha256()
    for file in sorted(PROGRAM.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _ground(runner: StretchRunner) -> str:
    digest = hashlib.sha256(f"{_program()} {runner.metric} {runner.seed} {vars(runner.cluster)}".encode())
    for column in vars(runner.jobs).values():
        values = column.codes if isinstance(column, Labels) else column
        digest.update(repr(column.names).encode() if isinstance(column, Labels) else b"")
        digest.update(
            repr(values.tolist()).encode() if values.dtype == object else np.ascontiguousarray(values).tobytes()
        )
    return digest.hexdigest()[:16]
