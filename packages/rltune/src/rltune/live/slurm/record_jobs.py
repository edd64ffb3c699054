"""Records as Slurm's jobs: held, not to begin for years, and with nothing to run, so that no accident starts one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rltune.live.see.backend import RECORD_NAME, BackendError
from rltune.live.see.record_text import is_record
from rltune.live.see.snapshot import LiveJob, RecordJob

SCRIPT = "#!/bin/sh\nexit 0\n"
_PROMPT = "scontrol:"
_GONE = ("Invalid job id", "already finished", "already completing")  # words of scancel's
BEGIN = "2037-01-01"  # a hold can be lifted by mistake; before this date Slurm would not start it even then


def submission(text: str, partition: str) -> tuple[str, ...]:
    """Spell the command that makes a record; it reads its script from its input."""
    return (
        "sbatch",
        "--parsable",
        "--hold",
        f"--begin={BEGIN}",
        f"--job-name={RECORD_NAME}",
        f"--comment={text}",
        "--nodes=1",
        "--ntasks=1",
        "--time=1",
        "--output=/dev/null",
        "--chdir=/",
        "--export=NONE",
        *((f"--partition={partition}",) if partition else ()),
    )


def number_of(printed: str) -> int:
    """Read the id of a job that was submitted."""
    try:
        return int(printed.strip().splitlines()[-1].split(";")[0])
    except (IndexError, ValueError):
        raise BackendError(f"sbatch printed what is no job id: {printed.strip()[:100]!r}") from None


def lines_of(texts: Mapping[int, str]) -> list[str]:
    """Spell as scontrol wants it that these jobs have these texts."""
    return [f"update JobId={job} Comment={text}" for job, text in texts.items()]


def refusal_of(transcript: str) -> str:
    """Return what scontrol says was wrong; it repeats every line that it reads, and is silent on those it takes."""
    said = (line.strip() for line in transcript.splitlines() if not line.startswith(_PROMPT))
    return "; ".join(dict.fromkeys(line for line in said if line))


def cancel_refusal_of(printed: str) -> str:
    """Return why scancel did not cancel all; a record that is gone already needs no cancelling."""
    said = (line.strip() for line in printed.splitlines() if not any(word in line for word in _GONE))
    return "; ".join(dict.fromkeys(line for line in said if line))


def parted(jobs: Iterable[LiveJob]) -> tuple[tuple[LiveJob, ...], tuple[RecordJob, ...]]:
    """Part the jobs from the records among them; a record that has ended is neither.

    A waiting job of the name is a record whatever its text: somebody may have overwritten it. So is a held one with
    such a text, whatever its name: somebody may have renamed it. One that runs is none.
    """
    others, records = [], []
    for job in jobs:
        renamed = job.name != RECORD_NAME and job.pending and job.held and is_record(job.comment)
        if (job.name != RECORD_NAME and not renamed) or job.on_nodes:
            others.append(job)
        elif job.pending:
            records.append(RecordJob(job.id, job.user, job.comment))
        elif not is_record(job.comment):
            others.append(job)
    return tuple(others), tuple(records)
