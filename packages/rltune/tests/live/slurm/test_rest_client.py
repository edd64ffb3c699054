"""Slurm through its slurmrestd: the same look, the same changes, and a sentence for whatever goes wrong on the way."""

import base64
import http.server
import json
import ssl
import subprocess
import threading
import time
from dataclasses import fields, replace

import pytest
from real_slurm import require_rest

from rltune.errors import InputError
from rltune.live.rest_place import RestPlace
from rltune.live.see.backend import Backend, BackendError, Change, ChangeKind, UnreachableError
from rltune.live.see.snapshot import Lever
from rltune.live.slurm.rest_client import SlurmRest
from rltune.live.slurm.rest_dialect import RestDialect, dialect_offered

K80 = {"gpus": 2, "gpu_type": "k80"}
LEVER = {"site_factor", "other_factors", "priority_by_hand", "nice"}  # read from what slurmrestd tells


@pytest.fixture
def bed(testbed_of_any_release):
    """All K80s are taken, and jobs of all kinds wait for them."""
    bed = testbed_of_any_release
    require_rest(bed)
    holder = bed.submit(600, **K80, nodes=2, limit_min=60)
    bed.wait_for("a start", lambda: bed.job(holder)["job_state"] == "RUNNING")
    return bed


def same(one, other, *but):
    """Return whether two values are the same in all fields; NaN is NaN."""
    differing = [f.name for f in fields(one) if f.name not in but]
    return [n for n in differing if getattr(one, n) != getattr(other, n) and getattr(one, n) == getattr(one, n)] == []


def test_a_look_shows_what_the_commands_show(bed):
    """Jobs, nodes, partitions and reservations; only what a priority is made of is read from Nice."""
    bed.submit(600, "--exclusive", "--mem-per-gpu=3G", **K80, limit_min=45)
    bed.submit(600, "--array=1-9:2%3", "--hold", **K80)
    nice = bed.submit(600, "--nice=20", "--exclude=k80-1", "--begin=now+3600", **K80, limit_min=30)
    when = ("StartTime=now+3600", "Duration=60", "Users=root", "Flags=MAINT")
    bed.run("scontrol", "create", "reservation", "ReservationName=fan", "Nodes=m40-1", *when)
    rest = bed.rest_backend()
    assert isinstance(rest, Backend)
    bed.wait_for("the same second", lambda: _agree(bed.backend().observe(), rest.observe()))
    seen = rest.observe()
    assert (seen.lever, seen.caution, len(seen.reservations)) == (Lever.NICE, "", 1)
    assert (seen.job_by_id[nice].site_factor, seen.job_by_id[nice].nice) == (-20, 0)
    assert rest.calls["jobs"] == rest.calls["nodes"]
    assert bed.rest_backend(bed.rest_socket).observe().version == seen.version


def _agree(by_commands, by_rest):
    """Return whether two looks agree; Slurm's forecasts may change between them."""
    jobs = [(job, by_rest.job_by_id[job.id]) for job in by_commands.jobs]
    nodes = zip(*(sorted(look.nodes, key=lambda n: n.name) for look in (by_commands, by_rest)), strict=True)
    others = [*zip(by_commands.partitions, by_rest.partitions, strict=True)]
    others += zip(by_commands.reservations, by_rest.reservations, strict=True)
    assert by_commands.mem_counts == by_rest.mem_counts
    return all(same(a, b, *LEVER) for a, b in jobs) and all(same(a, b) for a, b in [*nodes, *others])


