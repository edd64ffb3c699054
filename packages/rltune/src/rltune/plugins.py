"""What users bring of their own: policies, estimators, metrics and trace formats.

Each comes in by the same two ways: `path.py:name`, a name in a Python file, or the name of an entry point of an
installed package, in the group of its kind. docs/how-to/extend.md shows one of each.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, entry_points
from importlib.util import spec_from_file_location
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from rltune.errors import InputError, told

IN_FILE = ".py:"
__path__: list[str] = []  # users' files are modules in this one, so that objects of their classes reach other processes
_PREFIX = "file_"
_NUMBERS = count()  # every load is a module of its own: what one run keeps in it is not seen by the next


class _Files(MetaPathFinder):
    """Finds the module of a user's file by its name, which holds the path: a worker process is told nothing else."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        if not fullname.startswith(f"{__name__}.{_PREFIX}"):
            return None
        return spec_from_file_location(fullname, bytes.fromhex(fullname.rpartition("_")[2]).decode())


sys.meta_path.append(_Files())


@dataclass(frozen=True)
class PluginKind:
    """A kind of thing that users bring."""

    what: str
    group: str  # of the entry points

    def names(self) -> tuple[str, ...]:
        """Name those that installed packages bring."""
        return tuple(sorted(point.name for point in self._installed()))

    def find(self, spec: str) -> Any | None:
        """Load what a spec names, anew at every call; None if it names neither a file nor an entry point."""
        if IN_FILE in spec:
            return self._from_file(spec)
        point = next((point for point in self._installed() if point.name == spec), None)
        return None if point is None else self._from_package(point)

    def _installed(self) -> tuple[EntryPoint, ...]:
        return tuple(entry_points(group=self.group))

    def _from_file(self, spec: str) -> Any:
        path, _, name = spec.rpartition(":")
        file = Path(path)
        if not file.is_file():
            raise InputError(f"{self.what} {spec!r}: there is no file {path}")
        module = self._run(spec, file)
        if not hasattr(module, name):
            raise InputError(f"{self.what} {spec!r}: {path} holds no {name!r}")
        return getattr(module, name)

    def _run(self, spec: str, file: Path) -> ModuleType:
        name = f"{__name__}.{_PREFIX}{next(_NUMBERS)}_{str(file.resolve()).encode().hex()}"
        try:
            return importlib.import_module(name)
        except (Exception, SystemExit) as error:  # whatever it raises, the user wrote it
            raise InputError(f"{self.what} {spec!r}: {file} cannot be loaded: {told(error)}") from error

    def _from_package(self, point: EntryPoint) -> Any:
        try:
            return point.load()
        except (Exception, SystemExit) as error:  # whatever it raises, the package's author wrote it
            raise InputError(f"{self.what} {point.name!r}: {point.value} cannot be loaded: {told(error)}") from error


POLICIES = PluginKind("policy", "rltune.policies")
ESTIMATORS = PluginKind("estimator", "rltune.estimators")
METRICS = PluginKind("metric", "rltune.metrics")
FORMATS = PluginKind("trace format", "rltune.formats")


def short_name(spec: str) -> str:
    """Name what a spec names as a table can show it: a file without its folder and suffix."""
    path, _, name = spec.rpartition(":")
    return f"{Path(path).stem}:{name}" if IN_FILE in spec else spec


def changed_ns(spec: str) -> int:
    """Return when the file of a spec was last changed, so that a changed one is loaded anew; 0 if it has none."""
    file = Path(spec.rpartition(":")[0])
    return file.stat().st_mtime_ns if IN_FILE in spec and file.is_file() else 0
