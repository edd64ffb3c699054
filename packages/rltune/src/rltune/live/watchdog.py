"""What systemd is told: that the controller is ready, and again and again that it lives. One plain socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

_MICRO = 1_000_000


@dataclass
class Watchdog:
    """Beats only when the controller gets somewhere, so that one that hangs is missed; silent without a systemd."""

    address: str = ""
    timeout_s: float = 0.0  # after which the controller is taken for dead; 0 = nobody watches
    _ready: bool = False

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Watchdog:
        """Return the one that a service's environment names."""
        watched = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        try:
            timeout_s = int(environment.get("WATCHDOG_USEC", "0")) / _MICRO if watched else 0.0
        except ValueError:
            timeout_s = 0.0
        return cls(environment.get("NOTIFY_SOCKET", ""), timeout_s)

    @property
    def every_s(self) -> float:
        """Return how long the controller may wait between two beats."""
        return self.timeout_s / 2 if self.timeout_s else float("inf")

    def ready(self) -> None:
        """Report once that the start is over: from here on it is watched."""
        if not self._ready:
            self._ready = True
            self._send("READY=1")

    def beat(self, status: str = "") -> None:
        """Report that it lives, and in a sentence what it does."""
        self._send("WATCHDOG=1" + (f"\nSTATUS={' '.join(status.split())}" if status else ""))

    def stopping(self) -> None:
        """Report that it is about to end."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self.address:
            return
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
            sending.setblocking(False)  # systemd's own trouble must not become ours
            sending.sendto(text.encode(), address)
