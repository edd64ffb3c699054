import threading
from collections import Counter

import hypothesis
import pytest
import schemathesis
from hypothesis import given
from live_cases import NOW, MemoryCluster, job, running, settings, snapshot
from schemathesis.specs.openapi.checks import positive_data_acceptance
from serve_cases import HOSTILE, journal_of, service
from starlette.testclient import TestClient

from rltune.explain import Explainer
from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.live.present_of_slurm import present_of_cycle
from rltune.serve import answers
from rltune.serve.guard_rails import RequestLimits
from rltune.serve.tokens import Role, Tokens, new_token

MANY = RequestLimits(per_s=1e6, burst=10**6)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return journal_of(tmp_path_factory.mktemp("journal"))


@pytest.fixture
def client(path):
    with TestClient(service(path, limits=MANY)) as client:
        yield client


def _tokens(folder, **callers):
    """Make tokens; each caller is a role and a user."""
    made = {name: new_token(name, *what) for name, what in callers.items()}
    file = folder / "tokens.toml"
    file.write_text("".join(lines for _, lines in made.values()))
    file.chmod(0o600)
    return Tokens.read(file), {name: {"authorization": f"Bearer {token}"} for name, (token, _) in made.items()}


def test_status_counts_jobs_and_gpus_as_the_cluster_has_them(client):
    status = client.get("/api/v1/status").json()
    assert (status["waiting"], status["running"], status["mode"]) == (4, 2, "shadow")
    assert status["gpus"] == [
        {"gpu_type": "p100", "total": 8, "used": 7, "free": 1, "fragmented": 1, "down": 0, "most_on_a_node": 1}
    ]
    assert sum(status["reasons"].values()) == 4


def test_jobs_are_found_sorted_and_cut_into_pages(client):
    everything = client.get("/api/v1/jobs").json()
    assert everything["total"] == 6
    assert {row["id"] for row in everything["jobs"]} == {100, 101, 1, 2, 3, 4}
    assert [r["id"] for r in client.get("/api/v1/jobs?search=LARGE").json()["jobs"]] == [3]
    by_gpus = client.get("/api/v1/jobs?sort=gpus&descending=true").json()["jobs"]
    assert [row["gpus"] for row in by_gpus] == sorted((row["gpus"] for row in by_gpus), reverse=True)
    pages = [client.get(f"/api/v1/jobs?limit=4&offset={at}").json()["jobs"] for at in (0, 4)]
    assert [row["id"] for page in pages for row in page] == [row["id"] for row in everything["jobs"]]


def test_a_waiting_job_has_its_reason_place_and_wait(client):
    row = client.get("/api/v1/jobs/3").json()["job"]
    assert row["reason"]
    assert row["rank"] >= 1
    assert row["wait_s"] == pytest.approx(1000.0 - 3)
    assert row["start_s"] is None


def test_a_job_that_nobody_knows_is_not_found(client):
    assert client.get("/api/v1/jobs/999").status_code == 404
    assert client.get("/api/v1/jobs/0").status_code == 422


