"""Changes as lines for scontrol, and what its transcript says became of them.

Two things that Slurm 22.05 does, found by trying:
- a Priority set by hand, and `release`, both set Nice back to 0. So the value of a release is the Nice a job had.
- `JobId=7_[3-9]` with all waiting tasks of a record changes it as one; `JobId=7` would hit the running tasks as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rltune.live.see.backend import Change, ChangeKind, ChangeOutcome

_PROMPT = "scontrol: "
_JOB = re.compile(r"\bjob (\d+)\b|^(\d+)_")
_LOST = re.compile(r"timed out|zero bytes|unable to contact|connection (refused|failure)|send/recv", re.IGNORECASE)
_FINE = re.compile(r": No error$")


def lines_of(change: Change) -> tuple[str, ...]:
    """Spell a change as scontrol wants it."""
    job = change.ref or str(change.job)
    if change.kind is ChangeKind.REQUEUE:
        return (f"requeue incomplete {job}",)  # a plain requeue would run a job again that has just completed
    if change.kind is ChangeKind.RELEASE:
        nice = (f"update JobId={job} Nice={change.value}",) if change.value else ()
        return (f"release {job}", *nice)
    return (f"update JobId={job} {_setting(change)}",)


def outcomes_of(changes: Sequence[Change], transcript: str) -> tuple[ChangeOutcome, ...]:
    """Find what became of each change: scontrol repeats every line it reads, then says what was wrong with it."""
    said = _said(transcript)
    errors: list[str] = []
    at = 0
    for change in changes:
        wanted = lines_of(change)
        answers = said[at : at + len(wanted)]
        if tuple(line for line, _ in answers) != wanted:
            return _by_number(changes, transcript)
        errors.append("; ".join(filter(None, (message for _, message in answers))))
        at += len(wanted)
    return tuple(ChangeOutcome(change, error) for change, error in zip(changes, errors, strict=True))


def may_be_made(error: str) -> bool:
    """Return whether an error leaves it open if the change was made: a late slurmctld makes it all the same."""
    return _LOST.search(error) is not None


def _setting(change: Change) -> str:
    nodes = ",".join(change.nodes)
    match change.kind:
        case ChangeKind.SITE_FACTOR:
            return f"SiteFactor={change.value}"
        case ChangeKind.PRIORITY:
            return f"Priority={change.value}"
        case ChangeKind.EXCLUDE_NODES:
            return f"ExcNodeList={nodes}"
        case ChangeKind.REQUIRE_NODES:
            return f"ReqNodeList={nodes}"
        case ChangeKind.BEGIN_NOW:
            return "StartTime=now"
        case ChangeKind.ADMIN_COMMENT:
            quoted = f'"{change.text}"' if change.text else ""  # Slurm 22.05 keeps the quotes
            return f"AdminComment={quoted}"
        case _:
            raise ValueError(change.kind)


def _said(transcript: str) -> list[tuple[str, str]]:
    """Cut a transcript into the lines read and what was said of each."""
    said: list[tuple[str, list[str]]] = []
    for line in transcript.splitlines():
        if line.startswith(_PROMPT.rstrip()):
            said.append((line.removeprefix(_PROMPT).strip(), []))
        elif said and line.strip() and not _FINE.search(line):
            said[-1][1].append(line.strip())
    return [(line, "; ".join(dict.fromkeys(messages))) for line, messages in said]


def _by_number(changes: Sequence[Change], transcript: str) -> tuple[ChangeOutcome, ...]:
    """Where lines are not repeated: an error counts for all changes of the job it names, and one without for all."""
    errors: dict[int, str] = {}
    nameless = ""
    for line in transcript.splitlines():
        if line.startswith(_PROMPT.rstrip()) or not line.strip() or _FINE.search(line):
            continue
        match = _JOB.search(line)
        if match:
            errors.setdefault(int(match[1] or match[2]), line.strip())
        else:
            nameless = nameless or line.strip()
    return tuple(ChangeOutcome(change, errors.get(change.job, nameless)) for change in changes)
