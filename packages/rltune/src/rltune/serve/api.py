"""The data behind the pages, for programs: `/api/v1`. Everything is read; nothing is changed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from rltune.errors import InputError, unknown
from rltune.live.see.snapshot import NOT_ENDED
from rltune.present import Why
from rltune.serve.answers import Answers
from rltune.serve.callers import EverybodysViewer, Operator, Viewer
from rltune.serve.job_rows import JobPage, JobQuery, JobRow, SortKey, job_row
from rltune.serve.kept_pages import KeptPages
from rltune.serve.live_view import stream
from rltune.serve.sight import Sight, Watch
from rltune.serve.status import EventRow, NodeState, Status, events_of, node_states, status_of
from rltune.serve.tokens import Caller
from rltune.serve.visible import find_job, find_jobs, find_row, shown_to, story_of, visible_rows

MOST_ROWS = 1000
STATES = sorted(NOT_ENDED)  # of jobs that wait or run


class Refusal(BaseModel):
    """What is wrong, in a sentence: all refusals have this shape."""

    detail: str


def _refused(**why: str) -> dict[int | str, dict[str, Any]]:
    return {int(code[1:]): {"description": text, "model": Refusal} for code, text in why.items()}


_REFUSALS = _refused(
    _401="No token, or one that nobody knows.",
    _422="A parameter that there is not, or a value that it cannot have.",
    _429="Too many requests.",
    _503="There is no cycle yet, or too many ask at once.",
)
_NOT_THERE = _refused(_404="No such job, or none that may be seen.")


async def only_known_parameters(request: Request) -> None:
    """Refuse a parameter that a path does not have: it would be without effect, unsaid."""
    described = request.app.openapi()["paths"][request.scope["route"].path_format][request.method.lower()]
    known = [one["name"] for one in described.get("parameters", ()) if one["in"] == "query"]
    for name in request.query_params:
        if name not in known:
            raise HTTPException(422, str(unknown("parameter", name, known)))


router = APIRouter(prefix="/api/v1", responses=_REFUSALS, dependencies=[Depends(only_known_parameters)])

JobId = Annotated[int, Path(ge=1, le=2**53, description="The job's number.")]
Words = Annotated[str, Query(max_length=200)]


async def watch_of(request: Request) -> Watch:
    """Return the watch over the journal."""
    watch: Watch = request.app.state.watch
    return watch


async def sight_of(request: Request) -> Sight:
    """Return the newest cycle."""
    watch: Watch = request.app.state.watch
    try:
        at_hand = watch.sight_at_hand
        return at_hand if at_hand is not None else await run_in_threadpool(watch.sight)
    except InputError as error:
        raise HTTPException(503, str(error), {"retry-after": "10"}) from None


async def answers_of(request: Request) -> Answers:
    """Return what answers why, when and what if."""
    answers: Answers = request.app.state.answers
    return answers


Answering = Annotated[Answers, Depends(answers_of)]
Newest = Annotated[Sight, Depends(sight_of)]
Watched = Annotated[Watch, Depends(watch_of)]


class StoryLine(BaseModel):
    """Something that happened to a job."""

    at_s: float
    text: str


class JobStory(BaseModel):
    """A job, also one that has ended, and all that the journal tells of it."""

    job: JobRow
    story: list[StoryLine]


@router.get("/status")
async def status(sight: Newest, watch: Watched, caller: Viewer) -> Status:  # noqa: ARG001
    """Return queue, GPUs by type and the controller's state."""
    return status_of(watch, sight)


