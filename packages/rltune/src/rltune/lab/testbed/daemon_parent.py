"""One parent for all daemons of a testbed: it shares one clock with them, and knows them all by a mark.

The parent is a shell that starts what it is told through a pipe. A fast clock is libfaketime's; it lives as long as
its wrapper, which is why daemons that are restarted must come from the same parent. Under a fast clock two seconds of
patience are over in a blink, so peers hang up on each other: a daemon must not die of that (SIGPIPE) before it has
learnt to ignore it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rltune.errors import InputError

MARK = "RLTUNE_TESTBED"  # in the environment of all that belongs to a testbed; its value is the folder
_SCRIPT = """
trap '' PIPE
exec 3<>"$0/run/orders"
date +%s.%N >"$0/run/clock"
while read -r name command <&3; do
  (eval "exec $command") >>"$0/log/$name.out" 2>&1 3>&- &
  echo $! >"$0/run/$name.pid"
done
"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Nursery:
    """The daemons of one folder."""

    folder: Path

    def open(self, factor: int) -> None:
        """Start the parent."""
        os.mkfifo(self.folder / "run/orders")
        clock = ["faketime", "-m", "-f", f"+0 x{factor}"] if factor != 1 else []
        with (self.folder / "log/nursery.out").open("wb") as out:
            subprocess.run(
                ["setsid", "--fork", *clock, "sh", "-c", _SCRIPT, str(self.folder)],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                check=True,
            )
        wait_until("the testbed's parent process", (self.folder / "run/clock").exists, self.folder)

    @property
    def environment(self) -> dict[str, str]:
        """Return what daemons find in their environment: nothing of the caller's."""
        return {
            "PATH": _PATH,
            "LANG": "C.UTF-8",
            "SLURM_CONF": f"{self.folder}/etc/slurm.conf",
            "MYSQL_UNIX_PORT": f"{self.folder}/run/mysql.sock",
            MARK: str(self.folder),
        }

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a daemon."""
        pid_file = self.folder / f"run/{name}.pid"
        pid_file.unlink(missing_ok=True)
        try:
            pipe = os.open(self.folder / "run/orders", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            raise InputError(f"{self.folder}: the testbed there is not up") from None
        with os.fdopen(pipe, "w") as orders:
            orders.write(f"{name} {shlex.join(command)}\n")
        wait_until(f"{name} (log/{name}.out)", lambda: self.pid(name) > 0, self.folder)

    def pid(self, name: str) -> int:
        """Return the process of a daemon; 0 if it does not run."""
        try:
            pid = int((self.folder / f"run/{name}.pid").read_text())
        except (OSError, ValueError):
            return 0
        return pid if self._is_ours(pid) else 0

    def stop(self, name: str, sign: signal.Signals = signal.SIGTERM) -> None:
        """Stop a daemon and wait until it is gone."""
        pid = self.pid(name)
        if pid:
            os.kill(pid, sign)
            wait_until(f"the end of {name}", lambda: self.pid(name) == 0, self.folder)

    def close(self) -> None:
        """End everything that belongs to the folder: daemons, jobs, and last the parent with its clock."""
        wait_until("the end of the daemons", lambda: not self._kill(self.family()), self.folder, timeout_s=20)
        for pid in self._parents():
            if _program(pid) != "faketime":  # which ends by itself, and takes its shared memory with it
                _signal(pid, signal.SIGKILL)
        wait_until("the end of the parent", lambda: not self._parents(), self.folder)

    def family(self) -> set[int]:
        """Find the daemons, and what they started."""
        children: dict[int, list[int]] = {}
        for pid in _all_pids():
            children.setdefault(_parent(pid), []).append(pid)
        found = {pid for pid in _all_pids() if self._is_ours(pid)} - self._parents()
        todo = list(found)
        while todo:
            fresh = [pid for pid in children.get(todo.pop(), []) if pid not in found and is_alive(pid)]
            found.update(fresh)
            todo += fresh
        return found

    def _kill(self, pids: set[int]) -> set[int]:
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        return pids

    def _parents(self) -> set[int]:
        """Find the shell that starts daemons, and the wrapper that keeps its clock."""
        return {pid for pid in _all_pids() if self._is_ours(pid) and _SCRIPT in _read(pid, "cmdline")}

    def _is_ours(self, pid: int) -> bool:
        return f"{MARK}={self.folder}\0" in _read(pid, "environ") and is_alive(pid)


def wait_until(what: str, done: Callable[[], bool], folder: Path, timeout_s: float = 120.0) -> None:
    """Wait for something of a testbed."""
    deadline = time.monotonic() + timeout_s
    pause_s = 0.005
    while not done():
        if time.monotonic() > deadline:
            raise InputError(f"{folder}: waited {timeout_s:.0f} s for {what}; the files in {folder}/log tell more")
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, 0.2)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended stays visible until its parent asks for it."""
    return _state(pid) not in {"", "Z", "X"}


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the program's name."""
    return _read(pid, "stat").rpartition(")")[2].split()


def _state(pid: int) -> str:
    return next(iter(_stat(pid)), "")


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _program(pid: int) -> str:
    return Path(_read(pid, "cmdline").split("\0")[0]).name


def _read(pid: int, what: str) -> str:
    try:
        return Path(f"/proc/{pid}/{what}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _signal(pid: int, sign: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sign)