def test_without_a_token_nothing_is_told_where_tokens_are_asked_for(path, tmp_path):
    tokens, of = _tokens(tmp_path, one=(Role.VIEWER, ""))
    with TestClient(service(path, tokens=tokens)) as client:
        for address in ("/api/v1/status", "/api/v1/jobs", "/api/v1/nodes", "/api/v1/stream", "/metrics"):
            assert client.get(address).status_code == 401
            assert client.get(address, headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.get("/", follow_redirects=False).headers["location"] == "/login"
        assert client.get("/api/v1/status", headers=of["one"]).status_code == 200


def test_a_viewer_of_one_user_sees_no_job_of_another_anywhere(path, tmp_path):
    tokens, of = _tokens(tmp_path, ann=(Role.VIEWER, "ann"))
    with TestClient(service(path, tokens=tokens, limits=MANY), headers=of["ann"]) as client:
        assert {row["user"] for row in client.get("/api/v1/jobs").json()["jobs"]} == {"ann"}
        assert client.get("/api/v1/jobs/1").status_code == 404
        nodes = client.get("/api/v1/nodes").json()
        assert [node["jobs"] for node in nodes] == [[100], []]
        for page in ("/", "/jobs", "/timeline", "/controller"):
            text = client.get(page).text
            assert "bob" not in text
            assert "alert(1)" not in text
        assert client.get("/jobs/1").status_code == 404


def test_a_page_that_is_kept_is_nobody_elses(path, tmp_path):
    """Whoever asks first, in one service and one cycle: each is shown their own, and without a token nothing is."""
    tokens, of = _tokens(
        tmp_path, ann=(Role.VIEWER, "ann"), bob=(Role.VIEWER, "bob"), all=(Role.VIEWER, ""), boss=(Role.OPERATOR, "")
    )
    pages = ("/", "/jobs", "/jobs?search=bob", "/jobs?sort=wait", "/timeline", "/api/v1/jobs", "/api/v1/jobs?user=bob")
    with TestClient(service(path, tokens=tokens, limits=MANY)) as client:
        first = {(who, page): client.get(page, headers=of[who]).text for who in ("boss", "all") for page in pages}
        assert "bob" in first["boss", "/jobs"]
        for _ in range(2):
            for page in pages:
                shown = client.get(page, headers=of["ann"]).text.replace("search=bob", "").replace('value="bob"', "")
                assert "bob" not in shown, page
                assert client.get(page, headers=of["all"]).text == first["all", page]
                assert client.get(page, headers=of["boss"]).text == first["boss", page]
                assert "ann" not in client.get(page, headers=of["bob"]).text, page
        for page in pages:
            answer = client.get(page, follow_redirects=False)
            assert answer.status_code in {303, 401}
        assert ", operator" in first["boss", "/"]
        assert ", operator" not in first["all", "/"]


def test_a_number_that_is_used_again_tells_its_new_owner_nothing_of_the_job_before(tmp_path):
    """Neither of one that ran and ended nor of one that was cancelled before it ran; the newest job is shown."""
    path = tmp_path / "journal.db"
    controller = Controller(MemoryCluster(snapshot(())), Journal.create(path), settings(mode="shadow"))

    def look(at_s, *jobs):
        controller.backend.now = snapshot(jobs, at=at_s)
        controller.cycle()

    bobs = {"user": "bob", "name": "bobs-secret", "submit_s": NOW - 50}
    look(NOW, running(7, "n0", 4, ran_s=10, **bobs), job(8, **bobs))
    look(NOW + 60, job(7, state="COMPLETED", start_s=NOW - 10, end_s=NOW + 30, **bobs))
    look(NOW + 120, job(7, user="ann", submit_s=NOW + 100), job(8, user="ann", submit_s=NOW + 100))
    tokens, of = _tokens(tmp_path, ann=(Role.VIEWER, "ann"), bob=(Role.VIEWER, "bob"), any=(Role.VIEWER, ""))
    with TestClient(service(path, tokens=tokens, limits=MANY)) as client:
        for number in (7, 8):
            for who in ("ann", "any"):
                told = client.get(f"/api/v1/jobs/{number}", headers=of[who]).json()
                assert told["job"]["user"] == "ann"
                assert len(told["story"]) == 1
                assert "secret" not in client.get(f"/jobs/{number}", headers=of[who]).text
            assert client.get(f"/api/v1/jobs/{number}", headers=of["bob"]).status_code == 404
    look(NOW + 180)  # both were cancelled, and Slurm shows them no more
    with TestClient(service(path, tokens=tokens, limits=MANY)) as client:
        assert client.get("/api/v1/jobs/7", headers=of["bob"]).status_code == 404
        assert len(client.get("/api/v1/jobs/7", headers=of["ann"]).json()["story"]) == 1
        assert "It is gone" in client.get("/jobs/7", headers=of["ann"]).text


def test_an_ended_job_has_a_page_that_says_how_it_went(tmp_path):
    done = job(7, 2, state="COMPLETED", submit_s=NOW - 900, start_s=NOW - 600, end_s=NOW - 60, node_names=("n0",))
    never = job(8, state="CANCELLED", submit_s=NOW - 900, end_s=NOW - 300)
    with TestClient(service(journal_of(tmp_path, (done, never)), limits=MANY)) as client:
        row = client.get("/api/v1/jobs/7").json()["job"]
        assert (row["state"], row["wait_s"], row["end_s"]) == ("COMPLETED", 300.0, NOW - 60)
        assert "it waited 5.0 min and ran for 9.0 min on n0" in client.get("/jobs/7").text
        page = client.get("/jobs/8").text
        assert "It never ran: cancelled" in page
        assert "nan" not in page


def test_settings_are_for_operators(path, tmp_path):
    tokens, of = _tokens(tmp_path, looks=(Role.VIEWER, ""), runs=(Role.OPERATOR, ""))
    with TestClient(service(path, tokens=tokens)) as client:
        assert client.get("/api/v1/settings", headers=of["looks"]).status_code == 403
        assert client.get("/api/v1/settings", headers=of["runs"]).json()["mode"] == "shadow"


def test_open_to_this_machine_means_by_this_machines_names(client):
    assert client.get("/api/v1/status", headers={"host": "evil.example"}).status_code == 400


def test_an_empty_journal_says_that_there_is_no_cycle_yet(tmp_path):
    empty = tmp_path / "journal.db"
    Journal.create(empty).close()
    with TestClient(service(empty)) as client:
        answer = client.get("/api/v1/status")
        assert answer.status_code == 503
        assert "no cycle yet" in answer.json()["detail"]
        assert client.get("/").status_code == 503
        assert client.get("/metrics").status_code == 200


def test_a_new_cycle_is_told_to_open_pages(path):
    import asyncio

    from rltune.serve.live_view import StreamGate, stream
    from rltune.serve.sight import Watch

    async def first_two():
        gate = StreamGate(3)
        told = stream(Watch(path), gate)
        lines = [await anext(told), await anext(told)]
        assert gate.open == 1
        await told.aclose()
        return lines, gate.open

    lines, still_open = asyncio.run(first_two())
    assert lines[1].startswith("event: cycle\nid: 1\ndata: {")
    assert still_open == 0


def test_pages_show_a_hostile_name_as_text(client):
    for page in ("/jobs", "/jobs/1", "/timeline"):
        text = client.get(page).text
        assert HOSTILE not in text
        assert "&lt;script&gt;alert(1)" in text
        assert "49" not in text.partition("alert(1)")[2][:60]


def test_metrics_count_by_reason_and_type_and_their_histogram_adds_up(client):
    text = client.get("/metrics").text
    assert 'rltune_gpus{gpu_type="p100",state="fragmented"} 1.0' in text
    assert 'rltune_pending_age_seconds_bucket{le="+Inf",partition="gpu"} 3.0' in text
    assert 'rltune_pending_age_seconds_bucket{le="60.0",partition="gpu"} 0.0' in text
    assert 'rltune_jobs_pending{gpu_type="any",partition="gpu",reason="hold"} 1.0' in text
    pending = [line for line in text.splitlines() if line.startswith("rltune_jobs_pending{")]
    assert sum(float(line.rpartition(" ")[2]) for line in pending) == 4


def test_reasons_are_of_the_same_kinds_and_words_everywhere(path, client):
    """In the list of jobs, in the explanation of each, in the counts of status and metrics, on pages and in the CLI."""
    rows = {row["id"]: row for row in client.get("/api/v1/jobs?state=pending").json()["jobs"]}
    explainer = Explainer(present_of_cycle(Journal.read(path)))
    for number, row in rows.items():
        told = client.get(f"/api/v1/jobs/{number}/explanation").json()["reason"]
        assert told["why"] == row["why"] == explainer.reason(str(number)).why
        assert told["text"].startswith(row["reason"])
        assert {r["id"] for r in client.get(f"/api/v1/jobs?reason={row['why']}").json()["jobs"]} >= {number}
    counts = Counter(row["why"] for row in rows.values())
    assert client.get("/api/v1/status").json()["reasons"] == counts
    metrics, overview = client.get("/metrics").text, client.get("/").text
    for why, count in counts.items():
        lines = [line for line in metrics.splitlines() if f'reason="{why}"' in line]
        assert sum(float(line.rpartition(" ")[2]) for line in lines) == count
        assert why in overview
    assert client.get("/api/v1/jobs?reason=no+such+reason").status_code == 422


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("jobs?state=PENDNG", "no state 'PENDNG'; did you mean PENDING? there are: COMPLETING, CONFIGURING, PENDING"),
        ("jobs?stat=PENDING", "no parameter 'stat'; did you mean state? there are: search, state, user"),
        ("jobs?limit=5&sort=size", "sort: Input should be 'place', 'rank'"),
        (
            "jobs?limit=x&offset=-1",
            "offset: Input should be greater than or equal to 0; limit: Input should be a valid",
        ),
        ("status?verbose=1", "no parameter 'verbose'; there is none"),
        ("forecast?jobs=3", "did you mean job?"),
        ("jobs/0", "job: Input should be greater than or equal to 1"),
    ],
)
def test_what_is_asked_wrongly_is_a_sentence_with_the_choices(client, address, told):
    """Never ignored, and of the same shape whoever finds it."""
    answer = client.get(f"/api/v1/{address}")
    assert answer.status_code == 422
    assert told in answer.json()["detail"]
    refusals = client.get("/openapi.json").json()["paths"]
    shapes = {
        str(found["content"]["application/json"]["schema"])
        for path in refusals.values()
        for method in path.values()
        for code, found in method["responses"].items()
        if code.startswith(("4", "5"))
    }
    assert shapes == {"{'$ref': '#/components/schemas/Refusal'}"}