async def query_of(
    search: Words = "",
    state: Words = "",
    user: Words = "",
    partition: Words = "",
    reason: Why | Literal[""] = "",
    sort: SortKey = "place",
    descending: bool = False,
    offset: Annotated[int, Query(ge=0, le=10**7)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 100,
) -> JobQuery:
    """Read which rows are asked for."""
    if state and state.upper() not in STATES:
        raise HTTPException(422, str(unknown("state", state, STATES)))
    return JobQuery(search, state, user, partition, reason, sort, descending, offset, limit)


Asked = Annotated[JobQuery, Depends(query_of)]


@router.get("/jobs", response_model=JobPage)
async def jobs(request: Request, sight: Newest, caller: Viewer, query: Asked) -> Response:
    """List the jobs that wait or run: searched, sorted and in pages."""
    kept: KeptPages = request.app.state.pages
    key = "api jobs", sight.cycle.id, caller, query
    text = await kept.at_hand_or_made(key, lambda: find_jobs(sight, caller, query).model_dump_json())
    return Response(text, media_type="application/json")  # as it is: checked when its rows were made


@router.get("/jobs/{job}", responses=_NOT_THERE)
def job(job: JobId, sight: Newest, watch: Watched, caller: Viewer) -> JobStory:
    """Return one job with its story."""
    with watch.journal() as journal:
        life = find_job(journal, sight, job, caller)
        lines = [] if life is None else story_of(journal, life, caller)
    if life is None:
        raise HTTPException(404, f"job {job} is not known here, or not yours")
    row = find_row(sight, job, caller) or job_row(sight, life)
    return JobStory(job=row, story=[StoryLine(at_s=line.at_s, text=line.text) for line in lines])


@router.get("/jobs/{job}/explanation", responses=_NOT_THERE)
async def explanation(
    job: JobId,
    sight: Newest,
    answers: Answering,
    caller: Viewer,
    changes: Annotated[bool, Query(description="Also try which change of the request would start it sooner.")] = False,
) -> dict[str, Any]:
    """Return why a job waits: one dominant reason with its evidence, the others, and what would start it."""
    row = find_row(sight, job, caller)
    if row is None or row.state != "PENDING":
        raise HTTPException(404, f"job {job} does not wait here, or is not yours")
    waiting = sight.snapshot.job_by_id[job]
    try:
        told = await answers.aside(lambda: answers.explain(waiting, caller, changes=changes))
    except InputError as error:
        raise HTTPException(404, str(error)) from None
    return told.to_dict()


@router.get("/forecast", responses=_NOT_THERE)
async def starts(
    sight: Newest,
    answers: Answering,
    caller: Viewer,
    job: Annotated[str, Query(max_length=100, description="One job alone, as Slurm's commands name it.")] = "",
) -> dict[str, Any]:
    """Forecast when the waiting jobs will start: p10, p50 and p90, by rolling the core forward.

    `drawn_s` is when futures were drawn, `now_s` the cycle that they are told for: jobs that have started by then are
    left out, and so are futures that did not come. `outlasted` jobs wait longer than in all that were drawn.
    """
    if job and job not in _names_seen(sight, caller):
        raise HTTPException(404, f"job {job} does not wait here, or is not yours")
    try:
        made = await answers.forecast_aside(job)
    except TimeoutError:
        raise HTTPException(503, "the first forecast is being made; ask again", {"retry-after": "10"}) from None
    if made is None:
        raise HTTPException(503, "too many jobs wait for a forecast here; ask `rltune forecast`")
    told, seen = made.to_dict(), {job} if job else _names_seen(sight, caller)
    jobs = [one for one in told["jobs"] if one["job"] in seen]
    return told | {"jobs": jobs, "outlasted": [name for name in told["outlasted"] if name in seen]}


def _names_seen(sight: Sight, caller: Caller) -> set[str]:
    """Name the jobs that a caller may see as Slurm's commands do."""
    jobs = sight.snapshot.job_by_id
    return {jobs[row.id].command_name for row in visible_rows(sight, caller)}


class Question(BaseModel):
    """Changes as `rltune whatif` takes them."""

    changes: Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(min_length=1, max_length=10)]


@router.post(
    "/whatif",
    responses=_refused(_400="A change that is not understood.", _403="Not an operator."),
)
async def what_if(question: Question, answers: Answering, sight: Newest, caller: Operator) -> dict[str, Any]:  # noqa: ARG001
    """Roll the present queue with some changes and without; it takes seconds, and an operator's token."""
    made = await answers.aside(lambda: answers.what_if(question.changes))
    return shown_to(made, caller).to_dict()


@router.get("/nodes")
def nodes(sight: Newest, caller: Viewer) -> list[NodeState]:
    """List the nodes with what is used of them."""
    return node_states(sight, caller)


@router.get("/events", responses=_refused(_403="A token for one user's jobs: events tell of others."))
def events(
    watch: Watched,
    caller: EverybodysViewer,  # noqa: ARG001
    before: Annotated[int, Query(ge=0, le=2**53, description="Events older than this one; 0 = the newest.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 100,
) -> list[EventRow]:
    """List trips, stops, verdicts and the like, newest first."""
    with watch.journal() as journal:
        return events_of(journal, before, limit)


@router.get("/settings", responses=_refused(_403="Not an operator."))
def settings(sight: Newest, caller: Operator) -> dict[str, Any]:  # noqa: ARG001
    """Return how the controller is set."""
    return sight.settings.model_dump(mode="json")


@router.get("/stream", response_class=StreamingResponse)
async def live(request: Request, watch: Watched, caller: Viewer) -> StreamingResponse:  # noqa: ARG001
    """Send every new cycle as it comes, as server-sent events."""
    gate = request.app.state.streams
    if gate.full:
        raise HTTPException(503, "too many live views; reload the page by hand", {"retry-after": "30"})
    return StreamingResponse(stream(watch, gate), media_type="text/event-stream")
