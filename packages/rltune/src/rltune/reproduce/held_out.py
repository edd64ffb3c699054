"""A step: pipelines on windows of the held-out part of a trace, each window from an idle cluster, as the paper runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.pipeline import Pipeline
from rltune.evaluation.evaluate import HeldOutTrial, beside_fcfs, run_part
from rltune.parallel import Here
from rltune.reproduce.lesson import Lesson
from rltune.reproduce.step import Result, Step, Workbench
from rltune.reproduce.workloads import HOLDOUT
from rltune.trials.measures import MEASURED
from rltune.trials.parts import split
from rltune.trials.trial import Trial


@dataclass(frozen=True)
class Entry:
    """Who is run: a rule by its name or a trained network, with backfilling and placement."""

    policy: str | Lesson
    backfill: str = "none"
    placement: str = "best-fit"
    guard: str = "off"
    search: str = "off"
    commit: bool = False

    @property
    def label(self) -> str:
        """Name it as results do."""
        name = self.policy if isinstance(self.policy, str) else f"{self.policy.group}:{self.policy.seed}"
        around = "".join(
            f" {what}={value}" for what, value in (("guard", self.guard), ("search", self.search)) if value != "off"
        )
        return f"{name} + {self.backfill}, {self.placement}{around}{' committed' if self.commit else ''}"

    @property
    def group(self) -> str:
        """Name what the seeds of one training have in common."""
        return self.label if isinstance(self.policy, str) else self.label.replace(f":{self.policy.seed} +", " +")

    def pipeline(self, bench: Workbench, head: str, view: int) -> Pipeline:
        """Make the pipeline."""
        policy = self.policy if isinstance(self.policy, str) else self.policy.policy(bench)
        guard, search = (None if value == "off" else value for value in (self.guard, self.search))
        around: dict[str, Any] = {"guard": guard, "search": search, "commit": self.commit}
        return parse_pipeline(policy, self.backfill, self.placement, head=head, view=view, **around)


@dataclass(frozen=True)
class HeldOutRun(Step):
    """Windows of one part, under every entry, with the same knowledge of run times."""

    kind: ClassVar[str] = "held-out"

    workload: str
    entries: tuple[Entry, ...]
    estimator: str
    head: str
    part: str = "test"
    size: int = 1024
    every: int = 512
    contended_s: float = 0.0
    view: int = 0

    @property
    def told(self) -> str:
        """Return what is run."""
        under = f"{self.estimator} estimates, {self.head} queue"
        return f"{len(self.entries)} pipelines on {self.workload}, {self.part} part, {under}"

    @property
    def needs(self) -> tuple[Step, ...]:
        """Return the trainings."""
        return tuple(dict.fromkeys(e.policy for e in self.entries if isinstance(e.policy, Lesson)))

    @property
    def cost_s(self) -> float:
        """Return roughly how long it takes on one quiet core."""
        return sum(60.0 if e.placement.startswith("milp") else 3.0 for e in self.entries)

    def values(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        entries = [entry.label for entry in self.entries]
        return {**{name: value for name, value in vars(self).items() if name != "entries"}, "entries": entries}

    def make(self, bench: Workbench) -> Result:
        """Run the windows."""
        work = bench.workload(self.workload)
        pipelines = [entry.pipeline(bench, self.head, self.view) for entry in self.entries]
        trial = HeldOutTrial(
            Trial(work.jobs, work.cluster, self.estimator), beside_fcfs(pipelines), self.size, self.contended_s, ()
        )
        part = getattr(split(len(work.jobs), HOLDOUT), self.part)
        results = run_part(trial, part, self.every, Here())
        rows = {e.label: results.index(p.label) for e, p in zip(self.entries, pipelines, strict=True)}
        course = results.course
        return {
            "values": {
                label: {metric: results.values[row, :, m].tolist() for m, metric in enumerate(MEASURED)}
                for label, row in rows.items()
            },
            "course": {"step": course.step.tolist(), "steps": course.steps, "window": course.window},
            "disjoint": course.disjoint,
            "windows": len(results.starts),
            "looked_at": results.looked_at,
            "rejected": results.rejected,
            "unlike": {label: dict(results.drift[row]) for label, row in rows.items()},
        }
