"""What stands before every request: headers that keep a browser honest, and limits that keep the service alive."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rltune.serve.request_token import token_of
from rltune.serve.tokens import Tokens

_HEADERS = {
    # Scripts and styles are files of ours, never text in a page: a job's name that slipped through could do nothing.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_MOST_CLIENTS = 10_000  # remembered at once


class SafeHeaders:
    """Put the headers on every answer; what people see of jobs is kept in no cache."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with headers."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self.app(scope, receive, with_headers)


@dataclass(frozen=True)
class RequestLimits:
    """How much one client, and all of them together, may ask."""

    per_s: float = 100.0  # requests of one client in the long run,
    burst: int = 200  # and at once
    patience_s: float = 2.0  # for which a request beyond that is kept waiting; a later one is refused
    at_once: int = 200  # of all clients
    body_bytes: int = 64 * 1024
    streams: int = 100  # of live views


@dataclass
class _Buckets:
    """Tokens of each client, filled as time goes by; the longest silent ones are forgotten first."""

    limits: RequestLimits
    clock: Callable[[], float]
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def wait_s(self, client: str) -> float:
        """Take one request's worth; return for how long it has to wait, which takes it only within patience."""
        now, most = self.clock(), float(self.limits.burst)
        left, at = self._left.pop(client, (most, now))
        left = min(most, left + (now - at) * self.limits.per_s)
        wait_s = max(0.0, (1.0 - left) / self.limits.per_s)
        self._left[client] = (left - 1.0 if wait_s <= self.limits.patience_s else left, now)
        while len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
        return wait_s


class Limited:
    """Keep back, then refuse what is too much: too often, too many at once, too large.

    A client is a token's caller where tokens are known, so that people behind one proxy do not count as one; everybody
    else is an address.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: RequestLimits,
        tokens: Tokens | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.app, self.limits, self._tokens, self._pause = app, limits, tokens, pause
        self._buckets = _Buckets(limits, clock)
        self._at_once = asyncio.Semaphore(limits.at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say that it was too much."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        wait_s = self._buckets.wait_s(self._client(scope))
        if wait_s > self.limits.patience_s:
            retry = {"retry-after": str(max(1, round(wait_s + 0.5)))}
            await _refuse(429, "too many requests; wait a little", retry)(scope, receive, send)
            return
        if wait_s:
            await self._pause(wait_s)
        if _told_length(scope) > self.limits.body_bytes:
            await _too_large(self.limits)(scope, receive, send)
        elif self._at_once.locked():
            await _refuse(503, "too many requests at once; try again", {"retry-after": "1"})(scope, receive, send)
        else:
            async with self._at_once:
                await self.app(scope, _bounded(receive, self.limits.body_bytes), send)

    def _client(self, scope: Scope) -> str:
        caller = self._tokens.caller(token_of(HTTPConnection(scope))) if self._tokens else None
        return f"token {caller.name}" if caller else str((scope.get("client") or ("?", 0))[0])


class TooLargeError(Exception):
    """More came than was told, or than is taken."""


def _bounded(receive: Receive, most: int) -> Receive:
    """Count what really comes: a client need not say how much it will be."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise TooLargeError
        return message

    return counted


def _told_length(scope: Scope) -> int:
    told = Headers(scope=scope).get("content-length", "0")
    return int(told) if told.isdigit() else 0


def _too_large(limits: RequestLimits) -> JSONResponse:
    return _refuse(413, f"a request may hold {limits.body_bytes} bytes")


def _refuse(status: int, why: str, headers: dict[str, Any] | None = None) -> JSONResponse:
    return JSONResponse({"detail": why}, status, headers)
