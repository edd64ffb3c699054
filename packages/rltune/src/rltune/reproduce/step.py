"""A step: a piece of work whose result is kept on disk under all that it depends on."""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from rltune.errors import InputError
from rltune.reproduce.code_hash import code_hash
from rltune.reproduce.workloads import Origin, PaperWorkload, load_workload
from rltune.whole_file import write_whole

Result = dict[str, Any]


@dataclass(frozen=True)
class Step(ABC):
    """What is to be done, as plain values. Equal steps are one piece of work, whoever asks for it."""

    kind: ClassVar[str]

    @abstractmethod
    def make(self, bench: Workbench) -> Result:
        """Do the work, and return plain values."""

    @property
    @abstractmethod
    def told(self) -> str:
        """Return in a few words what is done."""

    @property
    def needs(self) -> tuple[Step, ...]:
        """Return the steps whose results this one takes."""
        return ()

    @property
    def workloads(self) -> tuple[str, ...]:
        """Name the workloads that are read."""
        name = getattr(self, "workload", None)
        return (name,) if name else ()

    @property
    def cost_s(self) -> float:
        """Return roughly how long it takes on one quiet core."""
        return 10.0

    def values(self) -> dict[str, Any]:
        """Return the fields, with other steps left to `needs`."""
        made = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in made.items() if not _holds_steps(value)}


@dataclass(frozen=True)
class Workbench:
    """Where steps are made: the folder of their results, and the traces. Small, so that it can be sent to workers."""

    folder: Path
    origins: dict[str, Origin]
    code: dict[str, str] = field(default_factory=dict)  # hash of each step's code, as it was when the run began

    def __post_init__(self) -> None:
        self.code.update({module: code_hash(module) for module in _modules(Step) if module not in self.code})

    def workload(self, name: str) -> PaperWorkload:
        """Return a workload, read once in each process."""
        return load_workload(self.origins[name])

    def digest(self, step: Step) -> str:
        """Return a hash of all that a step's result depends on: its values, what it needs, the trace and the code."""
        depends = {
            "kind": step.kind,
            "values": step.values(),
            "needs": [self.digest(other) for other in step.needs],
            "traces": [self.origins[name].digest() for name in step.workloads],
            "code": self.code[type(step).__module__],
        }
        return hashlib.sha256(json.dumps(depends, sort_keys=True, default=str).encode()).hexdigest()[:20]

    def path(self, step: Step, suffix: str = ".json") -> Path:
        """Return where the result of a step is kept."""
        return self.folder / f"{step.kind}-{self.digest(step)}{suffix}"

    def is_done(self, step: Step) -> bool:
        """Return whether the result is there."""
        return self.path(step).is_file()

    def result(self, step: Step) -> Result:
        """Read the result of a step that is done."""
        content: Result = json.loads(self.path(step).read_text(encoding="utf-8"))["result"]
        return content

    def seconds(self, step: Step) -> float:
        """Return how long a step that is done took."""
        return float(json.loads(self.path(step).read_text(encoding="utf-8"))["seconds"])

    def __call__(self, step: Step) -> str:
        """Make a step and keep its result, whole; return why it could not be made, or nothing."""
        began = time.perf_counter()
        try:
            result = step.make(self)
        except InputError as error:
            return str(error)
        content: Result = {"step": step.told, "kind": step.kind, "values": step.values()}
        content |= {"seconds": time.perf_counter() - began, "result": result}
        write_whole(self.path(step), json.dumps(content, indent=1, default=str) + "\n")
        return ""


def in_order(steps: tuple[Step, ...]) -> list[list[Step]]:
    """Return all steps that are needed, in waves: each wave needs only what is in those before it."""
    depth: dict[Step, int] = {}

    def visit(step: Step) -> int:
        if step not in depth:
            depth[step] = 1 + max((visit(other) for other in step.needs), default=-1)
        return depth[step]

    for step in steps:
        visit(step)
    waves: list[list[Step]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for step, level in depth.items():
        waves[level].append(step)
    return waves


def _modules(step: Any) -> set[str]:
    """Return the modules in which kinds of steps are defined."""
    return {module for kind in step.__subclasses__() for module in ({kind.__module__} | _modules(kind))}


def _holds_steps(value: Any) -> bool:
    return isinstance(value, Step) or (isinstance(value, tuple) and any(isinstance(v, Step) for v in value))
