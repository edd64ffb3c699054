"""The token that comes with a request."""

from __future__ import annotations

from starlette.requests import HTTPConnection

COOKIE = "rltune_token"
_BEARER = "bearer "


def token_of(request: HTTPConnection) -> str:
    """Return the token that came with a request, in a header or in a browser's cookie, or ""."""
    told = request.headers.get("authorization", "")
    if told.lower().startswith(_BEARER):
        return told[len(_BEARER) :].strip()
    return request.cookies.get(COOKIE, "")
