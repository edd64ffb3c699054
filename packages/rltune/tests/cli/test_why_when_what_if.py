"""`explain`, `forecast` and `whatif` on a made-up history: they answer, in JSON too, and say what is wrong."""

import json

import pytest
from typer.testing import CliRunner

from rltune.cli import app

TRACE = ("--trace", "synth:philly,jobs=1500,load=2", "-c", "philly-slice")
AT = (*TRACE, "--at", "90%", "--pipeline", "saf + easy")


def run(*words):
    """Run the command; return its exit code and what it printed."""
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output


def test_explain_answers_for_all_and_for_one():
    """One line a job; then one job in full."""
    code, text = run("explain", "all", *AT, "--json")
    assert code == 0, text
    every = json.loads(text)
    assert every
    code, text = run("explain", "all", *AT)
    assert text.rstrip().endswith("so nothing shows whether simulated waits are right.")
    job = next(iter(every))
    code, text = run("explain", job, *AT)
    assert code == 0
    assert f"Job {job}: {every[job]['why']}" in text


def test_forecast_answers_for_all_and_before_submitting():
    """Quantiles of everybody, and the soonest of some requests."""
    code, text = run("forecast", *AT, "--rolls", "3", "--json")
    assert code == 0, text
    assert all(job["p10_s"] <= job["p90_s"] for job in json.loads(text)["jobs"])
    code, text = run("forecast", *AT, "--rolls", "2", "--submit", "gpus=8,time=2h")
    assert code == 0, text
    assert text.startswith("Soonest: ")


def test_whatif_answers_on_history_and_at_a_moment():
    """The sentence has the change and an interval or says why there is none."""
    code, text = run("whatif", "add=4x8:P100", *TRACE, "--pipeline", "fcfs + easy", "--json")
    assert code == 0, text
    assert json.loads(text)["sentence"].startswith("add=4x8:P100: the mean wait goes from")
    code, text = run("whatif", "add=4x8:P100", *AT, "--rolls", "3")
    assert code == 0, text
    assert "paired futures" in text


def test_a_date_is_on_the_clock_of_the_history(tmp_path):
    """The same moment as so many seconds after the first submission; dates before and after the history are refused."""
    history, cluster = tmp_path / "history.txt", tmp_path / "c.toml"
    head = "JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocTRES"
    rows = [
        f"{i}|ann|gpu|COMPLETED|2026-03-01T10:00:{i:02}|2026-03-01T10:00:{i:02}|2026-03-01T12:00:{i:02}|7200|240|"
        "cpu=1,node=1,gres/gpu=4"
        for i in range(1, 4)
    ]
    history.write_text("\n".join([head, *rows]) + "\n")
    cluster.write_text("[[group]]\ncount = 1\ngpus = 4\n")
    asked = ("explain", "all", "--trace", str(history), "-c", str(cluster), "--pipeline", "fcfs + easy", "--json")
    by_date, by_seconds = (json.loads(run(*asked, "--at", at)[1]) for at in ("2026-03-01T11:00:01", "3600"))
    assert by_date == by_seconds
    assert len(by_date) == 2
    moment = ("forecast", *asked[2:-1], "--rolls", "2", "--at")
    assert "history.txt at 0% (2026-03-01T10:00): 1 job" in " ".join(run(*moment, "0%")[1].split())
    for at, told in (
        ("2025-01-01", "the history begins at 2026-03-01T10:00, after the time asked for, 2025-01-01T00:00"),
        ("2027-01-01", "is over by 2026-03-01T12:00, before the time asked for, 2027-01-01T00:00"),
        ("soon", "a date, or a share"),
    ):
        code, text = run(*asked, "--at", at)
        assert (code, told in " ".join(text.split())) == (2, True), text
    code, text = run("explain", "all", *TRACE, "--at", "2026-03-01")
    assert (code, "tells no dates" in " ".join(text.split())) == (2, True), text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("explain", "1", "--trace", "synth:philly"), "--trace needs --cluster and --at"),
        (("explain", "1", "--at", "60%"), "give it by --trace"),
        (("forecast", "1", "--submit", "gpus=1", *AT), "not both"),
        (("forecast", *AT, "--submit", "gpu=1"), "word of a request"),
        (("whatif", *TRACE), "not both, and not neither"),
        (("whatif", "more=1", *TRACE), "is not understood"),
        (("whatif", "--target", "p90 wait < 1h", *TRACE), "--with"),
    ],
)
def test_mistakes_are_one_sentence(words, told):
    """With exit code 2, before anything is run."""
    code, text = run(*words)
    assert code == 2
    assert told in text
