"""The way from a controller's commands to slurmctld, which can be cut: bytes go in, and nothing comes out."""

from __future__ import annotations

import contextlib
import socket
import threading


class Wire:
    """Passes connections on to a port of this machine, as long as it is not cut."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._cut = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._live: set[socket.socket] = set()
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        """Let nothing pass any more; connections stay open, so that whoever asks waits for an answer."""
        self._cut.set()

    def mend(self) -> None:
        """Let all pass again; connections of before are hung up."""
        self._cut.clear()
        for one in tuple(self._live):
            _hang_up(one)

    def close(self) -> None:
        """End it."""
        _hang_up(self._listener)
        self.mend()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            self._live.add(caller)
            threading.Thread(target=self._pass_on, args=(caller,), daemon=True).start()

    def _pass_on(self, caller: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._to_port))
        except OSError:
            self._live.discard(caller)
            _hang_up(caller)
            return
        self._live.add(server)
        back = threading.Thread(target=self._copy, args=(server, caller), daemon=True)
        back.start()
        self._copy(caller, server)
        back.join()
        for one in (caller, server):
            self._live.discard(one)
            one.close()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self._cut.is_set():
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def _hang_up(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
