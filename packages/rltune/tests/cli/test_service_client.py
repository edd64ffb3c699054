"""Why and when are answered by a service as by the core: the same lines, and one sentence where it refuses."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from serve_cases import journal_of, service
from starlette.testclient import TestClient
from typer.testing import CliRunner

from rltune.cli import app, service_client
from rltune.whatif import WhatIf

NOT_READY = []  # what the service says when it is asked, as long as there is something


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Put the service behind a port of this machine."""
    client = TestClient(service(journal_of(tmp_path_factory.mktemp("service"))))
    not_ready = NOT_READY

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.headers.get("Authorization") == "Bearer wrong":
                self.send_error(401)
                return
            if not_ready:
                self.send_response(503)
                self.send_header("Retry-After", not_ready.pop())
                self.end_headers()
                return
            answer = client.get(self.path)
            self.send_response(answer.status_code)
            self.end_headers()
            self.wfile.write(answer.content)

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = client.post(self.path, content=body, headers={"content-type": self.headers["Content-Type"]})
            self.send_response(answer.status_code)
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", client
    server.shutdown()
    server.server_close()


def invoke(*words, **environment):
    return CliRunner(env=environment).invoke(app, list(words))


def test_a_service_explains_and_forecasts(address):
    """The lines are those of the service's own answer."""
    url, client = address
    done = invoke("explain", "1", "--service", url, "--quick")
    assert done.exit_code == 0, done.output
    assert client.get("/api/v1/jobs/1/explanation").json()["sentence"] in done.output
    done = invoke("forecast", "1", "--service", url)
    assert done.exit_code == 0, done.output
    assert "p90" in done.output


def test_a_service_that_is_not_ready_is_asked_again_when_it_says(address, monkeypatch):
    """Not for ever: an hour is too long."""
    url, _ = address
    slept = []
    monkeypatch.setattr(service_client, "sleep", slept.append)
    NOT_READY[:] = ["10", "20"]
    done = invoke("forecast", "1", "--service", url)
    assert (done.exit_code, slept) == (0, [20.0, 10.0]), done.output
    NOT_READY[:] = ["3600"]
    done = invoke("forecast", "1", "--service", url)
    assert (done.exit_code, len(slept)) == (2, 2)
    assert "refused with 503" in done.output


def test_a_service_says_what_a_change_would_come_to(address):
    """The lines are those of the value that it sends."""
    url, client = address
    done = invoke("whatif", "add=2x4:p100", "--service", url)
    assert done.exit_code == 0, done.output
    plain = client.post("/api/v1/whatif", json={"changes": ["add=2x4:p100"]}).json()
    assert plain["sentence"] in done.output
    made = WhatIf.of_plain(plain)
    assert made.to_dict() == plain
    assert str(made) in done.output


def test_what_is_refused_is_said_in_a_sentence(address):
    """A job that is not there, a token that is none, an address where nobody is."""
    url, _ = address
    for words, environment, told in (
        (("explain", "77", "--service", url), {}, "does not wait here"),
        (("forecast", "77", "--service", url), {}, "does not wait here"),
        (("forecast", "--service", url), {"RLTUNE_TOKEN": "wrong"}, "set RLTUNE_TOKEN"),
        (("forecast", "--service", "http://127.0.0.1:1"), {}, "no service answers"),
        (("forecast", "--service", "head:80"), {}, "give an address"),
        (("forecast", "--service", url, "--submit", "gpus=2"), {}, "leave out --submit"),
        (("explain", "1", "--service", url, "--trace", "x", "--at", "5"), {}, "leave out --trace, --at"),
        (("explain", "all", "--service", url), {}, "one job at a time"),
        (("whatif", "add=2x4:p10", "--service", url), {}, "did you mean p100?"),
        (("whatif", "add=2x4:p100", "--service", url, "--journal", "x"), {}, "leave out --journal"),
        (("whatif", "--target", "p90 wait < 1h", "--service", url), {}, "leave out --target"),
    ):
        done = invoke(*words, **environment)
        assert done.exit_code == 2, (words, done.output)
        assert told in " ".join(done.output.split())
