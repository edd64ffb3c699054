"""A running Slurm, by its own commands: few processes, none that can block for long."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rltune.live.see.backend import BackendError, Change, ChangeOutcome, UnreachableError
from rltune.live.see.snapshot import PriorityParts, Snapshot
from rltune.live.slurm import json_records as parse
from rltune.live.slurm import scontrol_orders as orders
from rltune.live.slurm import scontrol_show as show
from rltune.live.slurm import sprio as priority
from rltune.live.slurm.dialect import dialect_of, release_of

SQUEUE = ("squeue", "--all", "--states=all", "--json")
SPRIO = ("sprio", "--noheader", f"--format={priority.FORMAT}")
_SETTINGS = ("show partition", "show reservation", "show config")
_SECONDS_A_LINE = 0.01  # that slurmctld may take; ten times what was measured
_PINGED = "pinged"  # scontrol repeats it when all controllers have been tried
_FIXED = {
    "SLURM_TIME_FORMAT": "%s",
    "SLURM_BITSTR_LEN": "0",  # else a long list ends in "...", and no command takes such a name
    "TERM": "xterm",
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

    def observe(self) -> Snapshot:
        """Read everything, by four processes: scontrol, squeue, sprio, and sinfo or scontrol for the nodes."""
        told = self._ask_scontrol(_SETTINGS)
        jobs = parse.answer_of(self._run(SQUEUE), "squeue", "jobs")
        taken_s = self.now_s()
        command = dialect_of(jobs).nodes_command
        nodes = parse.answer_of(self._run(command), command[0], "nodes")
        factors = self.priorities()
        try:
            partitions, reservations = show.partitions(told), show.reservations(told)
        except (KeyError, ValueError) as error:
            raise BackendError(f"scontrol told of partitions or reservations what cannot be read: {error!r}") from error
        return Snapshot(
            taken_s=taken_s,
            version=release_of(jobs),
            jobs=parse.jobs_of(jobs, factors),
            nodes=tuple(parse.nodes_of(nodes, reservations, taken_s)),
            partitions=partitions,
            reservations=reservations,
            mem_counts="MEMORY" in show.config(told, "SelectTypeParameters").upper(),
            kill_wait_s=show.seconds(show.config(told, "KillWait"), usual=30.0),
        )

    def priorities(self) -> dict[int, PriorityParts]:
        """Read what Slurm holds of waiting jobs' priorities, by one process; sprio is silent on some jobs."""
        return priority.factors_of(self._factors())

    def apply(self, changes: Sequence[Change]) -> tuple[ChangeOutcome, ...]:
        """Make the changes by one process that reads them from its input."""
        if not changes:
            return ()
        lines = [line for change in changes for line in orders.lines_of(change)]
        return orders.outcomes_of(changes, self._ask_scontrol(lines))

    def commands(self, changes: Sequence[Change]) -> tuple[str, ...]:
        """Spell the changes as one would type them."""
        return tuple(" && ".join(f"scontrol {line}" for line in orders.lines_of(change)) for change in changes)

    def _ask_scontrol(self, lines: Sequence[str]) -> str:
        """Let one scontrol ping first, then read these lines: with slurmctld down it would try each for 9 s."""
        self.calls["scontrol"] += 1
        timeout_s = self.timeout_s + math.ceil(_SECONDS_A_LINE * len(lines))
        with self._start(("scontrol", "--oneliner")) as process:
            alarm = threading.Timer(timeout_s, process.kill)
            alarm.start()
            try:
                said = _ping_then_ask(process, "".join(f"{line}\n" for line in lines))
            finally:
                alarm.cancel()
                process.kill()
        if process.returncode == -signal.SIGKILL:
            raise UnreachableError(f"scontrol did not answer in {timeout_s:g} s")
        return said

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(
                self._command(command),
                env=self._environment(),
                stdin=pipe,
                stdout=pipe,
                stderr=subprocess.STDOUT,
                bufsize=0,
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

    def _run(self, command: Sequence[str], *, may_fail: bool = False) -> str:
        self.calls[command[0]] += 1
        try:
            done = subprocess.run(
                self._command(command),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if may_fail else subprocess.PIPE,
                text=True,
                errors="replace",
                timeout=self.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"{command[0]} did not answer in {self.timeout_s:g} s") from None
        except OSError as error:
            raise BackendError(f"{command[0]} could not be started: {error.strerror}") from None
        if done.returncode and not may_fail:
            raise BackendError(f"{command[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _command(self, command: Sequence[str]) -> list[str]:
        return [*self.prefix, *command]

    def _environment(self) -> dict[str, str]:
        """Keep the users' settings of line editing and time formats out, and let lists of array tasks be whole."""
        return {**os.environ, **self.environment, **_FIXED}


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
