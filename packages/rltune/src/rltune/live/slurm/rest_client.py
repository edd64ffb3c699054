"""A running Slurm by its slurmrestd, for controllers that run where Slurm's commands do not.

No version of it tells SiteFactor, or whether somebody set a priority by hand. So what is added to a job's priority is
carried by Nice, which every version tells and takes: `LiveJob.site_factor` is Nice with its sign turned, and a job
whose user gave it a Nice is left alone, as one with a SiteFactor of the site's own is. Slurm answers a Nice for a
priority set by hand with "all is well" and does nothing: that is how such a job is known, after the first write.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from rltune.live.rest_place import RestPlace
from rltune.live.see.backend import RECORD_NAME, BackendError, Change, ChangeKind, ChangeOutcome, UnreachableError
from rltune.live.see.snapshot import LOWEST, Lever, LiveJob, LiveNode, PriorityParts, Snapshot
from rltune.live.slurm import json_records as parse
from rltune.live.slurm import record_jobs
from rltune.live.slurm.dialect import caution, release_of
from rltune.live.slurm.rest_dialect import RestDialect, dialect_offered, partitions_of, reservations_of, typed
from rltune.live.slurm.rest_token import Token, how_to_make
from rltune.live.slurm.rest_wire import RestAnswer, RestLine, line_to, whose

_SECONDS_A_REQUEST = 0.05
_HELD = 2042  # Slurm's number for "this job is held", which is what was asked for
_GONE = frozenset({2017, 2021})  # no such job; it has ended
_LAST_MINUTES_S = 600.0  # of a token, in which nothing is changed but given back
_SERVER_ERROR = 500
_UNSPECIFIED = -1
_LOST = (range(1000, 2000), range(5000, 5100))  # Slurm's numbers of what can go wrong between daemons
_UNSURE = "job array update"  # 22.05 says that it failed, whatever became of it


@dataclass
class SlurmRest:
    """A slurmrestd as a backend."""

    place: RestPlace
    now_s: Callable[[], float] = time.time  # the cluster's clock
    timeout_s: float = 20.0  # for one batch of requests
    calls: Counter[str] = field(default_factory=Counter)
    _dialect: RestDialect | None = None
    _written: dict[int, int] = field(default_factory=dict)  # job: what was added last, and is to be seen again
    _by_hand: dict[int, int] = field(default_factory=dict)  # job: its priority, which did not follow

    def observe(self) -> Snapshot:
        """Read everything, by four requests over one connection."""
        with self._line() as line:
            jobs, nodes, partitions, reservations = (
                self._read(line, what) for what in ("jobs", "nodes", "partitions", "reservations")
            )
        taken_s = self.now_s()
        told = release_of(jobs)
        try:
            seen, records = record_jobs.parted(self._levered(parse.jobs_of(jobs)))
            shown = reservations_of(reservations)
            members = tuple(parse.nodes_of(nodes, shown, taken_s))
            return Snapshot(
                taken_s=taken_s,
                version=told,
                caution=caution(told) or self._caution(line.token),
                lever=Lever.NICE,
                jobs=seen,
                records=records,
                nodes=members,
                partitions=partitions_of(partitions),
                reservations=shown,
                mem_counts=_memory_counts(members),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BackendError(
                f"slurmrestd told of partitions or reservations what cannot be read: {error!r}"
            ) from error

    def priorities(self) -> dict[int, PriorityParts]:
        """Read what Slurm holds of waiting jobs' priorities, by one request."""
        with self._line() as line:
            answer = self._read(line, "jobs")
        jobs = self._levered(parse.jobs_of(answer))
        return {job.id: parts for job in jobs if job.pending and not job.held and (parts := job.priority_parts)}

    def apply(self, changes: Sequence[Change]) -> tuple[ChangeOutcome, ...]:
        """Make the changes, by one request each over one connection."""
        if not changes:
            return ()
        with self._line(len(changes)) as line:
            dialect = self._dialect_of(line)
            outcomes = tuple(self._make(change, dialect, line) for change in changes)
        return self._made_sure(outcomes)

    def _make(self, change: Change, dialect: RestDialect, line: RestLine) -> ChangeOutcome:
        if change.kind in dialect.cannot:
            return ChangeOutcome(change, f"slurmrestd (v0.0.{dialect.version}) cannot change {change.kind}")
        answer = line.ask("POST", dialect.path_of(change), dialect.update(change))
        self.calls["job"] += 1
        self._require_reached(answer, line)
        if change.kind is ChangeKind.SITE_FACTOR and not answer.error:
            self._written[change.job] = change.value
        return ChangeOutcome(change, answer.error)

    def _made_sure(self, outcomes: tuple[ChangeOutcome, ...]) -> tuple[ChangeOutcome, ...]:
        """Look where an answer does not tell whether the change of an array was made."""
        if not any(_UNSURE in outcome.error for outcome in outcomes):
            return outcomes
        held = self.priorities()
        return tuple(self._sure(outcome, held) if _UNSURE in outcome.error else outcome for outcome in outcomes)

    def _sure(self, outcome: ChangeOutcome, held: Mapping[int, PriorityParts]) -> ChangeOutcome:
        change = outcome.change
        made = change.job in held and held[change.job].site == change.value
        if made:
            self._written[change.job] = change.value
        return ChangeOutcome(change, "" if made else outcome.error)

    def commands(self, changes: Sequence[Change]) -> tuple[str, ...]:
        """Spell the changes as one would type them where Slurm's commands are."""
        return tuple(map(typed, changes))

    def cannot(self) -> frozenset[ChangeKind]:
        """Return which changes this slurmrestd does not know."""
        with self._line() as line:
            return self._dialect_of(line).cannot

    def user(self) -> str:
        """Return whose token it is."""
        return Token.read(self.place).user

    def may_drive(self, user: str) -> bool:  # noqa: ARG002  as the protocol has it
        """Return True: slurmrestd does not tell under which account Slurm itself runs."""
        return True

    def open_record(self, text: str, partition: str) -> int:
        """Submit a held job with this text."""
        job: dict[str, Any] = {
            "name": RECORD_NAME,
            "hold": True,
            "begin_time": record_jobs.BEGIN,
            "comment": text,
            "tasks": 1,
            "time_limit": 1,
            "standard_output": "/dev/null",
            "current_working_directory": "/",
            "environment": {"SLURM_EXPORT_ENV": "NONE"},
            **({"partition": partition} if partition else {}),
        }
        with self._line() as line:
            dialect = self._dialect_of(line)
            answer = line.ask("POST", f"{dialect.root}/job/submit", dialect.submission(job, record_jobs.SCRIPT))
            self.calls["submit"] += 1
            self._require_reached(answer, line)
        number = answer.body.get("job_id")
        if not isinstance(number, int) or number <= 0 or answer.error_numbers - {_HELD}:
            raise BackendError(f"slurmrestd took no record: {answer.error or 'it names no job'}")
        return number

    def write_records(self, texts: Mapping[int, str]) -> None:
        """Replace the texts of records; all must be taken."""
        if not texts:
            return
        with self._line(len(texts)) as line:
            root = self._dialect_of(line).root
            for job, text in texts.items():
                answer = line.ask("POST", f"{root}/job/{job}", {"comment": text})
                self.calls["job"] += 1
                self._require_reached(answer, line)
                if answer.error:
                    raise BackendError(f"Slurm did not take the record: {answer.error}")

    def close_records(self, jobs: Sequence[int]) -> None:
        """Cancel records."""
        if not jobs:
            return
        with self._line(len(jobs)) as line:
            root = self._dialect_of(line).root
            for job in jobs:
                answer = line.ask("DELETE", f"{root}/job/{job}")
                self.calls["job"] += 1
                self._require_reached(answer, line)
                if answer.error and not answer.error_numbers & _GONE:
                    raise BackendError(f"record {job} could not be cancelled: {answer.error}")

    @contextmanager
    def _line(self, requests: int = 4) -> Iterator[RestLine]:
        """Connect, with the token that lies there now."""
        token = Token.read(self.place)
        token.require_valid(self.now_s(), self.place)
        with line_to(self.place, token, self.timeout_s + math.ceil(_SECONDS_A_REQUEST * requests)) as line:
            yield line

    def _dialect_of(self, line: RestLine) -> RestDialect:
        """Ask once which versions are offered."""
        if self._dialect is None:
            answer = line.ask("GET", "/openapi/v3")
            self.calls["openapi"] += 1
            self._dialect = dialect_offered(answer.body.get("paths") or ())
        return self._dialect

    def _read(self, line: RestLine, what: str) -> dict[str, Any]:
        answer = line.ask("GET", f"{self._dialect_of(line).root}/{what}")
        self.calls[what] += 1
        if answer.status == 404:
            self._dialect = None  # another release answers now
        if answer.error:
            self._require_reached(answer, line)
        parse.require_whole(answer.body, "slurmrestd", what)
        return dict(answer.body)

    def _require_reached(self, answer: RestAnswer, line: RestLine) -> None:
        """Raise if slurmctld was not reached; 22.05 says the same of one that is down and of a token it refuses."""
        if answer.status >= _SERVER_ERROR and any(_is_lost(number) for number in answer.error_numbers):
            why = f"which is down or does not accept {whose(self.place, line.token)}: {answer.error}"
            raise UnreachableError(f"slurmrestd at {self.place.url} does not get through to slurmctld, {why}")

    def _caution(self, token: Token) -> str:
        """Let go in time: who has no token any more can give nothing back."""
        left_s = token.until_s - self.now_s()
        if left_s > _LAST_MINUTES_S:
            return ""
        return f"the token in {self.place.token_file} expires in {left_s:.0f} s; {how_to_make(token.user)} makes one"

    def _levered(self, jobs: Sequence[LiveJob]) -> list[LiveJob]:
        """Read Nice as what is added to the priority, and remember whose priority does not follow it."""
        self._note_by_hand(jobs)
        return [_levered(job, by_hand=job.id in self._by_hand) for job in jobs]

    def _note_by_hand(self, jobs: Sequence[LiveJob]) -> None:
        waiting = {job.id: job for job in jobs if job.pending and not job.held}
        self._by_hand = {
            job: priority
            for job, priority in self._by_hand.items()
            if job in waiting and (waiting[job].priority, waiting[job].nice) == (priority, 0)
        }
        for job, value in self._written.items():
            seen = waiting.get(job)
            if seen is not None and value and seen.nice == 0 and seen.priority > LOWEST:
                self._by_hand[job] = seen.priority
        self._written = {}


def _levered(job: LiveJob, *, by_hand: bool) -> LiveJob:
    site = -job.nice
    others = 0 if job.priority <= LOWEST and not site else job.priority - site
    return replace(job, nice=0, site_factor=site, other_factors=others, priority_by_hand=by_hand or None)


def _memory_counts(nodes: Sequence[LiveNode]) -> bool:
    """Return, from what is in use, whether memory is a resource here, since the configuration is not told."""
    return any(node.mem_used_gib for node in nodes) or not any(node.cpus_used for node in nodes)


def _is_lost(error_number: int) -> bool:
    """Return whether an error is about the way to slurmctld, and not about what was asked of it."""
    return error_number == _UNSPECIFIED or any(error_number in numbers for numbers in _LOST)
