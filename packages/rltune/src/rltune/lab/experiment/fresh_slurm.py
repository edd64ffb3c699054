"""A fresh Slurm for one run: started, given jobs at their times, watched, asked what became of them, taken down."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.hostlist import expand
from rltune.jobs import Jobs
from rltune.lab.experiment.job_log import read_log
from rltune.lab.experiment.job_profiles import WorkFolder
from rltune.lab.experiment.run_record import CutShort, Ran
from rltune.lab.experiment.submit import Submitter
from rltune.lab.testbed import Testbed, end_testbed
from rltune.live.see.backend import RECORD_NAME
from rltune.whole_file import write_whole

LEAD_S = 60.0  # by the fast clock, before the first job is submitted
START_S = 20.0  # real seconds to start a Slurm with its database, hear of all ends, and stop it
STUCK_S = 6 * 3600.0  # without any end: more than the longest job of the short profile takes
_ACCOUNTS_S = 900.0  # until accounting must know all ends: a busy machine's is minutes behind, and a run takes an hour
_PATIENCE = 10  # questions in a row that may fail
_PREFIX = "rltune-"
_FIELDS = "JobIDRaw,Submit,Start,End,State,NodeList"
_STOPPED = {"REQUEUED", "PREEMPTED"}  # spells that ended before their jobs did
Told = Callable[[int], None]  # jobs ended so far


@contextmanager
def fresh_testbed(note: Path, cluster: Cluster, factor: int, settings: Mapping[str, str]) -> Iterator[Testbed]:
    """Start a Slurm with a database; `note` tells the next run of the same kind what to end if this one is killed."""
    where = _place(note)
    with Testbed.up(where, cluster, factor=factor, database=True, settings=settings) as bed:
        yield bed
    note.unlink()


@contextmanager
def submitting(bed: Testbed, jobs: Jobs, work: WorkFolder | None = None) -> Iterator[Submitter]:
    """Submit jobs at their times while something else is done; with a folder for it they work, else they sleep."""
    submitter = Submitter(bed, jobs, bed.now_s() + LEAD_S, work.command if work else None)
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
    stuck_s: float = STUCK_S
    _failures: int = 0  # in a row
    _left: int = -1
    _moved_s: float = 0.0

    def over(self) -> bool:
        """Return whether all jobs were submitted and have ended."""
        submitted = self.submitter.done  # asked first: a job submitted in between is still seen below
        try:
            names = self.bed.run("squeue", "-h", "-o", "%j").split()
            left = len(names) - names.count(RECORD_NAME)  # the controller's own record never runs
        except InputError:  # under a fast clock a client loses its patience now and then: no reason to lose an hour
            self._failures += 1
            if self._failures == _PATIENCE:
                raise
            return False
        self._failures = 0
        ended = len(self.submitter.ids) - left
        if left != self._left or not submitted:
            self._left, self._moved_s = left, self.bed.now_s()
            self.told(max(0, ended))
        if self.bed.now_s() - self._moved_s > self.stuck_s:
            told = f"{left} jobs are left and none has ended for {self.stuck_s / 3600:g} hours"
            raise InputError(f"{self.bed.folder}: {told}")
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


def with_logs(
    ran: Sequence[Ran], submitter: Submitter, work: WorkFolder, bed: Testbed
) -> tuple[tuple[Ran, ...], tuple[str, ...]]:
    """Add to every job what its own log says it lost; return also whose log does not tell of one run to the end."""
    number, jobs = submitter.by_row(), submitter.jobs
    fake_s, real_s = bed.clock_at
    found, problems = [], []
    for row, job in enumerate(ran):
        stops_s = [real_s + (spell.end_s - fake_s) / bed.factor for spell in job.cut_short]
        told = read_log(work.log(number[row]), float(jobs.duration_s[row]), bed.factor, stops_s)
        found.append(replace(job, lost_s=told.lost_s))
        problem = told.problem
        if told.starts > len(job.cut_short) + 1:
            problem = f"started {told.starts} times in {len(job.cut_short) + 1} spells"
        problems += [f"job {row} {problem}"] if problem else []
    return tuple(found), tuple(problems)


def _accounting(bed: Testbed) -> dict[int, Ran]:
    """Return every job that has ended; a spell of it that was cut short has a row of its own."""
    words = ("sacct", "-a", "-X", "-D", "-n", "-P", "-S", "2000-01-01", "-E", "now+365days", "-o", _FIELDS)
    spells: dict[int, list[Ran]] = {}
    for line in bed.run(*words).splitlines():
        number, submit, start, end, state, nodes = line.split("|")
        if start.isdecimal() and end.isdecimal():
            spell = Ran(float(submit), float(start), float(end), expand(nodes), state.split(" ")[0])
            spells.setdefault(int(number), []).append(spell)
    joined = {number: _joined(sorted(of_job, key=lambda s: s.start_s)) for number, of_job in spells.items()}
    return {number: ran for number, ran in joined.items() if ran.state not in _STOPPED}


def _joined(spells: Sequence[Ran]) -> Ran:
    """Return the last spell of a job with the earlier ones in it; one that was stopped before it ran is none."""
    *earlier, last = spells
    cut = tuple(CutShort(s.start_s, s.end_s, s.nodes) for s in earlier if s.nodes)
    return replace(last, submit_s=min(s.submit_s for s in spells), cut_short=cut)
