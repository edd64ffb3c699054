"""A running Slurm, by its own commands: few processes, none that can block for long."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rltune.live.see.backend import BackendError, Change, ChangeKind, ChangeOutcome, UnreachableError
from rltune.live.see.snapshot import PriorityParts, Snapshot
from rltune.live.slurm import json_records as parse
from rltune.live.slurm import record_jobs
from rltune.live.slurm import rights_of_account as rights
from rltune.live.slurm import scontrol_orders as orders
from rltune.live.slurm import scontrol_show as show
from rltune.live.slurm import sprio as priority
from rltune.live.slurm.command_settings import without_settings
from rltune.live.slurm.dialect import Dialect, caution, dialect_for, own_shape

SQUEUE = ("squeue", "--all", "--states=all")
SPRIO = ("sprio", "--noheader", f"--format={priority.FORMAT}")
_SETTINGS = ("show partition", "show reservation", "show config")
_SECONDS_A_LINE = 0.05  # that slurmctld may take: 1 ms on a quiet machine, 25 ms on one with 15 times its load
_MORTAL = ("setpriv", "--pdeathsig", "KILL")
_PINGED = "pinged"  # scontrol repeats it when all controllers have been tried
_FIXED = {
    "SLURM_TIME_FORMAT": "%s",
    "SLURM_BITSTR_LEN": "0",  # else a long list ends in "...", and no command takes such a name
    "TERM": "xterm",
    "COLUMNS": "100000",  # a line that ends where the terminal does is repeated with movements of a cursor in it
    "INPUTRC": "/dev/null",
    "LC_ALL": "C.UTF-8",
}
_NO_MULTIFACTOR = "priority plugin"  # sprio's words where there are no factors to tell


@dataclass
class Slurm:
    """Slurm's commands as a backend. `prefix` goes before every command, such as `setpriv` or `ssh head`."""

    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    now_s: Callable[[], float] = time.time  # the cluster's clock
    timeout_s: float = 20.0  # for one command
    calls: Counter[str] = field(default_factory=Counter)
    _user: str = ""
    _dies_with_us: bool | None = None  # whether commands can be made to; None = not tried yet

    def observe(self) -> Snapshot:
        """Read everything, by four processes: scontrol, squeue, sprio, and sinfo or scontrol for the nodes."""
        told = self._ask_scontrol(_SETTINGS)
        release = show.config(told, "SLURM_VERSION")
        if not release:
            raise UnreachableError("slurmctld went away while it was asked for its settings")
        jobs, dialect = self._jobs(release)
        taken_s = self.now_s()
        nodes = parse.answer_of(self._run(dialect.nodes_command), dialect.nodes_command[0], "nodes")
        factors = self.priorities()
        try:
            partitions, reservations = show.partitions(told), show.reservations(told)
        except (KeyError, ValueError) as error:
            raise BackendError(f"scontrol told of partitions or reservations what cannot be read: {error!r}") from error
        seen, records = record_jobs.parted(parse.jobs_of(jobs, factors))
        return Snapshot(
            taken_s=taken_s,
            version=release,
            caution=caution(release) or show.no_factors(told),
            jobs=seen,
            records=records,
            nodes=tuple(parse.nodes_of(nodes, reservations, taken_s)),
            partitions=partitions,
            reservations=reservations,
            mem_counts="MEMORY" in show.config(told, "SelectTypeParameters").upper(),
            kill_wait_s=show.seconds(show.config(told, "KillWait"), usual=30.0),
        )

    def _jobs(self, release: str) -> tuple[dict[str, Any], Dialect]:
        """Ask for the jobs in the shape known for a release; a newer one may offer only its own."""
        dialect = dialect_for(release)
        try:
            said = self._run((*SQUEUE, dialect.json_word))
        except UnreachableError:
            raise
        except BackendError:
            if not caution(release):
                raise
            dialect = own_shape(dialect)
            said = self._run((*SQUEUE, dialect.json_word))
        return parse.answer_of(said, "squeue", "jobs"), dialect

    def priorities(self) -> dict[int, PriorityParts]:
        """Read what Slurm holds of waiting jobs' priorities, by one process; sprio is silent on some jobs."""
        return priority.factors_of(self._factors())

    def apply(self, changes: Sequence[Change]) -> tuple[ChangeOutcome, ...]:
        """Make the changes by one process that reads them from its input."""
        if not changes:
            return ()
        lines = [line for change in changes for line in orders.lines_of(change)]
        outcomes = orders.outcomes_of(changes, self._ask_scontrol(lines))
        lost = next((outcome.error for outcome in outcomes if orders.may_be_made(outcome.error)), "")
        if lost:
            raise UnreachableError(f"scontrol lost touch with slurmctld: {lost}")
        return outcomes

    def commands(self, changes: Sequence[Change]) -> tuple[str, ...]:
        """Spell the changes as one would type them."""
        return tuple(" && ".join(f"scontrol {line}" for line in orders.lines_of(change)) for change in changes)

    def cannot(self) -> frozenset[ChangeKind]:
        """Return which changes Slurm's commands do not know: none."""
        return frozenset()

    def user(self) -> str:
        """Ask under which account the commands run; `prefix` may have changed it."""
        if not self._user:
            self._user = self._run(("id", "-un")).strip()
        return self._user

    def may_drive(self, user: str) -> bool:
        """Ask Slurm whether an account is its own, root, an Operator or more, or coordinates an account."""
        try:
            told = self._ask_scontrol(("show config",))
            if rights.is_slurms_own(user, told):
                return True
            levels = self._run(rights.question(user)) if rights.has_levels(told) else ""
        except BackendError:
            return True
        return rights.may_drive(user, levels)

    def open_record(self, text: str, partition: str) -> int:
        """Submit a held job with this text."""
        return record_jobs.number_of(self._run(record_jobs.submission(text, partition), given=record_jobs.SCRIPT))

    def write_records(self, texts: Mapping[int, str]) -> None:
        """Replace the texts of records, by one process; all must be taken."""
        if not texts:
            return
        refusal = record_jobs.refusal_of(self._ask_scontrol(record_jobs.lines_of(texts)))
        if refusal:
            raise BackendError(f"Slurm did not take the record: {refusal}")

    def close_records(self, jobs: Sequence[int]) -> None:
        """Cancel records."""
        if not jobs:
            return
        refusal = record_jobs.cancel_refusal_of(self._run(("scancel", "--quiet", *map(str, jobs)), may_fail=True))
        if refusal:
            raise BackendError(f"records could not be cancelled: {refusal}")

    def _ask_scontrol(self, lines: Sequence[str]) -> str:
        """Let one scontrol ping first, then read these lines: with slurmctld down it would try each for 9 s."""
        self.calls["scontrol"] += 1
        timeout_s = self.timeout_s + math.ceil(_SECONDS_A_LINE * len(lines))
        with self._start((*self._mortal(), "scontrol", "--oneliner")) as process:
            alarm = threading.Timer(timeout_s, _kill_all, (process,))
            alarm.start()
            try:
                said = _ping_then_ask(process, "".join(f"{line}\n" for line in lines))
            finally:
                alarm.cancel()
                process.kill()
        if process.returncode == -signal.SIGKILL:
            raise UnreachableError(f"scontrol did not answer in {timeout_s:g} s")
        return said

    def _mortal(self) -> tuple[str, ...]:
        """Return the words by which a command dies when we are killed: else it goes on writing what it was given.

        Somebody who gave everything back in the meantime would have said so too early.
        """
        path = self._environment().get("PATH")
        known = self.prefix or shutil.which("scontrol", path=path)  # else it is scontrol that is missing
        if not known:
            return ()
        if self._dies_with_us is None:
            self._dies_with_us = bool(shutil.which(_MORTAL[0], path=path)) and self._works((*_MORTAL, "true"))
        return _MORTAL if self._dies_with_us else ()

    def _works(self, command: Sequence[str]) -> bool:
        """Return whether a command ends well: the unit's sandbox forbids setpriv, for one.

        There systemd ends all that the controller has started.
        """
        with self._start(command) as process:
            try:
                process.communicate(timeout=self.timeout_s)
            except subprocess.TimeoutExpired:
                _kill_all(process)
        return process.returncode == 0

    def _start(self, command: Sequence[str], stderr: int = subprocess.STDOUT) -> subprocess.Popen[bytes]:
        """Start a command as the first of a group of its own, so that whatever it starts can be ended with it."""
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(
                self._command(command),
                env=self._environment(),
                stdin=pipe,
                stdout=pipe,
                stderr=stderr,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise BackendError(f"{command[0]} could not be started: {error.strerror}") from None

    def _factors(self) -> str:
        """Ask sprio; a Slurm without the multifactor plugin has no factors to tell."""
        said = self._run(SPRIO, may_fail=True)
        if _NO_MULTIFACTOR in said:
            return ""
        if said and "|" not in said:
            raise BackendError(f"sprio failed: {said.strip()}")
        return said

    def _run(self, command: Sequence[str], *, may_fail: bool = False, given: str = "") -> str:
        self.calls[command[0]] += 1
        with self._start(command, subprocess.STDOUT if may_fail else subprocess.PIPE) as process:
            try:
                said, complaint = process.communicate(given.encode(), self.timeout_s)
            except subprocess.TimeoutExpired:
                raise UnreachableError(f"{command[0]} did not answer in {self.timeout_s:g} s") from None
            finally:
                if process.returncode is None:
                    _kill_all(process)
        if process.returncode and not may_fail:
            raise BackendError(f"{command[0]} failed: {_text(complaint).strip() or _text(said).strip()}")
        return _text(said)

    def _command(self, command: Sequence[str]) -> list[str]:
        return [*self.prefix, *command]

    def _environment(self) -> dict[str, str]:
        """Keep users' settings of Slurm's commands out, and let lists of array tasks be whole."""
        return without_settings({**os.environ, **self.environment}) | _FIXED


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """End a command with all that it has started: what holds its output open would be waited for."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _text(printed: bytes | None) -> str:
    return (printed or b"").decode(errors="replace")


def _ping_then_ask(process: subprocess.Popen[bytes], lines: str) -> str:
    """Return what scontrol says to the lines, if a slurmctld is up; nothing if it is killed before."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(f"ping\nshow hostnames {_PINGED}\n".encode())
    said = b""
    while f"\n{_PINGED}\n".encode() not in said:
        more = process.stdout.read(65536)
        if not more:
            if process.wait() == -signal.SIGKILL:  # by the alarm: what it had said by then tells nothing
                return ""
            raise UnreachableError(f"scontrol failed: {said.decode(errors='replace').strip() or 'no answer'}")
        said += more
    pinged, _, rest = said.decode(errors="replace").partition(f"\n{_PINGED}\n")
    if " is UP" not in pinged:
        raise UnreachableError("slurmctld does not answer")
    return rest + process.communicate(lines.encode())[0].decode(errors="replace")