def test_an_explanation_names_one_reason_and_says_nothing_of_others_to_who_may_not_see_them(path, tmp_path, client):
    told = client.get("/api/v1/jobs/3/explanation?changes=true").json()
    assert told["reason"]["text"]
    assert told["next_step"]
    assert client.get("/api/v1/jobs/100/explanation").status_code == 404
    tokens, of = _tokens(tmp_path, ann=(Role.VIEWER, "ann"))
    with TestClient(service(path, tokens=tokens), headers=of["ann"]) as hers:
        assert hers.get("/api/v1/jobs/1/explanation").status_code == 404
        assert hers.get("/api/v1/jobs/3/explanation").json()["ahead"] == []
        assert {one["job"] for one in hers.get("/api/v1/forecast").json()["jobs"]} <= {"2", "3"}


def test_what_a_job_depends_on_is_told_by_number_to_everybody_but_who_may_not_see_it(tmp_path):
    jobs = [running(7, "n0", 4, user="bob"), job(8, 1, dependency="afterok:7(unfulfilled)", reason="Dependency")]
    tokens, of = _tokens(tmp_path, ann=(Role.VIEWER, "ann"), all=(Role.VIEWER, ""))
    with TestClient(service(journal_of(tmp_path, jobs), tokens=tokens)) as client:
        told = {who: client.get("/api/v1/jobs/8/explanation", headers=of[who]).json()["sentence"] for who in of}
    assert "(job 7 runs, at most until" in told["all"]
    assert "(a job of another user runs, at most until" in told["ann"]


