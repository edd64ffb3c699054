"""The ports of a testbed, held from the look for them until its daemons listen, so that no other testbed takes them."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

from rltune.errors import InputError

_PORTS = range(12000, 32000)  # below those that the kernel gives to clients


@contextlib.contextmanager
def held_ports(count: int, first: int | None = None) -> Iterator[range]:
    """Hold so many ports in a row, from a given one or wherever there are some, while daemons take them over."""
    with ExitStack() as held:
        yield _hold_any(count, held) if first is None else _hold_these(range(first, first + count), held)


def _hold_these(ports: range, held: ExitStack) -> range:
    # A testbed that has just gone down leaves its connections in the kernel for a minute: they keep nobody out.
    taken = _hold(ports, held, may_share=True)
    if taken is not None:
        raise InputError(f"port {taken} is in use; the testbed needs {ports[0]} to {ports[-1]}: give another --port")
    return ports


def _hold_any(count: int, held: ExitStack) -> range:
    """Look for a row of free ports; where to look first differs between processes."""
    blocks = len(_PORTS) // count
    for step in range(blocks):
        first = _PORTS[(os.getpid() + step) * 7 % blocks * count]
        ports = range(first, first + count)
        with ExitStack() as these:
            if _hold(ports, these, may_share=False) is None:
                held.push(these.pop_all())
                return ports
    raise InputError(f"no {count} free ports in a row between {_PORTS[0]} and {_PORTS[-1]}")


def _hold(ports: range, held: ExitStack, *, may_share: bool) -> int | None:
    """Bind all of the ports; return the first that is taken, None if none is."""
    for port in ports:
        holder = held.enter_context(socket.socket())
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, may_share)
        try:
            holder.bind(("127.0.0.1", port))
        except OSError:
            return port
        # Bound without this option nobody else got the port; with it, a daemon may listen while it is still held.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return None
