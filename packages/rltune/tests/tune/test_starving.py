"""Nobody starves for a shorter mean: whoever would let somebody is set aside, and tried again with a guard."""

import json
import re
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from rltune import Cluster, Jobs
from rltune.cli.narrow_tables import fitted
from rltune.engine.parse_pipeline import read_pipeline
from rltune.text import text_of
from rltune.trials.intervals import Interval
from rltune.trials.shares import Share
from rltune.tune import tune
from rltune.tune.advice import Advice, decide
from rltune.tune.starving import guards_around, starving
from rltune.tune.stretches import StretchRunner
from rltune.tune.tried_pipelines import Candidate
from rltune.tune.tuning_text import finalists_table, sentences, shares_table

CLUSTER = Cluster.uniform(2, 8)
HOUR = 3600.0


def history(n=2400, load=0.97):
    """Many small jobs, and one user whose jobs take the whole machine: whoever favours small ones lets these wait."""
    rng = np.random.default_rng(5)
    large = rng.random(n) < 0.02
    gpus = np.where(large, 16, rng.choice([1, 2, 4], n))
    duration = np.where(large, 2 * HOUR, rng.lognormal(8.5, 1.0, n))
    submit = np.sort(rng.uniform(0, (gpus * duration).sum() / (16 * load), n))
    user = np.where(large, "whale", [f"u{i}" for i in rng.integers(0, 4, n)]).tolist()
    return Jobs.from_arrays(submit, duration, gpus, limit_s=duration * rng.uniform(1, 4, n), user=user)


@pytest.fixture(scope="module")
def made():
    return tune(history(), CLUSTER, "fcfs", models=[], minutes=1)


def group(now_h, then_h, name="ann"):
    """Make a group of jobs whose slowest tenth waits so many hours now, and then."""
    return Share("user", name, 50, 0.0, 0.0, (now_h * HOUR, then_h * HOUR), (0.0, 0.0))


def test_a_group_starves_that_waits_twice_as_long_and_a_day_longer():
    assert not starving([group(1, 24)])  # 24 times as long, but not a day more
    assert not starving([group(30, 59)])  # more than a day longer, but not twice as long
    far, near = group(1, 400, "bob"), group(30, 85)
    assert starving([near, group(0, 0), far]) == (far, near)


def test_what_is_proposed_lets_nobody_starve_on_the_part_that_chooses(made):
    assert made.set_aside
    runner, final = StretchRunner(history().sorted(), CLUSTER, "wait", 0), made.run_on[0]
    now, then = (runner.schedule(one, final) for one in (made.now, made.chosen))
    assert not starving(runner.shares(now, then, final))
    for one in made.set_aside:
        shares = runner.shares(now, runner.schedule(one.candidate, final), final)
        assert starving(shares) == one.starving
        assert "whale" in {share.name for share in one.starving}


def test_whoever_was_set_aside_comes_back_with_a_guard(made):
    aside = made.set_aside[0].candidate
    tried = {c.label for c, _ in made.finalists}
    assert any(c.startswith(f"{aside.pipeline.policy.name}+guard:24h:4x + ") for c in tried)
    assert made.answer in {Advice.CHANGE, Advice.WATCH}
    assert made.values[1] < made.values[0]


def test_behind_a_guard_a_candidate_stands_though_somebody_pays(monkeypatch):
    """Among many users somebody's slowest tenth waits longer by any change: with a guard that is bounded, and told."""
    monkeypatch.setattr("rltune.tune.starving.starving", lambda _: (group(1, 400),))
    told = tune(history(), CLUSTER, "fcfs", models=[], minutes=0.3)
    assert told.set_aside
    assert told.chosen.pipeline.guard


def test_it_is_said_who_would_starve_and_by_what(made):
    aside = made.set_aside[0]
    told = [one for one in sentences(made) if one.startswith("Set aside, because somebody would starve by it")]
    assert aside.candidate.label in told[0]
    assert "the slowest tenth of user whale would wait" in told[0] or "size 9 to 16 GPUs" in told[0]
    assert sentences(made).index(told[0]) == 1  # right after the answer
    assert "set aside" in text_of(finalists_table(made))
    assert json.loads(json.dumps(made.to_dict(), allow_nan=False))["set_aside"][0]["label"] == aside.candidate.label