def test_changes_are_carried_by_nice_and_each_has_its_outcome(bed):
    """One that fails does not stop the others; arrays are changed as a whole; all of it can be taken back."""
    jobs = [bed.submit(600, **K80, limit_min=minutes) for minutes in (50, 40)]
    array = bed.submit(600, "--array=1-9%2", **K80, limit_min=20)
    rest = bed.rest_backend()
    ref = rest.observe().job_by_id[array].ref
    lifts = [Change(job, ChangeKind.SITE_FACTOR, 700 + job) for job in jobs]
    changes = [*lifts, Change(999_999, ChangeKind.SITE_FACTOR, 5), Change(array, ChangeKind.SITE_FACTOR, 90, ref=ref)]
    assert [outcome.done for outcome in rest.apply(changes)] == [True, True, False, True]
    assert {job: parts.site for job, parts in rest.priorities().items()} == {
        jobs[0]: 700 + jobs[0],
        jobs[1]: 700 + jobs[1],
        array: 90,
    }
    assert bed.backend().observe().job_by_id[jobs[0]].nice == -700 - jobs[0]
    back = [replace(change, value=0) for change in changes if change.job < 999_999]
    assert all(outcome.done for outcome in rest.apply(back))
    assert {job.nice for job in bed.backend().observe().pending} == {0}
    told = rest.apply([Change(jobs[0], ChangeKind.PRIORITY, 5)])
    assert "cannot change priority" in told[0].error
    assert rest.commands(lifts[:1]) == (f"scontrol update JobId={jobs[0]} Nice={-700 - jobs[0]}",)


def test_node_lists_where_the_release_takes_them(bed):
    """22.05 calls the key disabled; later ones change and clear it."""
    job = bed.submit(600, **K80, limit_min=50)
    rest = bed.rest_backend()
    change = Change(job, ChangeKind.EXCLUDE_NODES, nodes=("k80-1", "p100-2"))
    if change.kind in rest.cannot():
        assert not rest.apply([change])[0].done
        return
    assert rest.apply([change])[0].done
    assert rest.observe().job_by_id[job].excluded_nodes == ("k80-1", "p100-2")
    assert rest.apply([replace(change, nodes=())])[0].done
    assert rest.observe().job_by_id[job].excluded_nodes == ()


def test_a_priority_set_by_hand_is_known_after_the_first_write(bed):
    """Slurm answers that all is well and does nothing: the job is a human's, until its priority changes."""
    job = bed.submit(600, **K80, limit_min=50)
    bed.run("scontrol", "update", f"JobId={job}", "Priority=7777")
    rest = bed.rest_backend()
    assert rest.observe().job_by_id[job].priority_by_hand is None
    assert rest.apply([Change(job, ChangeKind.SITE_FACTOR, 30)])[0].done
    assert rest.priorities()[job].by_hand
    assert rest.observe().job_by_id[job].priority_by_hand
    bed.run("scontrol", "release", str(job))
    assert rest.observe().job_by_id[job].priority_by_hand is None


def test_records_are_kept_and_cancelled(bed):
    """Held jobs with a text of up to 1,024 characters."""
    rest = bed.rest_backend()
    job = rest.open_record("rltune/1;lock;host=a%20b", "gpu")
    (record,) = rest.observe().records
    assert (record.id, record.user, record.text) == (job, rest.user(), "rltune/1;lock;host=a%20b")
    rest.write_records({job: "rltune/1;" + "x" * 1015})
    assert [len(one.text) for one in bed.backend().observe().records] == [1024]
    with pytest.raises(BackendError, match="did not take the record"):
        rest.write_records({999_999: "rltune/1;"})
    rest.close_records([job])
    rest.close_records([job, 999_999])
    assert rest.observe().records == ()


@pytest.fixture
def reached(testbed_of_any_release):
    require_rest(testbed_of_any_release)
    return testbed_of_any_release


@pytest.fixture
def own(testbed):
    """The machine's own release, where all behave alike."""
    require_rest(testbed)
    return testbed


def with_token(bed, tmp_path, text):
    (tmp_path / "token").write_text(text)
    return SlurmRest(RestPlace(bed.rest, str(tmp_path / "token")))