def test_a_page_waits_for_no_forecast_that_takes_long(path, monkeypatch):
    """Why is answered while when is worked out, and the page says so; the next look has both."""
    slow, done = threading.Event(), threading.Event()
    drawn = answers.DrawnFutures.draw

    def draw(*args, **more):
        slow.wait(60)
        try:
            return drawn(*args, **more)
        finally:
            done.set()

    monkeypatch.setattr(answers.DrawnFutures, "draw", draw)
    monkeypatch.setattr(answers, "PATIENCE_S", 0.01)
    with TestClient(service(path, limits=MANY)) as client:
        page = client.get("/jobs/3").text
        assert "A forecast is being made" in page
        assert client.get("/api/v1/jobs/3/explanation").status_code == 200
        slow.set()
        assert done.wait(60)
        client.get("/api/v1/forecast")
        assert "A forecast is being made" not in client.get("/jobs/3").text


def test_a_forecast_is_in_order_and_not_in_the_past(client):
    made = client.get("/api/v1/forecast").json()
    assert made["jobs"]
    for one in made["jobs"]:
        times = [one["p10_s"], one["p50_s"], one["p90_s"]]
        known = [time for time in times if time is not None]
        assert known == sorted(known)
        assert all(time >= made["now_s"] for time in known)


def test_what_if_is_for_operators_and_a_wrong_change_is_a_sentence(path, tmp_path):
    tokens, of = _tokens(tmp_path, looks=(Role.VIEWER, ""), runs=(Role.OPERATOR, ""))
    with TestClient(service(path, tokens=tokens, limits=MANY)) as client:
        more = {"changes": ["add=2x4:p100"]}
        assert client.post("/api/v1/whatif", json=more).status_code == 401
        assert client.post("/api/v1/whatif", json=more, headers=of["looks"]).status_code == 403
        answer = client.post("/api/v1/whatif", json=more, headers=of["runs"]).json()
        assert answer["then_s"]["mean"] <= answer["now_s"]["mean"]
        wrong = client.post("/api/v1/whatif", json={"changes": ["wish=luck"]}, headers=of["runs"])
        assert wrong.status_code == 400
        assert "not understood" in wrong.json()["detail"]
        page = client.post("/whatif", data={"changes": "wish=luck"}, headers=of["runs"])
        assert page.status_code == 400
        assert "not understood" in page.text


def test_no_request_makes_the_service_fail_or_answer_otherwise_than_its_schema_says(path):
    schema = schemathesis.openapi.from_asgi("/openapi.json", service(path, limits=MANY))
    operations = [found.ok() for found in schema.exclude(path="/api/v1/stream").get_all_operations()]
    assert len(operations) >= 6

    for operation in operations:

        @hypothesis.settings(max_examples=20, deadline=None, database=None)
        @given(case=operation.as_strategy())
        def answers(case):
            case.call_and_validate(excluded_checks=[positive_data_acceptance])  # no schema knows what a change is

        answers()


def test_the_clusters_clock_is_what_is_shown(client):
    assert client.get("/api/v1/status").json()["taken_s"] == NOW
