"""What the controller needs of a cluster: one look at it, and one batch of changes. Whatever else it is stays behind.

A backend keeps to these promises:

- By commands `observe` uses at most four client processes, `apply` and `priorities` one, however many jobs there are;
  by slurmrestd these are requests, and `apply` needs one a change. `calls` counts them, by command or by what is asked.
- Nobody blocks for long: with the scheduler down every method raises `UnreachableError` within seconds. An answer that
  carries errors, or that cannot be understood, raises `BackendError`: no snapshot is made of half an answer.
- `apply` tells the fate of every change, in the order given; one that fails does not stop the others.
- Records are jobs of the controller's own account that never run; `Snapshot.records` shows those of all accounts, and
  `Snapshot.jobs` none of them. `write_records` raises `BackendError` if any text was not taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from rltune.live.see.snapshot import PriorityParts, Snapshot

RECORD_NAME = "rltune-record"  # what such jobs are called
RECORD_CHARACTERS = 1024  # what Slurm 22.05 takes as a Comment; it refuses 1,025


class BackendError(Exception):
    """The cluster gave an answer that cannot be used; the text is one sentence for the operator."""


class UnreachableError(BackendError):
    """The scheduler does not answer."""


class ChangeKind(StrEnum):
    """What can be changed of a job; all but REQUEUE of one that waits."""

    SITE_FACTOR = "site-factor"  # value: the number; 0 clears it
    PRIORITY = "priority"  # value: the number, at least 1
    RELEASE = "release"  # give the priority back to the scheduler's own rule
    EXCLUDE_NODES = "exclude-nodes"  # nodes: the whole list; none = clear
    REQUIRE_NODES = "require-nodes"  # nodes: the whole list; none = clear
    REQUEUE = "requeue"  # stop a running job, which waits again; one that has ended is left alone
    BEGIN_NOW = "begin-now"  # let a job that was requeued compete at once
    ADMIN_COMMENT = "admin-comment"  # text: what an administrator tells the job's user; "" clears it


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one job."""

    job: int
    kind: ChangeKind
    value: int = 0
    nodes: tuple[str, ...] = ()
    ref: str = ""  # LiveJob.ref: what the commands call the job if not by its id
    text: str = ""


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What became of one change; no error means that the scheduler took it."""

    change: Change
    error: str = ""

    @property
    def done(self) -> bool:
        """Return whether the scheduler took it."""
        return not self.error


@runtime_checkable
class Backend(Protocol):
    """A cluster that can be watched and driven."""

    @property
    def calls(self) -> Counter[str]:
        """Count the client processes or requests so far: squeue, sinfo, scontrol, ... or jobs, nodes, job, ..."""
        ...

    def observe(self) -> Snapshot:
        """Read queue, nodes, partitions and reservations."""
        ...

    def priorities(self) -> Mapping[int, PriorityParts]:
        """Read what the scheduler holds of waiting jobs' priorities; it may be silent on some."""
        ...

    def apply(self, changes: Sequence[Change]) -> tuple[ChangeOutcome, ...]:
        """Make the changes in one batch."""
        ...

    def commands(self, changes: Sequence[Change]) -> tuple[str, ...]:
        """Spell the changes as the operator would type them, one command each, without running anything."""
        ...

    def user(self) -> str:
        """Return the account under which this backend changes and submits."""
        ...

    def may_drive(self, user: str) -> bool:
        """Return whether an account may change others' jobs; True where the scheduler does not tell."""
        ...

    def cannot(self) -> frozenset[ChangeKind]:
        """Return which changes this way of reaching the scheduler does not know."""
        ...

    def open_record(self, text: str, partition: str) -> int:
        """Submit a job that is held and never runs, with a text of up to `RECORD_CHARACTERS`; return its id."""
        ...

    def write_records(self, texts: Mapping[int, str]) -> None:
        """Replace the texts of records, by one process."""
        ...

    def close_records(self, jobs: Sequence[int]) -> None:
        """Cancel records; one that is gone already is no mistake."""
        ...
