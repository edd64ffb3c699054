"""An experiment: the steps it needs, and what their results say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from rltune.reproduce.cells import Section
    from rltune.reproduce.run_size import RunSize
    from rltune.reproduce.step import Result, Step, Workbench
    from rltune.reproduce.workloads import Origin


@dataclass(frozen=True)
class Made:
    """The results that are there: all of them, or what the time sufficed for."""

    bench: Workbench
    scope: RunSize

    def get(self, step: Step) -> Result | None:
        """Return the result of a step; None if it was not made."""
        return self.bench.result(step) if self.bench.is_done(step) else None

    def origin(self, workload: str) -> Origin:
        """Return where a trace comes from."""
        return self.bench.origins[workload]


class Experiment(ABC):
    """One table or figure of the paper, or several that share their runs."""

    names: ClassVar[tuple[str, ...]]  # as `--only` takes them; the first is the section's
    title: ClassVar[str]
    where: ClassVar[str]

    @abstractmethod
    def steps(self, scope: RunSize) -> tuple[Step, ...]:
        """Return what is to be made; what these need comes with them."""

    @abstractmethod
    def section(self, made: Made) -> Section:
        """Return what the results are, as far as they are there."""
