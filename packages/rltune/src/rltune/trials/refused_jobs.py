"""Jobs that a cluster can never run: how many, why, and which name was probably meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.errors import TOLERATED, nearest
from rltune.estimate import get_estimator
from rltune.jobs import TYPE_SEPARATOR, Jobs
from rltune.text import counted

_TOLD = 3  # causes in a sentence
_LISTED = 8  # names in one
_LIKENESS = 0.8  # of names that differ by a letter or two


@dataclass(frozen=True)
class Refused:
    """How many jobs of a history a cluster can never run, and the causes, the commonest first."""

    jobs: int
    of: int
    causes: tuple[str, ...]
    where: str = "this cluster"

    @classmethod
    def of_history(cls, jobs: Jobs, cluster: Cluster, name: str = "") -> Refused:
        """Ask the engine, which alone knows, and say in the cluster's own words why."""
        ordered = jobs.sorted()
        machine = Machine.of(ordered, cluster, parse_pipeline("fcfs", "none", "best-fit"), get_estimator("oracle"))
        causes = Counter(_cause(ordered, cluster, row, reason) for row, reason in machine.reject_reason.items())
        told = (f"{counted(n, 'job')} {cause}" for cause, n in causes.most_common())
        return cls(len(machine.reject_reason), len(jobs), tuple(told), name or "this cluster")

    @property
    def is_too_many(self) -> bool:
        """Return whether so many are refused that the rest is another workload."""
        return self.jobs > TOLERATED * self.of

    def __str__(self) -> str:
        more = len(self.causes) - _TOLD
        causes = "; ".join(self.causes[:_TOLD]) + (f"; and {more} more causes" if more > 0 else "")
        share = f"{self.jobs:,} of {counted(self.of, 'job')} ({100 * self.jobs / self.of:.1f} %)"
        return f"{share} can never run on {self.where}: {causes}"


def _cause(jobs: Jobs, cluster: Cluster, row: int, reason: str) -> str:
    vc = jobs.vc.name_of(row)
    types = [name for name in jobs.gpu_types.name_of(row).split(TYPE_SEPARATOR) if name]
    admitting = [group for group in cluster.groups if group.admits(vc)]
    if not admitting:
        return f"of partition {vc}, which no group has{_meant([vc], cluster.vcs)}"
    if not any(group.accepted(None, types, with_gpus=False) for group in cluster.groups):
        return f"of GPU type {' or '.join(types)}, which no group has{_meant(types, cluster.gpu_types)}"
    if not any(group.accepted(vc, types, with_gpus=bool(jobs.gpus[row])) for group in cluster.groups):
        wanted = f"GPUs of type {' or '.join(types)}" if types else "GPUs"
        return f"of partition {vc}, where no group has {wanted}"
    return f"({reason})"


def _meant(names: Iterable[str], known: tuple[str, ...]) -> str:
    """Ask whether a known name was meant, and say which there are."""
    near = next((found for name in names if (found := _near(name, known))), None)
    if not known:
        return ""
    listed = ", ".join(known[:_LISTED]) + (", ..." if len(known) > _LISTED else "")
    return f" (did you mean {near}? There are {listed})" if near else f" (there are {listed})"


def _near(name: str, known: tuple[str, ...]) -> str | None:
    """Find a100 in A100-80GB; a V100 is no A100, though three of four letters are the same."""
    one = name.casefold()
    begun = [word for word in known if word.casefold().startswith(one) or one.startswith(word.casefold())]
    return begun[0] if begun else nearest(name, known, _LIKENESS)
