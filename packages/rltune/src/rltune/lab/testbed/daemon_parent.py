"""One parent for all daemons of a testbed: it shares one clock with them, and knows them all by a mark.

The parent is a shell that starts what it is told through a pipe. A fast clock is libfaketime's; it lives as long as
its wrapper, which is why daemons that are restarted must come from the same parent. Under a fast clock two seconds of
patience are over in a blink, so peers hang up on each other: a daemon must not die of that (SIGPIPE) before it has
learnt to ignore it.

Another release of Slurm lies in a folder that the parent takes for its root, in a mount namespace of its own: what is
mounted for it is gone with its last process. Slurm's commands enter the same way, by programs in the testbed's `bin`.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rltune.errors import InputError

MARK = "RLTUNE_TESTBED"  # in the environment of all that belongs to a testbed; its value is the folder
_SCRIPT = """
trap '' PIPE
exec 3<>"$0/run/orders"
echo $$ >"$0/run/parent.pid"
date +%s.%N >"$0/run/clock"
while read -r name command <&3; do
  (eval "exec $command") >>"$0/log/$name.out" 2>&1 3>&- &
  echo $! >"$0/run/$name.pid"
done
"""
_ENTER = """
root=$1; shift
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir -p "$root$1"; else touch "$root$1"; fi
  mount --rbind "$1" "$root$1"
  shift
done
shift; exec chroot "$root" "$@"
"""
_SEEN = ("/proc", "/dev", tempfile.gettempdir(), "/etc/hosts")  # of the machine, beside the testbed's own folder
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Nursery:
    """The daemons of one folder."""

    folder: Path

    def open(self, factor: int, root: Path | None = None) -> None:
        """Start the parent, if told within another root."""
        os.mkfifo(self.folder / "run/orders")
        clock = ["faketime", "-m", "-f", f"+0 x{factor}"] if factor != 1 else []
        with (self.folder / "log/nursery.out").open("wb") as out:
            subprocess.run(
                ["setsid", "--fork", *self._into(root), *clock, "sh", "-c", _SCRIPT, str(self.folder)],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                check=True,
            )
        wait_until("the testbed's parent process", (self.folder / "run/clock").exists, self.folder)

    @property
    def entering(self) -> tuple[str, ...]:
        """Return the words before a command that run it where the parent is."""
        pid = (self.folder / "run/parent.pid").read_text(encoding="utf-8").strip()
        return ("nsenter", f"--target={pid}", "--mount", "--root", "--wd")

    def _into(self, root: Path | None) -> list[str]:
        if root is None:
            return []
        enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, "sh"]
        return [*enter, str(root), *_SEEN, str(self.folder), "--"]

    @property
    def environment(self) -> dict[str, str]:
        """Return what daemons find in their environment: nothing of the caller's."""
        return {
            "PATH": PATH,
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
        # one that dies at once is started all the same: whoever waits for its answer learns that it is gone
        wait_until(f"the start of {name}", lambda: _has_text(pid_file), self.folder)

    def pid(self, name: str) -> int:
        """Return the process of a daemon; 0 if it does not run."""
        pid = self._written_pid(name)
        return pid if self._is_ours(pid) else 0

    def has_ended(self, name: str) -> bool:
        """Return whether the process that was started is gone; while it becomes the daemon it has no environment."""
        return not is_alive(self._written_pid(name))

    def _written_pid(self, name: str) -> int:
        try:
            return int((self.folder / f"run/{name}.pid").read_text())
        except (OSError, ValueError):
            return 0

    def stop(self, name: str, sign: signal.Signals = signal.SIGTERM) -> None:
        """Stop a daemon and wait until it is gone."""
        pid = self.pid(name)
        if pid:
            os.kill(pid, sign)
            wait_until(f"the end of {name}", lambda: self.pid(name) == 0, self.folder)

    def close(self) -> None:
        """End everything that belongs to the folder: daemons, jobs, and last the parent with its clock."""
        # a busy machine takes its time, and a run whose daemons do not end in time is a run that is lost
        wait_until("the end of the daemons", lambda: not self._kill(self.family()), self.folder)
        for pid in self._parents():
            if _program(pid) != "faketime":  # which ends by itself, and takes its shared memory with it
                _signal(pid, signal.SIGKILL)
        wait_until("the end of the parent", lambda: not self._parents(), self.folder)

    def family(self) -> set[int]:
        """Find the daemons, and what they started."""
        children: dict[int, list[int]] = {}
        for pid in _all_pids():
            children.setdefault(_parent(pid), []).append(pid)
        logs = self._logs()
        found = {pid for pid in _all_pids() if self._is_ours(pid) or _writes_to(pid, logs)} - self._parents()
        todo = list(found)
        while todo:
            fresh = [pid for pid in children.get(todo.pop(), []) if pid not in found and is_alive(pid)]
            found.update(fresh)
            todo += fresh
        return found

    def _logs(self) -> set[tuple[int, int]]:
        """Identify the log files of its nodes: newer releases start jobs with no environment and no parent of ours."""
        return {identity for path in (self.folder / "log").glob("slurmd.*.log") if (identity := _identity(path))}

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


def _has_text(file: Path) -> bool:
    return file.exists() and file.read_text(encoding="utf-8").endswith("\n")


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


def _writes_to(pid: int, files: set[tuple[int, int]]) -> bool:
    """Return whether a process has one of the files open, by whatever path it knows it."""
    try:
        return any(_identity(fd) in files for fd in Path(f"/proc/{pid}/fd").iterdir()) and is_alive(pid)
    except OSError:
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        told = path.stat()
    except OSError:
        return None
    return told.st_dev, told.st_ino


def _signal(pid: int, sign: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sign)
