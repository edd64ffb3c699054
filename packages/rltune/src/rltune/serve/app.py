"""The service put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from rltune.errors import InputError
from rltune.serve import api, pages
from rltune.serve.answers import Answers
from rltune.serve.callers import Viewer
from rltune.serve.cluster_metrics import WAIT_BUCKETS_S, metrics_text
from rltune.serve.follower import Follower
from rltune.serve.guard_rails import Limited, RequestLimits, SafeHeaders, TooLargeError
from rltune.serve.kept_pages import KeptPages
from rltune.serve.live_view import StreamGate
from rltune.serve.own_history import OwnHistory
from rltune.serve.sight import Watch
from rltune.serve.tokens import Tokens
from rltune.serve.whatif_runs import WhatIfRuns
from rltune.version import __version__

THREADS = 6  # that render: more would only take turns at the interpreter, and everybody would be late
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]", "testserver")


@dataclass(frozen=True)
class ServeSettings:
    """How the service behaves."""

    tokens: Tokens | None = None  # None: whoever can reach the port may look
    limits: RequestLimits = field(default_factory=RequestLimits)
    wait_buckets_s: Sequence[float] = WAIT_BUCKETS_S
    demo: bool = False
    training: Path | None = None  # a folder of models and of the curves of their trainings
    follow: bool = False  # count over cycles, and make forecasts to see how often they hold


def make_app(watch: Watch, settings: ServeSettings | None = None) -> FastAPI:
    """Put the service together around a journal."""
    how = settings or ServeSettings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        if how.follow:
            app.state.follower.begin()
        yield
        await to_thread.run_sync(app.state.follower.stop)
        app.state.whatif_runs.close()
        watch.close()

    app = FastAPI(
        title="rltune",
        version=__version__,
        description="What waits on this cluster, why, and since when. Everything is read; nothing is changed.",
        docs_url=None,  # its page loads scripts from elsewhere; the schema is at /openapi.json
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.watch, app.state.tokens, app.state.demo = watch, how.tokens, how.demo
    app.state.answers, app.state.pages = Answers(watch), KeptPages()
    app.state.follower = Follower(
        watch,
        app.state.answers,
        how.wait_buckets_s,
        forecasts=how.follow,
        prepare=lambda sight: pages.overview_content(watch, sight),
    )
    app.state.history, app.state.training = OwnHistory(watch), how.training
    app.state.whatif_runs = WhatIfRuns(app.state.answers)
    app.state.streams = StreamGate(how.limits.streams)
    app.include_router(api.router)
    app.include_router(pages.router)
    _add_metrics(app, how)
    _add_refusals(app)
    app.add_middleware(Limited, limits=how.limits, tokens=how.tokens)
    if how.tokens is None:
        # A page from elsewhere could make its own name point to this machine, and have a browser here ask.
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(_LOOPBACK))
    app.add_middleware(SafeHeaders)
    return app


def _add_metrics(app: FastAPI, how: ServeSettings) -> None:
    @app.get("/metrics", include_in_schema=False)
    def metrics(caller: Viewer) -> Response:  # noqa: ARG001
        app.state.follower.look()
        text = metrics_text(app.state.watch, how.wait_buckets_s, app.state.follower.registry)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_refusals(app: FastAPI) -> None:
    """Answer what was wrong: to programs as JSON, to people as a page."""

    def answer(request: Request, status: int, why: str, headers: dict[str, str] | None = None) -> Response:
        if _is_page(request):
            return pages.refused(request, status, why)
        return JSONResponse({"detail": why}, status, headers)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        return answer(request, error.status_code, str(error.detail), dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def misread(request: Request, error: RequestValidationError) -> Response:
        wrong = [f"{'.'.join(map(str, one['loc'][1:])) or one['loc'][0]}: {one['msg']}" for one in error.errors()]
        return answer(request, 422, "; ".join(wrong))

    @app.exception_handler(InputError)
    async def mistaken(request: Request, error: InputError) -> Response:
        return answer(request, 400, str(error))

    @app.exception_handler(TooLargeError)
    async def too_large(request: Request, error: TooLargeError) -> Response:  # noqa: ARG001
        return answer(request, 413, "the request is too large")


def _is_page(request: Request) -> bool:
    path = request.url.path
    return not path.startswith(("/api/", "/metrics", "/assets/", "/openapi.json"))
