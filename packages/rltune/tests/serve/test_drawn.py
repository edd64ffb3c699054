"""What pages draw: lines, the use of GPUs, the map of nodes, trainings, and times of jobs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from live_cases import NOW, MemoryCluster, job, nodes, running, settings, snapshot
from serve_cases import journal_of, service
from starlette.testclient import TestClient

from rltune.errors import InputError
from rltune.forecast import Forecast, JobForecast
from rltune.live.controller import Controller
from rltune.live.journal.ended import Ended
from rltune.live.journal.store import Journal
from rltune.model.curve_file import read_curve, write_curve
from rltune.serve.job_timeline import _ticks, timeline
from rltune.serve.last_day import use_chart
from rltune.serve.line_chart import HEIGHT, WIDTH, line_chart, round_above, whole_marks
from rltune.serve.look import sentence
from rltune.serve.node_map import MOST_WITH_SQUARES, node_map
from rltune.serve.sight import Watch
from rltune.serve.tokens import Caller, Role
from rltune.serve.training_runs import shipped_cards, training_runs

EVERYBODY = Caller("all", Role.VIEWER)


def points(path):
    return [tuple(map(float, part.split())) for part in path.removeprefix("M").split(" L")]


def test_a_line_goes_from_corner_to_corner_of_its_frame():
    drawn = line_chart([("a", 0, [(10.0, 0.0), (20.0, 50.0)])])
    assert (drawn.first, drawn.last, drawn.bottom, drawn.top) == (10.0, 20.0, 0.0, 50.0)
    assert points(drawn.lines[0].path) == [(0.0, HEIGHT), (WIDTH, 0.0)]
    below = line_chart([("a", 0, [(0.0, -3.0), (1.0, 4.0)])])
    assert (below.bottom, below.top) == (-5.0, 5.0)
    never_above = line_chart([("a", 0, [(0.0, -0.08), (1.0, 0.0)])])
    assert (never_above.bottom, never_above.top) == pytest.approx((-0.1, 0.0))
    assert line_chart([("a", 0, [(1.0, 1.0)])]) is None
    assert line_chart([]) is None


@pytest.mark.parametrize(("value", "above"), [(0, 1), (0.3, 0.5), (1, 1), (99, 100), (101, 200), (12_345, 20_000)])
def test_axes_end_at_round_numbers(value, above):
    assert round_above(value) == pytest.approx(above)


def sight_of(folder, jobs, on=None, cycles=1, pass_s=60.0):
    """Let a controller look at some jobs, again and again."""
    cluster = MemoryCluster(snapshot(jobs, on))
    controller = Controller(cluster, Journal.create(folder / "journal.db"), settings(mode="shadow"))
    for _ in range(cycles):
        controller.cycle()
        cluster.pass_time(pass_s)
    return Watch(folder / "journal.db")


def test_the_use_of_gpus_is_that_of_the_jobs_that_held_them(tmp_path):
    """From the first look on: 4 of 8 GPUs by one that runs, and 2 for a while by one that has ended since."""
    watch = sight_of(tmp_path, [running(1, "n0", 4)], cycles=2, pass_s=1000.0)
    ended = job(2, 2, state="COMPLETED", start_s=NOW - 50, end_s=NOW + 500, node_names=("n1",))
    Journal.create(tmp_path / "journal.db").add_ended([Ended(ended)])
    with watch.journal() as journal:
        drawn = use_chart(journal, watch.sight())
    shares = [1 - y / HEIGHT for _, y in points(drawn.lines[0].path)]
    half = len(shares) // 2
    assert drawn.top == 1.0
    assert shares[: half - 1] == pytest.approx([0.75] * (half - 1), abs=0.01)
    assert shares[half + 1 :] == pytest.approx([0.5] * (len(shares) - half - 1), abs=0.01)


def test_the_map_has_a_square_for_each_gpu_and_beyond_a_cell_for_each_node(tmp_path):
    some = (*nodes(4, 4, 2), *(replace(n, name="down", up=False) for n in nodes(4)))
    few = node_map(sight_of(tmp_path / "few", [running(1, "n0", 3)], some).sight())
    cells = {cell.name: cell for kind in few.types for cell in kind.cells}
    assert few.squares
    assert [(c.used, c.free, c.gone) for c in cells.values()] == [(3, 1, 0), (0, 4, 0), (0, 2, 0), (0, 0, 4)]
    assert few.types[0].whole_free == 2
    assert [cells[name].shade for name in ("n0", "n1", "down")] == ["part3", "free", "gone"]
    many = node_map(sight_of(tmp_path / "many", [], nodes(*[1] * (MOST_WITH_SQUARES + 1))).sight())
    assert not many.squares


def test_a_forecast_says_where_waiting_jobs_are_drawn_and_one_that_is_late_starts_now(tmp_path):
    watch = sight_of(tmp_path, [running(1, "n0", 4), job(2, 4), job(3, 4)])
    made = Forecast(NOW, (JobForecast("2", NOW + 600, NOW + 1200, NOW + 2400, math.nan),
                          JobForecast("3", NOW - 900, NOW - 600, NOW + 60, math.nan)), 40, "fcfs")  # fmt: skip
    with watch.journal() as journal:
        drawn = timeline(journal, watch.sight(), EVERYBODY, made)
        bare = timeline(journal, watch.sight(), EVERYBODY)
    scale = (drawn.until_s - drawn.from_s) / 100
    second, third = (next(bar for bar in drawn.of("waiting") if bar.job == number) for number in (2, 3))
    assert drawn.from_s + scale * second.expected[0] == pytest.approx(NOW + 1200, abs=1)
    assert scale * second.may_start[1] == pytest.approx(1800, abs=1)
    assert third.expected[0] == pytest.approx(drawn.now, abs=0.01)
    assert all(bar.run is None for bar in (second, third))
    assert all(bar.may_start is None for bar in bare.bars)
    assert [round(tick.at_s) % 600 for tick in drawn.ticks] == [0] * len(drawn.ticks)


def test_curves_are_kept_and_one_that_is_none_is_said(tmp_path):
    path = tmp_path / "a.rltune.curve.jsonl"
    write_curve(path, [{"epoch": 0, "held_out": 1.0, "reward": math.nan}, {"epoch": 1, "held_out": 0.8}])
    assert read_curve(path) == [{"epoch": 0, "held_out": 1.0}, {"epoch": 1, "held_out": 0.8}]
    for text in ("nonsense", '{"held_out": 1}', "[1]", '{"epoch": "x"}'):
        path.write_text(text)
        with pytest.raises(InputError, match=r"curve|epoch"):
            read_curve(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_curve(tmp_path / "none")


def test_a_folder_of_trainings_is_read_and_what_is_broken_hides_nothing_else(tmp_path):
    good = tmp_path / "good.rltune.curve.jsonl"
    write_curve(good, [{"generation": i, "held_out": abs(i - 3) / 10 + 0.5, "train": 0.6} for i in range(6)])
    (tmp_path / "bad.rltune.curve.jsonl").write_text("?")
    (tmp_path / "worse.rltune").write_text("{}")
    runs = {run.name: run for run in training_runs(tmp_path)}
    assert (runs["good.rltune"].best, runs["good.rltune"].best_step, runs["good.rltune"].steps) == (0.5, 3, 5)
    assert [line.name for line in runs["good.rltune"].charts[0].drawn.lines] == ["held-out windows", "training windows"]
    assert "no curve" in runs["bad.rltune"].error
    assert "no model" in runs["worse.rltune"].error
    assert len(shipped_cards()) >= 13
    with TestClient(service(journal_of(tmp_path), training=tmp_path)) as client:
        text = client.get("/training").text
        assert "at generation 3 of 5" in text
        assert "is no curve of a training" in text


def test_a_task_of_an_array_is_explained_by_the_number_of_its_record(tmp_path):
    array = job(50, 4, array_id=50, array_tasks="1-3", array_waiting=3, ref="50_[1-3]", user="ann")
    sight_of(tmp_path, [running(1, "n0", 4), running(2, "n1", 4), array])
    with TestClient(service(tmp_path / "journal.db")) as client:
        told = client.get("/api/v1/jobs/50/explanation").json()
        assert told["job"] == "50_[1-3]"
        assert told["reason"]["text"]
        assert "50_[1-3]" in {one["job"] for one in client.get("/api/v1/forecast").json()["jobs"]}


def test_owners_see_what_became_of_their_ended_jobs_and_others_do_not(tmp_path):
    from serve_cases import JOBS

    ended = job(60, 1, user="ann", state="COMPLETED", start_s=NOW - 500, end_s=NOW - 100)
    path = journal_of(tmp_path, (*JOBS, ended))
    cluster = MemoryCluster(snapshot(JOBS))
    journal = Journal.create(path)
    Controller(cluster, journal, settings(mode="shadow")).cycle()  # a look in which it is gone
    from rltune.serve.tokens import Tokens, digest, new_token

    made = {user: new_token(user, Role.VIEWER, user)[0] for user in ("ann", "bob")}
    tokens = Tokens({digest(token): Caller(user, Role.VIEWER, user) for user, token in made.items()})
    with TestClient(service(path, tokens=tokens)) as client:
        for user, status in (("ann", 200), ("bob", 404)):
            answer = client.get("/jobs/60", headers={"authorization": f"Bearer {made[user]}"})
            assert answer.status_code == status
            assert ("ended: completed" in answer.text) == (status == 200)


@pytest.mark.parametrize(
    ("first", "last", "marks"),
    [
        (1, 16, [2, 4, 6, 8, 10, 12, 14, 16]),
        (0, 16, [0, 5, 10, 15]),
        (1, 3, [1, 2, 3]),
        (3, 1000, [200, 400, 600, 800, 1000]),
    ],
)
def test_marks_of_whole_numbers_stand_where_they_belong(first, last, marks):
    """Even steps, and the mark of an epoch is over that epoch."""
    made = whole_marks(first, last)
    assert [mark for mark, _ in made] == marks
    assert [at for _, at in made] == pytest.approx([100 * (mark - first) / (last - first) for mark in marks], abs=0.01)


def test_where_there_is_little_room_the_day_stays_on_the_axis():
    """Every other mark is left out, and midnight, which says the day, never is."""
    for hours in range(2, 40):
        for begin in (1.7e9, 1.7e9 + 11_111, 1.7e9 + 44_444):
            ticks = list(_ticks(begin, begin + 3600 * hours))
            days = [tick for tick in ticks if tick.at_s % 86_400 == 0]
            assert not any(tick.minor for tick in days[:1])
            kept = [tick.at_s for tick in ticks if not tick.minor]
            assert len(set(np.diff(kept))) <= 1


def test_words_in_backticks_are_code_and_nothing_else_is():
    """Whatever a name looks like, it is text."""
    assert sentence("before `rltune calibrate` says so") == "Before <code>rltune calibrate</code> says so."
    assert sentence("`<b>x</b>` & <i>") == "<code>&lt;b&gt;x&lt;/b&gt;</code> &amp; &lt;i&gt;."
