"""Pages for people: rendered here, so that they work without scripts; scripts only keep them fresh."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from rltune.errors import InputError
from rltune.explain import Explanation
from rltune.live.see.snapshot import PENDING
from rltune.serve.answers import Answers
from rltune.serve.api import Answering, Asked, JobId, Newest, Watched, find_row, story_of
from rltune.serve.callers import COOKIE, Operator, Viewer, find_caller
from rltune.serve.job_rows import JobQuery, JobRow, page_of, visible_rows
from rltune.serve.job_timeline import timeline
from rltune.serve.look import asset, render
from rltune.serve.queue_chart import queue_chart
from rltune.serve.status import events_of, node_states, status_of
from rltune.serve.tokens import Caller

PAGE_ROWS = 100
_YEAR_S = 365 * 86_400
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/")
def overview(request: Request, sight: Newest, watch: Watched, caller: Viewer) -> Response:
    """Show queue, GPUs and nodes."""
    with watch.journal() as journal:
        chart = queue_chart(journal)
        events = events_of(journal, 0, 5)
    values: dict[str, Any] = {
        "status": status_of(sight),
        "nodes": node_states(sight, caller),
        "chart": chart,
        "events": events,
    }
    return page(request, caller, "overview.html.j2", sight=sight, **values)


@router.get("/jobs")
def jobs(request: Request, sight: Newest, caller: Viewer, query: Asked) -> Response:
    """Show the jobs that wait or run."""
    rows = visible_rows(sight, caller)
    found = page_of(sight, rows, query)
    choices: dict[str, Any] = {
        "states": sorted({row.state for row in rows}),
        "partitions": sorted({name for row in rows for name in row.partition.split(",")}),
    }
    links = _links(query, found.total)
    return page(request, caller, "jobs.html.j2", sight=sight, found=found, query=query, links=links, **choices)


@router.get("/jobs/{job}")
def one_job(
    request: Request, job: JobId, sight: Newest, watch: Watched, answers: Answering, caller: Viewer
) -> Response:
    """Show one job: why it waits, when it starts, what happened to it."""
    row = find_row(sight, job, caller)
    lines = story_of(watch, job) if row or not caller.user else []
    if row is None and not lines:
        raise HTTPException(404, f"Job {job} is not known here, or not yours.")
    why, when = _why_and_when(answers, row, caller)
    values: dict[str, Any] = {"row": row, "part": sight.part(job), "story": lines, "why": why, "when": when}
    return page(request, caller, "job.html.j2", sight=sight, job=job, **values)


def _why_and_when(answers: Answers, row: JobRow | None, caller: Caller) -> tuple[Explanation | None, Any]:
    """Ask the core about a waiting job; a job that has just started, or is left to Slurm, has no forecast."""
    if row is None or row.state != PENDING:
        return None, None
    try:
        why = answers.explain(row.id, changes=True)
    except InputError:  # it started between the two looks
        return None, None
    made = answers.forecast()
    if caller.user:
        why = replace(why, ahead=(), overtaken_by=())
    return why, made.by_job.get(str(row.id)) if made else None


@router.get("/whatif")
def what_if_form(request: Request, sight: Newest, caller: Viewer) -> Response:
    """Show the form."""
    return page(request, caller, "whatif.html.j2", sight=sight, asked="", answer=None, why_not="")


@router.post("/whatif")
def what_if_answer(
    request: Request,
    sight: Newest,
    answers: Answering,
    caller: Operator,
    changes: Annotated[str, Form(max_length=1000)],
) -> Response:
    """Roll the queue with the changes and without, one change a line."""
    asked = [line.strip() for line in changes.splitlines() if line.strip()][:10]
    answer, why_not = None, ""
    try:
        answer = answers.what_if(asked)
    except InputError as error:
        why_not = str(error)
    values: dict[str, Any] = {"asked": changes, "answer": answer, "why_not": why_not}
    return page(request, caller, "whatif.html.j2", sight=sight, status_code=400 if why_not else 200, **values)


@router.get("/timeline")
def gantt(request: Request, sight: Newest, watch: Watched, caller: Viewer) -> Response:
    """Show when jobs waited, ran and are expected to."""
    with watch.journal() as journal:
        drawn = timeline(journal, sight, caller)
    return page(request, caller, "timeline.html.j2", sight=sight, drawn=drawn)


@router.get("/controller")
def controller(request: Request, sight: Newest, watch: Watched, caller: Viewer) -> Response:
    """Show how the controller is set, and what happened to it."""
    with watch.journal() as journal:
        events = events_of(journal, 0, 100)
    settings = sight.settings.model_dump(mode="json") if caller.is_operator else None
    values: dict[str, Any] = {"status": status_of(sight), "events": events, "settings": settings}
    return page(request, caller, "controller.html.j2", sight=sight, **values)


@router.get("/login")
def login(request: Request) -> Response:
    """Ask for a token."""
    return page(request, None, "login.html.j2", wrong=False)


@router.post("/login")
def enter(request: Request, token: Annotated[str, Form(max_length=200)]) -> Response:
    """Keep the token in a cookie that no script can read and no other site can use."""
    tokens = request.app.state.tokens
    if tokens is not None and tokens.caller(token.strip()) is None:
        return page(request, None, "login.html.j2", wrong=True, status_code=401)
    answer = RedirectResponse("/", 303)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, token.strip(), max_age=_YEAR_S, httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/logout")
def leave() -> Response:
    """Forget the token."""
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE)
    return answer


@router.get("/assets/{name}")
def assets(name: str) -> Response:
    """Return a file that pages are made with."""
    body = asset(name)
    if body is None:
        raise HTTPException(404, "there is no such file")
    return Response(body, media_type=_KINDS[PurePosixPath(name).suffix], headers={"cache-control": "max-age=3600"})


def page(
    request: Request, caller: Caller | None, template: str, *, status_code: int = 200, **values: Any
) -> HTMLResponse:
    """Render a page with what every page has."""
    text = render(template, caller=caller, path=request.url.path, demo=request.app.state.demo, **values)
    return HTMLResponse(text, status_code)


def refused(request: Request, status: int, why: str) -> Response:
    """Show why a page is not there; who has no token is asked for one."""
    if status == 401:
        return RedirectResponse("/login", 303)
    return page(request, find_caller(request), "refused.html.j2", status=status, why=why, status_code=status)


def _links(query: JobQuery, total: int) -> dict[str, Any]:
    """Return the addresses of neighbouring pages, and of each order."""
    kept = {name: getattr(query, name) for name in ("search", "state", "user", "partition", "reason")}
    plain = {name: value for name, value in kept.items() if value}

    def address(**changed: Any) -> str:
        order = {"sort": query.sort, "descending": str(query.descending).lower()}
        return f"/jobs?{urlencode({**plain, **order, 'limit': query.limit, **changed})}"

    def turned(key: str) -> str:
        return address(sort=key, descending=str(query.sort == key and not query.descending).lower())

    before, after = query.offset - query.limit, query.offset + query.limit
    return {
        "sort": {key: turned(key) for key in ("rank", "id", "user", "partition", "gpus", "wait")},
        "before": address(offset=max(0, before)) if query.offset > 0 else "",
        "after": address(offset=after) if after < total else "",
    }
