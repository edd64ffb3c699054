from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from rltune.serve.guard_rails import Limited, RequestLimits, SafeHeaders


class HandClock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


async def _echo(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


def _client(limits, clock):
    app = Starlette(routes=[Route("/", _echo, methods=["GET", "POST"])])
    app.add_middleware(Limited, limits=limits, clock=clock)
    app.add_middleware(SafeHeaders)
    return TestClient(app, raise_server_exceptions=False)


def test_who_asks_too_often_is_told_to_wait_and_may_ask_again_later():
    clock = HandClock()
    client = _client(RequestLimits(per_s=1.0, burst=3), clock)
    assert [client.get("/").status_code for _ in range(4)] == [200, 200, 200, 429]
    assert int(client.get("/").headers["retry-after"]) >= 1
    clock.now += 2.0
    assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]


def test_a_large_body_is_refused_whether_or_not_its_length_is_told():
    client = _client(RequestLimits(body_bytes=100), HandClock())
    assert client.post("/", content=b"x" * 100).text == "100"
    assert client.post("/", content=b"x" * 101).status_code == 413
    untold = client.post("/", content=iter([b"x" * 60, b"x" * 60]))
    assert untold.status_code >= 400


def test_every_answer_has_the_headers_also_a_refusal():
    client = _client(RequestLimits(per_s=1.0, burst=1), HandClock())
    for answer in (client.get("/"), client.get("/")):
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
