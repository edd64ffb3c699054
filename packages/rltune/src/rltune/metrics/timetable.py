"""What metrics need to know of a schedule: a `rltune.Schedule` is one, and the metrics need not know that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rltune.cluster import Cluster
    from rltune.jobs import Floats, Ints, Jobs
    from rltune.labels import Labels


class NamedPipeline(Protocol):
    """How a schedule was made, as a summary names it."""

    @property
    def policy(self) -> str:
        """Name who runs next."""
        ...

    @property
    def backfill(self) -> str:
        """Name who may overtake."""
        ...

    @property
    def placement(self) -> str:
        """Name how nodes are chosen."""
        ...

    @property
    def estimator(self) -> str:
        """Name what was known of run times."""
        ...


class Chunks(Protocol):
    """The nodes and GPUs of every job's last attempt: job i has the chunks from ptr[i] to ptr[i + 1]."""

    @property
    def ptr(self) -> NDArray[np.int64]:
        """Return where each job's chunks begin, and where the last ones end."""
        ...

    @property
    def node(self) -> Ints:
        """Return the node of each chunk."""
        ...

    @property
    def gpus(self) -> Ints:
        """Return the GPUs of each chunk."""
        ...

    def __len__(self) -> int: ...


class RunSpells(Protocol):
    """When and where jobs ran, spell by spell: by job and then by time."""

    @property
    def job(self) -> NDArray[np.int64]:
        """Return whose spell it is, by its row."""
        ...

    @property
    def start_s(self) -> Floats:
        """Return when each began."""
        ...

    @property
    def end_s(self) -> Floats:
        """Return when each ended."""
        ...

    @property
    def placements(self) -> Chunks:
        """Return where each ran."""
        ...


class Timetable(Protocol):
    """When and where every job ran; every array is in the order of the jobs."""

    @property
    def jobs(self) -> Jobs:
        """Return the workload."""
        ...

    @property
    def cluster(self) -> Cluster:
        """Return the machine."""
        ...

    @property
    def settings(self) -> NamedPipeline:
        """Return how it was made."""
        ...

    @property
    def start_s(self) -> Floats:
        """Return when each job started; NaN if rejected."""
        ...

    @property
    def end_s(self) -> Floats:
        """Return when each job ended; NaN if rejected."""
        ...

    @property
    def ran(self) -> NDArray[np.bool_]:
        """Return which jobs ran."""
        ...

    @property
    def rejected(self) -> NDArray[np.bool_]:
        """Return which jobs never ran."""
        ...

    @property
    def reject_reason(self) -> Labels:
        """Return why they did not."""
        ...

    @property
    def delay_s(self) -> Floats:
        """Return each job's completion time beyond its run time; NaN if rejected."""
        ...

    @property
    def preemptions(self) -> NDArray[np.int64]:
        """Return how often each job was displaced by another."""
        ...

    @property
    def lost_s(self) -> Floats:
        """Return each job's restarts and the work that it did again; NaN if rejected."""
        ...

    @property
    def requeues(self) -> Ints:
        """Return how often an outage put each job back."""
        ...

    @property
    def placements(self) -> Chunks:
        """Return where each job ran."""
        ...

    @property
    def spells(self) -> RunSpells:
        """Return when and where each job ran, spell by spell."""
        ...

    @property
    def passes(self) -> int:
        """Return how many scheduling passes were made."""
        ...

    @property
    def work(self) -> Mapping[str, Any]:
        """Return the counters of the engine and the placer."""
        ...

    @property
    def wait_s(self) -> Floats:
        """Return each job's wait; NaN if rejected."""
        ...

    @property
    def jct_s(self) -> Floats:
        """Return each job's completion time since its submission; NaN if rejected."""
        ...

    @property
    def bounded_slowdown(self) -> Floats:
        """Return each job's bounded slowdown; NaN if rejected."""
        ...
