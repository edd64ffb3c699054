"""A report from a journal counts what was seen, from when jobs could start, and says how sure a gain is."""

import json
from dataclasses import replace

import numpy as np
import pytest
from live_cases import NOW, MemoryCluster, job, nodes, running, settings, snapshot
from typer.testing import CliRunner

from rltune.cli import app
from rltune.errors import InputError
from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.shadow import shadow_report, shadow_text
from rltune.shadow.shadow_page import render_shadow

N = 240
HELD_S = 500.0
END = NOW + 400_000.0
HOSTILE = "<script>alert(1)</script>"


def ended_jobs():
    """Make jobs that one GPU served in order of priority: long and short ones, the long ones first."""
    rng = np.random.default_rng(4)
    run = np.where(np.arange(N) % 4 == 0, 4000.0, 200.0)
    submit = NOW + 10.0 + np.cumsum(rng.exponential(1250.0, N))
    made, free = [], 0.0
    for i in range(N):
        eligible = submit[i] + (HELD_S if i == 7 else 0.0)
        start = max(free, eligible)
        free = start + run[i]
        times = {"submit_s": submit[i], "eligible_s": eligible, "start_s": start, "end_s": free}
        user = HOSTILE if i % 3 else "ann"
        made.append(job(i + 1, 1, run[i] / 30, state="COMPLETED", user=user, **times))
    return made


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """Let a controller in shadow look twice: before the jobs came, and when all but two had ended."""
    path = tmp_path_factory.mktemp("shadow") / "journal.db"
    store = Journal.create(path)
    cluster = MemoryCluster(snapshot([], nodes(1)))
    settled = settings(mode="shadow", pipeline={"estimator": "history"}, safety={"guard": "off"})
    controller = Controller(cluster, store, settled)
    controller.cycle()
    last = [
        running(1001, "n0", 1, 60, ran_s=NOW - (END - 300.0), submit_s=END - 900.0),
        job(1002, 1, 60, submit_s=END - 1200.0),
        job(1003, 1, 60, submit_s=END - 1200.0, held=True),
    ]
    cluster.now = snapshot([*ended_jobs(), *last], nodes(1), at=END)
    controller.cycle()
    controller._note_calls()
    store.close()
    return path


@pytest.fixture(scope="module")
def made(journal):
    return shadow_report(Journal.read(journal))


def test_observed_waits_are_those_of_the_records(made):
    """They count from eligibility; who runs counts by its start, who waits as far as it has come, who is held not."""
    jobs = ended_jobs()
    waits = [one.start_s - max(one.submit_s, one.eligible_s) for one in jobs] + [600.0, 1200.0]
    assert made.jobs == N + 2
    assert made.unended == 2
    assert made.observed.mean == pytest.approx(np.mean(waits))
    assert made.observed.p99 == pytest.approx(np.quantile(waits, 0.99))


def test_short_jobs_first_is_a_gain_and_is_told_with_its_interval(made):
    """The replay in Slurm's order is what was observed; ours waits less, and the sentence says how much."""
    assert made.slurm.mean == pytest.approx(made.observed.mean, rel=0.05)
    assert made.is_near
    assert made.ratio.estimate < 0.8
    assert made.ratio.low <= made.ratio.estimate <= made.ratio.high
    assert made.expected_s == pytest.approx(made.observed.mean * made.ratio.estimate)
    told = shadow_text.sentence(made)
    assert f"{N + 2} jobs waited" in told
    assert "less" in told
    assert {share.kind for share in made.shares} == {"size", "user", "partition"}


def test_no_difference_is_called_so(made):
    """An interval that holds 1 is no gain, whatever its middle; one that is not known is none either."""
    unsure = replace(made, ratio=replace(made.ratio, low=0.5, high=1.2))
    assert "no difference is shown" in shadow_text.sentence(unsure)
    unknown = replace(made, ratio=replace(made.ratio, low=np.nan, high=np.nan))
    assert "too few jobs" in shadow_text.sentence(unknown)


def test_stories_are_of_those_to_whom_it_mattered_most(made):
    """Who gains most and who loses most come with what the journal says of them."""
    gains = made.rows.slurm_s - made.rows.our_s
    assert max(one.gained_s for one in made.stories) == pytest.approx(gains.max())
    assert min(one.gained_s for one in made.stories) == pytest.approx(gains.min())
    assert all(one.lines for one in made.stories)


def test_the_watch_is_told_of(made):
    """Cycles, calls and trips come from the journal."""
    assert made.watch.cycles == 2
    assert made.watch.calls["squeue"] == 2
    assert any("Calls of Slurm's commands: " in line and "squeue 2" in line for line in shadow_text.evidence(made))


def test_the_page_escapes_names_and_the_json_is_whole(made):
    """A hostile user's name is text in the page, and everything turns into JSON."""
    page = render_shadow(made, HOSTILE)
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)" in page
    assert json.dumps(shadow_text.as_dict(made), allow_nan=False)


def test_too_little_is_refused(journal):
    """Without enough jobs since the time asked for there is no report."""
    with pytest.raises(InputError, match="needs 20"):
        shadow_report(Journal.read(journal), END - 1.0)


def test_the_command(journal, tmp_path):
    """It prints the sentence first and writes the page."""
    page = tmp_path / "week.html"
    done = CliRunner().invoke(app, ["journal", "report", "-j", str(journal), "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("From 2023-11-14")
    assert "in shadow" in page.read_text(encoding="utf-8")