def test_nothing_better_that_starves_nobody_leaves_all_as_it_is(made):
    stays = replace(made, answer=Advice.STAY, chosen=made.now)
    assert sentences(stays)[0].endswith("by all that is better somebody would starve.")
    assert "Set aside" in sentences(stays)[1]


def test_who_starves_on_the_last_part_alone_stops_a_change_and_stands_in_the_answer(made):
    """It was not seen on the middle part, so the choice stands; but nobody is told to act on it."""
    shown = Interval(0.5, 0.3, 0.8)
    assert decide(made.now, made.chosen, shown, shown) is Advice.CHANGE
    assert decide(made.now, made.chosen, shown, shown, doubted=True) is Advice.WATCH
    hungry = replace(made, answer=Advice.WATCH, testing=shown, together=shown, shares=(group(13, 170), group(1, 90)))
    first = sentences(hungry)[0]
    assert "the slowest tenth of user ann would wait 7.1 d, now 13.0 h (1 more group alike)" in first
    guard = re.search(r"Put a guard around it that bounds this, such as (\S+), or stay as you are", first)[1]
    assert read_pipeline(f"{guard} + easy").guard
    doubtful = replace(hungry, testing=Interval(0.5, 0.1, 2.0), together=Interval(0.5, 0.1, 2.0))
    assert "chance may explain it, and on the last part the slowest tenth of user ann" in sentences(doubtful)[0]
    assert "slowest tenth of" not in sentences(replace(hungry, shares=()))[0]


def test_a_guard_leaves_as_much_time_as_the_slowest_tenth_takes_today():
    """Below that, most of the queue would be owed its start, and any order would be that of arrival."""
    bare = Candidate(read_pipeline("saf + easy"), "user")
    waits = np.linspace(0, 100 * HOUR, 1001)
    assert [str(c.pipeline.guard) for c in guards_around(bare, waits)] == ["24h:4x", "90h:4x"]
    assert [str(c.pipeline.guard) for c in guards_around(bare, waits / 100)] == ["24h:4x"]
    assert {c.pipeline.policy.name for c in guards_around(bare, waits)} == {"saf"}
    guarded = guards_around(bare, waits)[0]
    assert guards_around(guarded, waits) == ()
    idle = Candidate(read_pipeline("saf"), "user")
    assert {c.pipeline.backfill for c in guards_around(idle, waits)} == {"easy"}  # or one owed job holds up all


def test_a_site_whose_replays_tell_nothing_is_not_told_to_change(made):
    """Two commands would contradict each other: one says that replays are good for nothing, one acts on them."""
    small = {"models": [], "minutes": 0.1}
    free = tune(history(), CLUSTER, "fcfs", **small)
    told = tune(history(), replace(CLUSTER, usable_for="neither"), "fcfs", **small)
    assert (free.answer, told.answer) == (Advice.CHANGE, Advice.WATCH)
    assert "usable neither for ranking nor for sizes" in sentences(told)[0]
    assert sentences(told)[0].endswith("Stay as you are.")
    assert (free.testing, free.chosen.label) == (told.testing, told.chosen.label)
    assert tune(history(), replace(CLUSTER, usable_for="ranking"), "fcfs", **small).answer is Advice.CHANGE


def test_a_narrow_terminal_keeps_which_row_is_chosen_and_who_pays_in_the_tail(made):
    """The mean wait of the finalists and the number of jobs of a group go first."""
    narrow = Console(width=70, file=StringIO())
    kept = [str(column.header) for column in fitted(finalists_table(made), narrow).columns]
    assert kept == ["pipeline\n(estimates)", "score", "role"]
    kept = [str(column.header) for column in fitted(shares_table(made), Console(width=62, file=StringIO())).columns]
    assert kept == ["", "mean", "p90"]
