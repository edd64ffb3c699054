"""Find out who asks: by a bearer token, by the cookie that a browser got for one, or by being on this machine."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Request

from rltune.serve.request_token import token_of
from rltune.serve.tokens import NOBODY_ASKED, Caller, Tokens

_ASK = {"www-authenticate": "Bearer"}

# What requests depend on is asynchronous here and in api.py: else each would be handed to a thread and back.


def find_caller(request: Request) -> Caller | None:
    """Return who asks; None if nobody knows them."""
    tokens: Tokens | None = request.app.state.tokens
    return NOBODY_ASKED if tokens is None else tokens.caller(token_of(request))


async def viewer(request: Request) -> Caller:
    """Return who asks, if they may look."""
    caller = find_caller(request)
    if caller is None:
        raise HTTPException(401, "a bearer token is needed; ask who runs this service", _ASK)
    return caller


async def operator(request: Request) -> Caller:
    """Return who asks, if they may ask for what costs something."""
    caller = await viewer(request)
    if not caller.is_operator:
        raise HTTPException(403, "this needs a token of role operator")
    return caller


async def everybodys_viewer(request: Request) -> Caller:
    """Return who asks, if they may see everybody's jobs."""
    caller = await viewer(request)
    if caller.user:
        raise HTTPException(403, f"this token sees only what is of {caller.user}")
    return caller


Viewer = Annotated[Caller, Depends(viewer)]
Operator = Annotated[Caller, Depends(operator)]
EverybodysViewer = Annotated[Caller, Depends(everybodys_viewer)]
