"""Pages for people: rendered here, so that they work without scripts; scripts only keep them fresh."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from rltune.errors import InputError
from rltune.explain import Explanation
from rltune.forecast import Forecast
from rltune.live.journal.store import Journal
from rltune.serve.answers import MOST_FORECAST, Answers
from rltune.serve.api import Answering, Asked, JobId, Newest, Watched
from rltune.serve.callers import Operator, Viewer, find_caller
from rltune.serve.job_rows import JobQuery, JobRow, RowChoices, job_row
from rltune.serve.job_timeline import timeline
from rltune.serve.kept_pages import KeptPages
from rltune.serve.last_day import queue_chart, use_chart
from rltune.serve.look import asset, render
from rltune.serve.node_map import node_map
from rltune.serve.own_history import FEWEST, OwnHistory
from rltune.serve.policy_tables import policy_tables, told_ratio
from rltune.serve.request_token import COOKIE
from rltune.serve.sight import Sight, Watch
from rltune.serve.status import EventRow, news_of, status_of
from rltune.serve.tokens import Caller
from rltune.serve.training_runs import shipped_cards, training_runs
from rltune.serve.visible import find_job, find_jobs, find_row, shown_to, story_of, visible_rows
from rltune.serve.whatif_runs import WhatIfRun, WhatIfRuns
from rltune.whatif import WhatIf

MOST_CHANGES = 10
MOST_EVENTS = 5  # on the overview
MOST_TOLD = 100  # on the controller's page
OLD_S = 300.0  # since the last look that a comparison has, by the cluster's clock: then the page says so
OVERVIEW = "overview"  # under which its content is kept
_YEAR_S = 365 * 86_400
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/")
async def overview(request: Request, sight: Newest, watch: Watched, caller: Viewer) -> Response:
    """Show queue, GPUs and nodes, rendered once a cycle for all who look, and the newest events.

    Those come without a cycle, too: that Slurm is out of reach, or that the controller has ended.
    """

    def made() -> str:
        content = Markup(overview_content(watch, sight))  # noqa: S704  rendered by us
        events = _asked(watch, caller, lambda journal: news_of(journal, MOST_EVENTS))
        return page_text(request, caller, "overview.html.j2", sight=sight, content=content, events=events)

    return await kept_page(request, (OVERVIEW, sight.cycle.id, caller, watch.newest_event()), made)


def overview_content(watch: Watch, sight: Sight) -> str:
    """Render what of the overview is the same for all, and for as long as its cycle is the newest."""

    def made() -> str:
        with watch.journal() as journal:
            values: dict[str, Any] = {"queue": queue_chart(journal), "use": use_chart(journal, sight)}
        return render("overview_content.html.j2", status=status_of(watch, sight), nodes=node_map(sight), **values)

    return watch.once_a_cycle(OVERVIEW, sight, made)


def _asked(watch: Watch, caller: Caller, ask: Callable[[Journal], list[EventRow]]) -> list[EventRow]:
    """Return events; they may tell of anybody's jobs, so not to who sees one user's."""
    if caller.user:
        return []
    with watch.journal() as journal:
        return ask(journal)


@router.get("/jobs")
async def job_list(request: Request, sight: Newest, caller: Viewer, query: Asked) -> Response:
    """Show the jobs that wait or run."""

    def made() -> str:
        found = find_jobs(sight, caller, query)
        values: dict[str, Any] = {"found": found, "query": query, "links": _links(query, found.total)}
        values["choices"] = RowChoices.of(visible_rows(sight, caller)) if caller.user else sight.choices
        return page_text(request, caller, "jobs.html.j2", sight=sight, **values)

    return await kept_page(request, ("jobs", sight.cycle.id, caller, query), made)


@router.get("/jobs/{job}")
async def one_job(
    request: Request,
    job: JobId,
    sight: Newest,
    watch: Watched,
    answers: Answering,
    caller: Viewer,
    changes: bool = False,
) -> Response:
    """Show one job: why it waits, when it starts, what happened to it; `changes`: what would start it sooner.

    Trying changes takes up to seconds, so that the page comes first and its script asks for them after.
    """
    values = await answers.aside(lambda: _job_values(watch, sight, answers, job, caller, changes=changes))
    record = request.app.state.follower.record
    return page(request, caller, "job.html.j2", sight=sight, record=record, most_forecast=MOST_FORECAST, **values)


def _job_values(
    watch: Watch, sight: Sight, answers: Answers, job: int, caller: Caller, *, changes: bool
) -> dict[str, Any]:
    with watch.journal() as journal:
        life = find_job(journal, sight, job, caller)
        lines = [] if life is None else story_of(journal, life, caller)
    if life is None:
        raise HTTPException(404, f"Job {job} is not known here, or not yours.")
    row = find_row(sight, job, caller) or job_row(sight, life)
    why, made = _why_and_forecast(answers, sight, row, caller, changes=changes)
    waiting = sight.snapshot.job_by_id[row.id].command_name if why else ""
    when = made.by_job.get(waiting) if made else None
    gone = life.id not in sight.row_by_id
    told: dict[str, Any] = {"row": row, "part": sight.part(job), "story": lines, "why": why, "when": when}
    told |= {"forecast_s": made.drawn_s if made else None, "outlasted": made is not None and waiting in made.outlasted}
    told |= {"forecasting": when is None and not told["outlasted"] and answers.is_forecasting}
    return {**told, "gone": gone, "tried": changes}


def _why_and_forecast(
    answers: Answers, sight: Sight, row: JobRow, caller: Caller, *, changes: bool
) -> tuple[Explanation | None, Forecast | None]:
    """Ask the core about a waiting job; of one that has just started there is nothing to tell."""
    waiting = sight.snapshot.job_by_id.get(row.id)
    if waiting is None or not waiting.pending:
        return None, None
    try:
        why = answers.explain(waiting, caller, changes=changes)
    except InputError:  # it started between the two looks
        return None, None
    return why, answers.forecast_at_hand()


@router.get("/whatif")
def what_if_form(
    request: Request,
    sight: Newest,
    caller: Viewer,
    changes: Annotated[str, Query(max_length=1000)] = "",
    run: Annotated[str, Query(max_length=40)] = "",
) -> Response:
    """Show the form, filled in as a link says; or how far a question is, then its answer."""
    if not run:
        return _what_if_page(request, sight, caller, asked=changes)
    found = _runs(request).find(run, caller)
    if found is None:
        return _what_if_page(request, sight, caller, asked=changes, why_not="This answer is no longer kept: ask again.")
    asked = "\n".join(found.changes)
    if found.error:
        return _what_if_page(request, sight, caller, asked=asked, why_not=found.error)
    answer = None if found.answer is None else shown_to(found.answer, caller)
    return _what_if_page(request, sight, caller, asked=asked, answer=answer, run=found)


@router.post("/whatif")
def what_if_ask(
    request: Request, sight: Newest, caller: Operator, changes: Annotated[str, Form(max_length=1000)]
) -> Response:
    """Begin to roll the queue with the changes and without, one change a line."""
    asked = [line.strip() for line in changes.splitlines() if line.strip()][:MOST_CHANGES]
    try:
        number = _runs(request).begin(asked, caller)
    except InputError as error:
        return _what_if_page(request, sight, caller, asked=changes, why_not=str(error))
    return RedirectResponse(f"/whatif?run={number}", 303)


def _runs(request: Request) -> WhatIfRuns:
    runs: WhatIfRuns = request.app.state.whatif_runs
    return runs


def _what_if_page(
    request: Request,
    sight: Sight,
    caller: Caller,
    *,
    asked: str,
    answer: WhatIf | None = None,
    run: WhatIfRun | None = None,
    why_not: str = "",
) -> Response:
    types = sorted(
        (kind, max(n.gpus for n in sight.snapshot.nodes if n.gpu_type == kind)) for kind in sight.gpus_by_type
    )
    values: dict[str, Any] = {"asked": asked, "answer": answer, "run": run, "why_not": why_not, "types": types}
    values["backfill"] = sight.explained.backfill
    values["past"] = list(_of_the_past(request, asked)) if answer else []
    status = 400 if why_not else 200
    return page(request, caller, "whatif.html.j2", sight=sight, status_code=status, **values)


def _of_the_past(request: Request, asked: str) -> Iterator[str]:
    """Return what each policy that was asked about would have done for the jobs seen here, where that is known."""
    history: OwnHistory = request.app.state.history
    for line in asked.splitlines():
        kind, _, value = line.partition("=")
        order = history.at_hand().order(value.partition("+")[0].strip()) if kind.strip() == "pipeline" else None
        if order is not None and (told := told_ratio(order.ratio)):
            what = f"the mean wait in the order of {order.name}, filled as Slurm does"
            yield f"Over the jobs seen here, {what}, is {told}"


@router.get("/timeline")
async def gantt(request: Request, sight: Newest, watch: Watched, answers: Answering, caller: Viewer) -> Response:
    """Show when jobs waited, ran and are expected to."""
    wait = answers.would_make_one
    forecast = await run_in_threadpool(answers.forecast_at_hand) if wait else answers.forecast_at_hand()

    def made() -> str:
        with watch.journal() as journal:
            drawn = timeline(journal, sight, caller, forecast)
        return page_text(request, caller, "timeline.html.j2", sight=sight, drawn=drawn, forecast=forecast)

    return await kept_page(
        request, ("timeline", sight.cycle.id, caller, forecast and (forecast.now_s, forecast.drawn_s)), made
    )


@router.get("/policies")
def policies(request: Request, sight: Newest, caller: Viewer) -> Response:
    """Show policies compared on the jobs that ended here."""
    history: OwnHistory = request.app.state.history
    compared = history.newest()
    report = compared.report
    tables = policy_tables(compared, report) if report else None
    age_s = sight.taken_s - report.end_s if report else 0.0
    values: dict[str, Any] = {"compared": compared, "tables": tables, "fewest": FEWEST}
    return page(request, caller, "policies.html.j2", sight=sight, age_s=age_s if age_s > OLD_S else 0.0, **values)


@router.get("/training")
def training(request: Request, sight: Newest, caller: Viewer) -> Response:
    """Show how trainings went, and what models are at hand."""
    folder: Path | None = request.app.state.training
    runs = training_runs(folder) if folder else ()
    values: dict[str, Any] = {"runs": runs, "folder": folder.name if folder else "", "shipped": shipped_cards()}
    return page(request, caller, "training.html.j2", sight=sight, **values)


@router.get("/controller")
def controller(request: Request, sight: Newest, watch: Watched, caller: Viewer) -> Response:
    """Show how the controller is set, and what happened to it."""
    events = _asked(watch, caller, lambda journal: news_of(journal, MOST_TOLD, calls=True))
    settings = list(_flat(sight.settings.model_dump(mode="json"))) if caller.is_operator else None
    values: dict[str, Any] = {"status": status_of(watch, sight), "events": events, "settings": settings}
    values["record"] = request.app.state.follower.record
    return page(request, caller, "controller.html.j2", sight=sight, **values)


def _flat(plain: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting with its sections before it."""
    for key, value in plain.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)


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
    """Return a page."""
    return HTMLResponse(page_text(request, caller, template, **values), status_code)


def page_text(request: Request, caller: Caller | None, template: str, **values: Any) -> str:
    """Render a page with what every page has."""
    return render(template, caller=caller, path=request.url.path, demo=request.app.state.demo, **values)


async def kept_page(request: Request, key: Hashable, make: Callable[[], str]) -> Response:
    """Return a page that is rendered once for all who ask for the same."""
    kept: KeptPages = request.app.state.pages
    return HTMLResponse(await kept.at_hand_or_made(key, make))


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
        "sort": {key: turned(key) for key in ("place", "rank", "id", "user", "partition", "gpus", "wait")},
        "before": address(offset=max(0, before)) if query.offset > 0 else "",
        "after": address(offset=after) if after < total else "",
    }