def test_a_token_that_slurm_does_not_accept_is_named(reached, tmp_path):
    """Slurm says the same of a slurmctld that is down, so both are named; nothing is shown of the token."""
    good = reached.token_file.read_text().strip()
    forged = with_token(reached, tmp_path, good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBB"))
    for ask in (forged.observe, lambda: forged.apply([Change(1, ChangeKind.SITE_FACTOR, 5)])):
        with pytest.raises(BackendError, match=r"does not accept the token in \S+/token \(of user root\)") as error:
            ask()
        assert good[-20:-4] not in str(error.value)


def test_a_token_that_has_expired_says_when_and_how_to_make_one(own, tmp_path):
    """Before slurmrestd is asked, whose own answer does not tell."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 1_700_000_000, "sun": "ann"}).encode()).decode().rstrip("=")
    expired = with_token(own, tmp_path, f"SLURM_JWT=head.{claims}.sign")
    with pytest.raises(BackendError, match=r"expired at 2023-11-14T22:13:20\+00:00; `scontrol token username=ann"):
        expired.observe()
    assert not expired.calls


@pytest.mark.parametrize(
    ("text", "said"),
    [("rubbish", "holds no JSON web token"), ("a.e30.b", "names no user"), (None, "cannot be read: .*No such file")],
)
def test_what_is_no_token_is_said(own, tmp_path, text, said):
    """A wrong file, one without a user, none."""
    place = RestPlace(own.rest, str(tmp_path / "token"))
    if text is not None:
        (tmp_path / "token").write_text(text)
    with pytest.raises(BackendError, match=said):
        SlurmRest(place).observe()


def test_a_new_token_is_taken_without_a_restart_and_an_old_one_is_warned_of(own, tmp_path):
    """In its last minutes a caution makes a controller let go while it still can give back."""
    (tmp_path / "token").write_text(own.run("scontrol", "token", "username=root", "lifespan=300"))
    rest = SlurmRest(RestPlace(own.rest, str(tmp_path / "token")))
    assert "expires in 2" in rest.observe().caution or "expires in 300" in rest.observe().caution
    (tmp_path / "token").write_text(own.run("scontrol", "token", "username=root", "lifespan=9000"))
    assert rest.observe().caution == ""


def test_slurmctld_is_down(own):
    """Told within the time limit, though slurmrestd tries for nine seconds."""
    rest = own.rest_backend()
    rest.observe()
    rest.timeout_s = 0.5
    own.stop("slurmctld")
    try:
        for ask in (rest.observe, lambda: rest.apply([Change(1, ChangeKind.SITE_FACTOR, 5)])):
            began = time.monotonic()
            with pytest.raises(UnreachableError, match=r"did not answer in|does not get through to slurmctld"):
                ask()
            assert time.monotonic() - began < 10
    finally:
        own.start("slurmctld")


def test_nobody_listens(own):
    """One sentence with the address."""
    rest = SlurmRest(RestPlace("http://127.0.0.1:9", str(own.token_file)))
    with pytest.raises(UnreachableError, match=r"slurmrestd at http://127.0.0.1:9 does not answer: Connection refused"):
        rest.observe()
    gone = SlurmRest(RestPlace("unix:/nowhere/sock", str(own.token_file)))
    with pytest.raises(UnreachableError, match="unix:/nowhere/sock does not answer: No such file"):
        gone.observe()


class Server(http.server.BaseHTTPRequestHandler):
    """Something else than a slurmrestd: it hangs, drips, or talks of other things."""

    manner = "other"

    def do_GET(self):
        if self.manner == "hangs":
            self.server.released.wait(30)
            return
        self.send_response(200)
        self.end_headers()
        while self.manner == "drips" and not self.server.released.wait(0.1):
            self.wfile.write(b" ")
            self.wfile.flush()
        if self.manner == "openapi":
            self.wfile.write(b'{"paths": {}}')
        elif self.manner == "other":
            self.wfile.write(b"<html>It works!</html>")

    def log_message(self, *_):
        pass


@pytest.fixture
def server_that():
    """Serve in such a manner; return the address."""
    started = []

    def serve(manner, certificate=None):
        handler = type("Handler", (Server,), {"manner": manner})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.released = threading.Event()
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started.append(server)
        return f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"

    yield serve
    for server in started:
        server.released.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def token(tmp_path):
    """A token that says it is good."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 4e9, "sun": "ann"}).encode()).decode().rstrip("=")
    (tmp_path / "token").write_text(f"head.{claims}.sign")
    return str(tmp_path / "token")


@pytest.mark.parametrize("manner", ["hangs", "drips"])
def test_a_server_that_never_ends_its_answer_is_given_up(server_that, token, manner):
    """However it does that."""
    rest = SlurmRest(RestPlace(server_that(manner), token), timeout_s=0.3)
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="did not answer in"):
        rest.observe()
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(("manner", "said"), [("other", "It works!"), ("openapi", "offers no jobs")])
def test_what_is_no_slurmrestd_is_said(server_that, token, manner, said):
    """Another server, and one without the plugin."""
    with pytest.raises(BackendError, match=said):
        SlurmRest(RestPlace(server_that(manner), token)).observe()


