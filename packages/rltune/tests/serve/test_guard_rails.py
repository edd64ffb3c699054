from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from rltune.serve.guard_rails import Limited, RequestLimits, SafeHeaders
from rltune.serve.tokens import Caller, Role, Tokens, digest, new_token


class HandClock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


async def _echo(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


def _client(limits, clock, **more):
    app = Starlette(routes=[Route("/", _echo, methods=["GET", "POST"])])
    app.add_middleware(Limited, limits=limits, clock=clock, **more)
    app.add_middleware(SafeHeaders)
    return TestClient(app, raise_server_exceptions=False)


def test_who_asks_too_often_is_told_to_wait_and_may_ask_again_later():
    clock = HandClock()
    client = _client(RequestLimits(per_s=1.0, burst=3, patience_s=0.0), clock)
    assert [client.get("/").status_code for _ in range(4)] == [200, 200, 200, 429]
    assert int(client.get("/").headers["retry-after"]) >= 1
    clock.now += 2.0
    assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]


def test_a_little_too_much_is_kept_waiting_and_more_is_refused():
    paused = []

    async def pause(seconds):
        paused.append(seconds)

    client = _client(RequestLimits(per_s=1.0, burst=1, patience_s=2.0), HandClock(), pause=pause)
    assert [client.get("/").status_code for _ in range(5)] == [200, 200, 200, 429, 429]
    assert paused == [1.0, 2.0]


def test_callers_with_tokens_do_not_share_what_one_address_may_ask():
    made = {name: new_token(name, Role.VIEWER, "")[0] for name in ("ann", "bob")}
    tokens = Tokens({digest(token): Caller(name, Role.VIEWER) for name, token in made.items()})
    client = _client(RequestLimits(per_s=1.0, burst=1, patience_s=0.0), HandClock(), tokens=tokens)

    def status(token):
        return client.get("/", headers={"authorization": f"Bearer {token}"}).status_code

    assert [status(made["ann"]), status(made["bob"]), status(made["ann"])] == [200, 200, 429]
    assert [status("nobody's"), status("nor this")] == [200, 429]


def test_a_large_body_is_refused_whether_or_not_its_length_is_told():
    client = _client(RequestLimits(body_bytes=100), HandClock())
    assert client.post("/", content=b"x" * 100).text == "100"
    assert client.post("/", content=b"x" * 101).status_code == 413
    untold = client.post("/", content=iter([b"x" * 60, b"x" * 60]))
    assert untold.status_code >= 400


def test_every_answer_has_the_headers_also_a_refusal():
    client = _client(RequestLimits(per_s=1.0, burst=1, patience_s=0.0), HandClock())
    for answer in (client.get("/"), client.get("/")):
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
