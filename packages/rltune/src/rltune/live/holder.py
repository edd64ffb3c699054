"""Which process this is, and whether another one still lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from rltune.live.see.record_text import Holder, Lock

_BORN = 19  # the place of the start time in /proc/PID/stat, counted after the name


def this_process() -> Holder:
    """Return who we are, to be known by on every machine of the cluster."""
    return Holder(socket.gethostname(), os.getpid(), _born(os.getpid()) or 0, _space())


def why_dead(lock: Lock, now_s: float, me: Holder) -> str:
    """Return how it is known that the holder of a lock is dead; "" if it may live.

    On this machine the process is looked for. Of another one only its silence tells: clocks of machines that share
    munge differ by less than five minutes, or no command would work, and a lease is longer.
    """
    holder = lock.holder
    if holder == me:
        return "it is an earlier one of this process"
    if (holder.host, holder.space) == (me.host, me.space):
        born = _born(holder.pid)
        if born is None:
            return f"{holder} is gone"
        return f"{holder} is another one by now" if holder.born and born != holder.born else ""
    silent_s = now_s - lock.renewed_s
    if silent_s > lock.lease_s:
        return f"{holder} has not been heard of for {silent_s:.0f} s, and would be every {lock.lease_s / 4:.0f} s"
    return ""


def _born(pid: int) -> int | None:
    """Return when a process started, in ticks; None if there is none, or it is another account's and hidden."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(told.rpartition(")")[2].split()[_BORN])
    except (OSError, IndexError, ValueError):
        return None


def _space() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
