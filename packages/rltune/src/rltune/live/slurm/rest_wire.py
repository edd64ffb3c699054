"""Requests to a slurmrestd: one connection and one deadline a batch, and a sentence for whatever goes wrong."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rltune.live.rest_place import RestPlace
from rltune.live.see.backend import BackendError, UnreachableError
from rltune.live.slurm.json_records import error_sentence
from rltune.live.slurm.rest_token import Token

_DENIED = frozenset({401, 403})
_LONGEST_SHOWN = 100  # characters of an answer that is no JSON


@dataclass(frozen=True)
class RestAnswer:
    """What came back; errors also come with HTTP 200."""

    status: int
    body: Mapping[str, Any]

    @property
    def error(self) -> str:
        """Return what it says was wrong, in one line; "" if nothing was."""
        told = [error_sentence(error) for error in self.body.get("errors") or ()]
        if not told and self.status >= http.client.BAD_REQUEST:
            told = [f"HTTP {self.status}"]
        return "; ".join(dict.fromkeys(filter(None, told)))

    @property
    def error_numbers(self) -> frozenset[int]:
        """Return Slurm's numbers of what was wrong."""
        errors = (error for error in self.body.get("errors") or () if isinstance(error, Mapping))
        return frozenset(int(e.get("error_number") or e.get("error_code") or 0) for e in errors) - {0}


class _Alarm(threading.Timer):
    """Hangs up when it is time. Time limits of a socket do not: a server that drips keeps within every one of them."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds, self._hang_up)
        self.daemon = True
        self.rang = False
        self._sock: socket.socket | None = None

    def watch(self, sock: socket.socket | None) -> None:
        """Know what to hang up: a connection forgets its socket when the server says that it will close."""
        self._sock = sock
        if self.rang:
            raise TimeoutError

    def _hang_up(self) -> None:
        self.rang = True
        with contextlib.suppress(OSError):
            if self._sock is not None:
                self._sock.shutdown(socket.SHUT_RDWR)


@dataclass
class RestLine:
    """An open connection."""

    place: RestPlace
    token: Token
    connection: http.client.HTTPConnection
    alarm: _Alarm

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> RestAnswer:
        """Send one request and read the answer."""
        headers = {**self.token.headers, "Accept": "application/json"}
        sent = None
        if body is not None:
            sent, headers["Content-Type"] = json.dumps(body), "application/json"
        self.connection.request(method, path, sent, headers)
        self.alarm.watch(self.connection.sock)
        response = self.connection.getresponse()
        text = response.read().decode(errors="replace")
        if self.alarm.rang:
            raise TimeoutError  # what was read was cut short
        if response.status in _DENIED:
            raise BackendError(f"slurmrestd does not accept {whose(self.place, self.token)}: HTTP {response.status}")
        if response.status == http.client.NOT_FOUND and not text.startswith("{"):
            return RestAnswer(response.status, {})
        try:
            told = json.loads(text)
            return RestAnswer(response.status, dict(told))
        except (ValueError, TypeError):
            shown = f"HTTP {response.status}: {text[:_LONGEST_SHOWN]!r}"
            raise BackendError(f"{self.place.url} did not answer as a slurmrestd does, but {shown}") from None


@contextlib.contextmanager
def line_to(place: RestPlace, token: Token, timeout_s: float) -> Iterator[RestLine]:
    """Connect; whatever takes longer than this in all, or breaks, is an UnreachableError."""
    connection, alarm = _connection(place, timeout_s), _Alarm(timeout_s)
    alarm.start()
    try:
        yield RestLine(place, token, connection, alarm)
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message
        raise BackendError(f"the certificate of {place.url} is not trusted: {why}; slurm.ca names who is") from None
    except (OSError, http.client.HTTPException) as error:
        if alarm.rang or isinstance(error, TimeoutError):
            raise UnreachableError(f"slurmrestd at {place.url} did not answer in {timeout_s:g} s") from None
        raise UnreachableError(f"slurmrestd at {place.url} does not answer: {_why(error)}") from None
    finally:
        alarm.cancel()
        connection.close()


def whose(place: RestPlace, token: Token) -> str:
    """Return how to call a token."""
    return f"the token in {place.token_file} (of user {token.user})" if token.text else "a request without a token"


def _connection(place: RestPlace, timeout_s: float) -> http.client.HTTPConnection:
    parts = place.parts
    if parts.scheme == "unix":
        return _UnixConnection(parts.path, timeout_s)
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, place.port, timeout=timeout_s)
    try:
        trusted = ssl.create_default_context(cafile=place.ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise BackendError(f"slurm.ca: {place.ca_file} cannot be used: {_why(error)}") from None
    return http.client.HTTPSConnection(host, place.port, timeout=timeout_s, context=trusted)


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")
