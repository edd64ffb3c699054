"""A step: one of the paper's two experiments on a real Slurm, where one can be run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rltune.lab.deployment.run_deployment import run_deployment
from rltune.lab.motivation.run_motivation import run_motivation
from rltune.lab.slurm_here import slurm_available
from rltune.metrics.formats import plain
from rltune.reproduce.step import Result, Step, Workbench

if TYPE_CHECKING:
    from pathlib import Path

SLURM = "slurm"  # beside the report: the records of runs, which are not made twice


@dataclass(frozen=True)
class OnSlurm(Step):
    """One of the two experiments; without Slurm the result says why."""

    kind: ClassVar[str] = "slurm"

    which: str  # motivation, deployment
    jobs: int = 0
    seeds: int = 0

    @property
    def told(self) -> str:
        """Return what is run."""
        return f"Slurm: {self.which}" + (f", {self.jobs} jobs, {self.seeds} seeds" if self.jobs else "")

    @property
    def cost_s(self) -> float:
        """Return roughly how long it takes: Slurm's clock runs 60 times as fast, and waits do not use a core."""
        return 120.0 if self.which == "motivation" else 1.7 * self.jobs * self.seeds

    def make(self, bench: Workbench) -> Result:
        """Run what is missing; records of runs stay beside the report."""
        if (why := slurm_available()) is not None:
            return {"missing": why}
        out = bench.folder.parent / SLURM / self.which
        out.mkdir(parents=True, exist_ok=True)
        if self.which == "motivation":
            found: dict[str, Any] = plain(run_motivation(out).to_dict())
            found["svg"] = {name: (out / name).read_text(encoding="utf-8") for name in found["pictures"]}
            return found
        made: dict[str, Any] = plain(run_deployment(out, self.jobs, self.seeds).to_dict())
        made["svg"] = {name: _drawn(out / name) for name in ("gantt.svg", "utilisation.svg")}
        return made


def _drawn(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
