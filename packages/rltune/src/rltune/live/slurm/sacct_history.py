"""A Slurm's history by sacct: in slices of time, one question at a time, to be taken up again where it was left.

What is fetched lies in a folder beside the output until all of it is there. A job belongs to the slice in which it
ended, so that no job counts twice; one that had not ended belongs to the last.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from rltune.errors import InputError
from rltune.live.slurm.command_settings import without_settings
from rltune.trace.sacct_fields import SEPARATOR_THAT_NO_NAME_HAS as SEPARATOR
from rltune.whole_file import write_whole

FIELDS = (
    "JobIDRaw",
    "JobID",
    "JobName",
    "User",
    "Account",
    "Partition",
    "QOS",
    "State",
    "ExitCode",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "ElapsedRaw",
    "TimelimitRaw",
    "ReqTRES",
    "AllocTRES",
    "NNodes",
    "NodeList",
    "Constraints",
    "Priority",
    "Flags",
    "Reason",
)
LONGEST_REST_S = 10.0
_ABOUT, _ALL = "span.json", "all.txt"
_END = FIELDS.index("End")

Told = Callable[[int, int, str], None]  # slices done, in all, the last one


@dataclass(frozen=True)
class AskedSpan:
    """From when to when, in seconds since 1970, and how much of it is asked for at once."""

    from_s: int
    to_s: int
    slice_s: int

    def __post_init__(self) -> None:
        if not self.from_s < self.to_s:
            raise InputError(f"the span ends at {_iso(self.to_s)}, before it begins at {_iso(self.from_s)}")
        if self.slice_s < 60:
            raise InputError(f"a slice should be a minute or more, not {self.slice_s} s")

    def slices(self) -> list[tuple[int, int]]:
        """Cut it."""
        return [(at, min(at + self.slice_s, self.to_s)) for at in range(self.from_s, self.to_s, self.slice_s)]


@dataclass(frozen=True)
class Sacct:
    """Asks slurmdbd, and gives it as much time to rest as a question took."""

    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 1800.0
    rest: Callable[[float], None] = time.sleep

    def ask(self, begin_s: int, end_s: int) -> str:
        """Return all records of jobs that were there between two times."""
        began = time.monotonic()
        said = self._run(begin_s, end_s)
        self.rest(min(time.monotonic() - began, LONGEST_REST_S))
        return said

    def _run(self, begin_s: int, end_s: int) -> str:
        # TZ: sacct takes times in the zone of whoever asks
        environment = without_settings({**os.environ, **self.environment}) | {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}
        try:
            done = subprocess.run(
                [*self.prefix, *_command(begin_s, end_s)],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InputError(f"sacct did not answer in {self.timeout_s:g} s; take a smaller --slice") from None
        except OSError as error:
            raise InputError(f"sacct could not be started: {error.strerror}") from None
        problem = done.stderr.decode(errors="replace").strip()
        if "accounting storage is disabled" in problem:
            raise InputError("this Slurm keeps no history (accounting storage is disabled)")
        if done.returncode or "error" in problem.lower():
            raise InputError(f"sacct failed: {problem or f'exit code {done.returncode}'}")
        return done.stdout.decode(errors="replace").replace("\0", "")


def fetch(span: AskedSpan, folder: Path, sacct: Sacct, told: Told = lambda *_: None) -> Path:
    """Fetch what of a span is not yet in the folder, and give the file that holds it all."""
    slices = span.slices()
    for number, (begin_s, end_s) in enumerate(slices):
        part = folder / f"{begin_s}.txt"
        if not part.exists():
            kept = ended_between(sacct.ask(begin_s, end_s), begin_s, end_s, is_last=end_s == span.to_s)
            write_whole(part, "".join(f"{line}\n" for line in kept))
        told(number + 1, len(slices), _iso(begin_s))
    return _join(folder, [folder / f"{begin_s}.txt" for begin_s, _ in slices])


def begin(folder: Path, span: AskedSpan, *, until_now: bool = False) -> AskedSpan:
    """Make the folder, or find in it what was begun; asked for "until now", that goes on until what was then now."""
    about = folder / _ABOUT
    if not about.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(about, json.dumps(asdict(span)))
        return span
    begun = AskedSpan(**json.loads(about.read_text(encoding="utf-8")))
    if begun != (replace(span, to_s=begun.to_s) if until_now else span):
        told = f"from {_iso(begun.from_s)} to {_iso(begun.to_s)} (UTC) in slices of {begun.slice_s} s"
        raise InputError(f"{folder}: holds an import that was begun {told}; ask for the same, or remove it")
    return begun


def forget(folder: Path) -> None:
    """Remove what was fetched."""
    shutil.rmtree(folder)


def ended_between(text: str, begin_s: int, end_s: int, *, is_last: bool) -> Iterator[str]:
    """Keep the records that belong to a slice."""
    for line in _records(text):
        end = line.split(SEPARATOR)[_END]
        if begin_s <= int(end) < end_s if end.isdecimal() else is_last:
            yield line


def _records(text: str) -> Iterator[str]:
    """Put together what the line ends in a job's name have torn apart."""
    record = ""
    for line in text.split("\n"):
        record += line if not record else f" {line}"
        if record.count(SEPARATOR) >= len(FIELDS) - 1:
            yield record
            record = ""
    if record.strip():
        raise InputError(f"sacct printed what cannot be read: {record[:100]!r}")


def _command(begin_s: int, end_s: int) -> list[str]:
    """Ask for all users, whole jobs without steps, and every record of a job that was requeued."""
    return [
        "sacct",
        "--allusers",
        "--allocations",
        "--duplicates",
        "--noheader",
        "--parsable2",
        f"--delimiter={SEPARATOR}",
        f"--starttime={_iso(begin_s)}",
        f"--endtime={_iso(end_s)}",
        f"--format={','.join(FIELDS)}",
    ]


def _join(folder: Path, parts: Sequence[Path]) -> Path:
    path = folder / _ALL
    header = (SEPARATOR.join(FIELDS) + "\n").encode()
    write_whole(path, b"".join((header, *(part.read_bytes() for part in parts))))
    return path


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
