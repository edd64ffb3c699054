"""A server that ends when it is told to, though browsers hold live views open."""

from __future__ import annotations

from types import FrameType

import uvicorn

from rltune.serve.live_view import StreamGate


class _EndingServer(uvicorn.Server):
    gate: StreamGate

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.gate.closing = True
        super().handle_exit(sig, frame)


def ending_server(config: uvicorn.Config, gate: StreamGate) -> uvicorn.Server:
    """Return a server that closes the live views of a gate when a signal ends it."""
    server = _EndingServer(config)
    server.gate = gate
    return server