def test_a_certificate_is_trusted_only_by_its_ca(server_that, token, tmp_path):
    """https with a CA of the site's own: refused without it, taken with it."""
    made = tmp_path / "both.pem"
    subject = (
        "-subj",
        "/CN=127.0.0.1",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-addext",
        "keyUsage=critical,keyCertSign,digitalSignature",
    )
    new = (
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    )
    subprocess.run(
        [*new, "-keyout", tmp_path / "key", "-out", tmp_path / "ca", *subject], check=True, capture_output=True
    )
    made.write_text((tmp_path / "key").read_text() + (tmp_path / "ca").read_text())
    url = server_that("openapi", made)
    with pytest.raises(BackendError, match=r"certificate of https://\S+ is not trusted.*slurm.ca"):
        SlurmRest(RestPlace(url, token)).observe()
    with pytest.raises(BackendError, match="offers no jobs"):
        SlurmRest(RestPlace(url, token, ca_file=str(tmp_path / "ca"))).observe()
    with pytest.raises(BackendError, match=r"slurm.ca: /nowhere cannot be used"):
        SlurmRest(RestPlace(url, token, ca_file="/nowhere")).observe()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"rest": "head:6820", "token": "t"}, "should be http://HOST:PORT"),
        ({"rest": "http://", "token": "t"}, "should be http://HOST:PORT"),
        ({"rest": "http://head/slurm", "token": "t"}, "should be http://HOST:PORT"),
        ({"rest": "http://head:99999", "token": "t"}, "no port"),
        ({"rest": "http://head"}, r"slurm\.token should name a file"),
        ({"rest": "unix:/s"}, r"slurm\.user should name the account"),
        ({"rest": "http://head", "token": "t", "ca": "c"}, r"slurm\.ca is for https"),
        ({"rest": "http://head", "tokn": "t"}, r"slurm\.tokn is not known"),
        ({"rest": 7}, r"slurm\.rest should be a text"),
    ],
)
def test_settings_that_cannot_be_are_refused(table, said):
    """One sentence each, with the key."""
    with pytest.raises(InputError, match=said):
        RestPlace.of(table)


def test_settings_that_can_be():
    """No table, or an empty address, means Slurm's own commands."""
    assert RestPlace.of({}) is None
    assert RestPlace.of({"rest": "", "token": "t"}) is None
    assert RestPlace.of({"rest": "unix:/s", "user": "ann"}).named_user == "ann"
    assert RestPlace.of({"rest": "http://head", "token": "t"}).port == 6820
    assert [RestPlace(url).leaks for url in ("http://head:1", "http://127.0.0.1:1", "https://head")] == [
        True,
        False,
        False,
    ]


def test_a_known_version_is_preferred_and_else_the_newest():
    """26.05's own newest cannot tell exclusive jobs from others; one newer than any known offers what it offers."""
    paths = {v: [f"/slurm/v0.0.{n}/jobs/" for n in v] for v in ((38,), (40, 41, 42), (42, 43, 44, 45), (46, 47))}
    assert [dialect_offered(offered).version for offered in paths.values()] == [38, 42, 42, 47]
    assert ChangeKind.EXCLUDE_NODES in RestDialect(38).cannot
    assert ChangeKind.EXCLUDE_NODES not in RestDialect(42).cannot
