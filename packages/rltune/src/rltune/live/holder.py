"""Which controller this is, and whether another one still lives.

Nothing of a machine is unique by itself: a number of a process is used again, containers and cloned machines share
host names, and process 1 of one container is not that of another. So a controller draws a token at its start. Another
one's process is looked for only where it is certain that it would be seen; elsewhere, and of a process that hangs,
silence tells.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from contextlib import suppress
from pathlib import Path

from rltune.live.see.record_text import Holder, Lock

_STATE, _BORN = 0, 19  # places in /proc/PID/stat, counted after the name
_SAME_BOOT_S = 0.5  # by which the time of one start of a machine, asked for twice, may differ
_MACHINE_ID = Path("/etc/machine-id")


def this_process() -> Holder:
    """Return who we are, to be known by on every machine of the cluster; no two calls are the same one."""
    pid = os.getpid()
    _, born = _told_of(pid)
    return Holder(socket.gethostname(), pid, born, _space(), _machine(), _booted_s(), secrets.token_hex(8))


def why_dead(lock: Lock, now_s: float, me: Holder) -> str:
    """Return how it is known that the holder of a lock does not act any more; "" if it may."""
    if lock.holder.token and lock.holder.token == me.token:
        return "it is our own"
    gone = _why_gone(lock.holder) if _same_place(lock.holder, me) else ""
    return gone or _why_silent(lock, now_s)


def _same_place(one: Holder, other: Holder) -> bool:
    """Return whether processes of the one can be seen from the other: one start of one machine, one numbering.

    What is not told is not the same.
    """
    machine = one.machine == other.machine if one.machine and other.machine else one.host == other.host
    told = bool(one.space and one.booted_s)
    return told and machine and one.space == other.space and abs(one.booted_s - other.booted_s) < _SAME_BOOT_S


def _why_gone(holder: Holder) -> str:
    """Return how it is seen that a process of this place has ended; "" if it runs, or is hidden from us."""
    state, born = _told_of(holder.pid)
    if not state:
        return "" if _is_there(holder.pid) else f"{holder} is gone"
    if state in "ZX":
        return f"{holder} has ended"
    return f"{holder} is another one by now" if holder.born and born != holder.born else ""


def _why_silent(lock: Lock, now_s: float) -> str:
    """Return since when a holder has not been heard of, if that is too long; it may hang, or be on another machine.

    Clocks of machines that share munge differ by less than five minutes, or no command would work, and a lease is
    longer. A time ahead of ours by more than that is of a clock that was wrong: whoever lives writes it anew.
    """
    silent_s = now_s - lock.renewed_s
    if silent_s > lock.lease_s:
        return f"{lock.holder} has not been heard of for {silent_s:.0f} s, and would be every {lock.lease_s / 4:.0f} s"
    if -silent_s > lock.lease_s:
        return f"{lock.holder} was last heard of in {-silent_s:.0f} s from now, by a clock that was wrong"
    return ""


def _told_of(pid: int) -> tuple[str, int]:
    """Return the state of a process and when it started, in ticks; "" and 0 if there is none, or it is hidden."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return told[_STATE], int(told[_BORN])
    except (OSError, IndexError, ValueError):
        return "", 0


def _is_there(pid: int) -> bool:
    """Return whether there is such a process; those of other accounts may be hidden from our eyes, not from signals."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _space() -> str:
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def _machine() -> str:
    with suppress(OSError):
        return _MACHINE_ID.read_text(encoding="utf-8").strip()
    return ""


def _booted_s() -> float:
    """Return when this machine started. A service may not see the kernel's own name of it (ProcSubset=pid)."""
    return round(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME), 1)
