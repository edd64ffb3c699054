"""Server-sent events: a line whenever a new cycle is in the journal, so that open pages know."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from rltune.errors import InputError
from rltune.serve.sight import Watch

_LOOK_EVERY_S = 1.0
_ALIVE_EVERY_S = 15.0  # a proxy drops a connection on which nothing is said


@dataclass
class StreamGate:
    """Counts the live views that are open."""

    most: int
    open: int = 0
    closing: bool = False  # the service ends: it would wait for ever for views that stay open

    @property
    def full(self) -> bool:
        """Return whether there is room for no more."""
        return self.open >= self.most


async def stream(watch: Watch, gate: StreamGate) -> AsyncIterator[str]:
    """Send each new cycle until the reader is gone; the first at once."""
    gate.open += 1
    try:
        told, silent_s = -1, 0.0
        yield "retry: 5000\n\n"
        while not gate.closing:
            newest = await run_in_threadpool(watch.newest)
            if newest != told and newest:
                told, silent_s = newest, 0.0
                yield await run_in_threadpool(_told, watch)
            elif silent_s >= _ALIVE_EVERY_S:
                silent_s = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(_LOOK_EVERY_S)
            silent_s += _LOOK_EVERY_S
    finally:
        gate.open -= 1


def _told(watch: Watch) -> str:
    try:
        sight = watch.sight()
    except InputError:  # pruned between the two looks
        return ": nothing yet\n\n"
    data = {
        "cycle": sight.cycle.id,
        "taken_s": sight.taken_s,
        "waiting": sight.cycle.waiting,
        "running": sight.cycle.running,
    }
    return f"event: cycle\nid: {sight.cycle.id}\ndata: {json.dumps(data)}\n\n"
