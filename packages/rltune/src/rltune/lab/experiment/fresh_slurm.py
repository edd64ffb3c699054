"""A fresh Slurm for one run: started, given jobs at their times, watched, asked what became of them, taken down."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.hostlist import expand
from rltune.jobs import Jobs
from rltune.lab.experiment.run_record import Ran
from rltune.lab.experiment.submit import Submitter
from rltune.lab.testbed import Testbed, end_testbed
from rltune.whole_file import write_whole

LEAD_S = 60.0  # by the fast clock, before the first job is submitted
START_S = 20.0  # real seconds to start a Slurm with its database, hear of all ends, and stop it
STUCK_S = 6 * 3600.0  # without any end: more than the longest job takes
_ACCOUNTS_S = 900.0  # until accounting must know all ends: a busy machine's is minutes behind, and a run takes an hour
_PREFIX = "rltune-"
_FIELDS = "JobIDRaw,Submit,Start,End,State,NodeList"
Told = Callable[[int], None]  # jobs ended so far


@contextmanager
def fresh_testbed(note: Path, cluster: Cluster, factor: int, settings: Mapping[str, str]) -> Iterator[Testbed]:
    """Start a Slurm with a database; `note` tells the next run of the same kind what to end if this one is killed."""
    where = _place(note)
    with Testbed.up(where, cluster, factor=factor, database=True, settings=settings) as bed:
        yield bed
    note.unlink()


@contextmanager
def submitting(bed: Testbed, jobs: Jobs) -> Iterator[Submitter]:
    """Submit jobs at their times while something else is done."""
    submitter = Submitter(bed, jobs, bed.now_s() + LEAD_S)
    submitter.start()
    try:
        yield submitter
    finally:
        submitter.stop()


def release_of(bed: Testbed) -> str:
    """Return which Slurm it is."""
    return bed.run("scontrol", "--version").split()[-1]


def results_of(bed: Testbed, submitter: Submitter) -> tuple[Ran, ...]:
    """Ask accounting until it knows the end of every job, and return them in the order of the workload."""
    found: dict[int, Ran] = {}
    number = submitter.by_row()

    def all_known() -> bool:
        found.update(_accounting(bed))
        return all(one in found for one in number.values())

    bed.wait_for("accounting to know all ends", all_known, timeout_s=_ACCOUNTS_S)
    return tuple(found[number[row]] for row in range(len(submitter.jobs)))


@dataclass
class RunWatch:
    """Tells when all is over, and when nothing moves any more."""

    bed: Testbed
    submitter: Submitter
    told: Told
    _left: int = -1
    _moved_s: float = 0.0

    def over(self) -> bool:
        """Return whether all jobs were submitted and have ended."""
        submitted = self.submitter.done  # asked first: a job submitted in between is still seen below
        left = len(self.bed.run("squeue", "-h", "-o", "%A").split())
        ended = len(self.submitter.ids) - left
        if left != self._left or not submitted:
            self._left, self._moved_s = left, self.bed.now_s()
            self.told(max(0, ended))
        if self.bed.now_s() - self._moved_s > STUCK_S:
            raise InputError(f"{self.bed.folder}: {left} jobs are left and none has ended for {STUCK_S / 3600:g} hours")
        return submitted and left == 0


def _place(note: Path) -> Path:
    """Make a folder for a testbed, with a short path that jobs' users can enter, and end what an earlier run left."""
    if note.exists():
        left = Path(note.read_text(encoding="utf-8"))
        if left.name.startswith(_PREFIX) and left.exists():
            end_testbed(left)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    folder.chmod(0o755)
    write_whole(note, str(folder))
    return folder


def _accounting(bed: Testbed) -> dict[int, Ran]:
    words = ("sacct", "-a", "-X", "-n", "-P", "-S", "2000-01-01", "-E", "now+365days", "-o", _FIELDS)
    rows = (line.split("|") for line in bed.run(*words).splitlines())
    return {
        int(number): Ran(float(submit), float(start), float(end), expand(nodes), state.split(" ")[0])
        for number, submit, start, end, state, nodes in rows
        if start.isdecimal() and end.isdecimal()
    }
