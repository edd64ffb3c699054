"""What taking turns would be worth: the numbers are those of the schedules, and the verdict is theirs."""

from dataclasses import replace
from math import nan

import numpy as np
import pytest

from rltune import simulate
from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import read_pipeline
from rltune.errors import InputError
from rltune.evaluation.consent import Consent
from rltune.evaluation.turns_tables import worth_table
from rltune.evaluation.turns_worth import turns_worth, ways_around
from rltune.evaluation.who_pays_for_turns import DISPLACED, DISPLACED_WITH, JOBS, WITH, WITHOUT, ledger
from rltune.report.turns_page import render_turns
from rltune.text import text_of
from rltune.trials.intervals import Interval

CLUSTER = Cluster.uniform(4, 4)
LOOK = {"size": 64, "every": 32, "contended_s": 1.0, "holdout": 0.3}
SIDES = {"without": ("saf + easy", "fcfs + easy"), "turns": ("fcfs+preempt:las:run=60 + fit-first",)}


@pytest.fixture(scope="module")
def jobs(trace):
    return trace.window(0, 600)


@pytest.fixture(scope="module")
def made(jobs):
    return turns_worth(jobs, CLUSTER, (0.3, 1.0), (10.0, 60.0), 60.0, "oracle", **SIDES, **LOOK)


def test_shares_are_nested_and_costs_are_the_consents(jobs):
    """Whoever is willing at 30 % is willing at 60 %, too, so that a curve over shares is of the same jobs."""
    few, more = (Consent(share, 30.0, 300.0).applied(jobs, CLUSTER, 0) for share in (0.3, 0.6))
    assert 0 < few.preemptible.sum() < more.preemptible.sum() < len(jobs)
    assert not (few.preemptible & ~more.preemptible).any()
    assert set(few.restart_s[few.preemptible]) == {30.0}
    assert set(few.checkpoint_s[few.preemptible]) == {300.0}


def test_a_cell_is_what_the_schedules_say(jobs, made):
    """The mean delay of a cell is that of its windows, run one by one."""
    assert made.cells[1].consent == Consent(1.0, 10.0, 60.0)
    willing = Consent(1.0, 10.0, 60.0).applied(jobs, CLUSTER, 0)
    first, last = len(jobs) - int(len(jobs) * 0.3), len(jobs)
    delays = []
    for start in range(first, last - 64 + 1, 32):
        window = willing.window(start, 64)
        if simulate(window, CLUSTER, "fcfs", estimator="oracle").wait_s.mean() > 1.0:
            schedule = simulate(window, CLUSTER, "fcfs", "fit-first", estimator="oracle", preempt="las:run=60")
            delays.append(schedule.delay_s.mean())
    assert made.windows == len(delays)
    assert made.cells[1].delay_s == pytest.approx(np.mean(delays))


def test_turns_are_tried_around_the_policy_that_is_best_without(jobs):
    """So that those who may not be displaced keep its order."""
    best = read_pipeline("sjf + easy")
    ways = ways_around(best)
    assert {way.policy.name for way in ways} == {"sjf"}
    assert {way.turns.order for way in ways} == {"las", "gittins", "srsf"}
    sides = {"without": ("sjf + fit-first",)}
    made = turns_worth(jobs, CLUSTER, (1e-9,), (10.0,), 60.0, "oracle", **sides, **LOOK)
    assert made.turns.startswith("sjf+preempt:")
    assert made.among == 1 + len(ways)


def test_without_anybody_willing_nothing_is_displaced(jobs):
    """The cells of a share so small that nobody is drawn have no displacement, no loss, and nobody who pays."""
    nobody = turns_worth(jobs, CLUSTER, (1e-9,), (10.0,), 60.0, "oracle", **SIDES, **LOOK).cells[0]
    assert (nobody.preemptions, nobody.lost_share, nobody.payers.displaced) == (0, 0, 0)


def test_who_pays_adds_up(jobs):
    """Groups add up to everybody, and the displaced are counted by their schedule."""
    part = jobs.window(0, 128)
    willing = Consent(1.0, 10.0, 60.0).applied(part, CLUSTER, 0)
    base = simulate(part, CLUSTER, "saf", "easy", estimator="oracle")
    turns = simulate(willing, CLUSTER, "fcfs", "fit-first", estimator="oracle", preempt="las:run=60")
    rows = ledger(base, turns, np.ones(128, dtype=bool))
    sizes = sum(row for name, row in rows.items() if "GPU" in name)
    assert sizes == pytest.approx(rows[""])
    assert rows[""][JOBS] == 128
    assert rows[""][WITHOUT] == pytest.approx(base.delay_s.sum())
    assert rows[""][WITH] == pytest.approx(turns.delay_s.sum())
    displaced = turns.preemptions > 0
    assert displaced.any()
    assert rows[""][DISPLACED] == displaced.sum()
    assert rows[""][DISPLACED_WITH] == pytest.approx(turns.delay_s[displaced].sum())


@pytest.mark.parametrize(
    ("ratio", "disjoint", "said"),
    [
        (Interval(0.5, 0.4, 0.6), 20, "mean delay is 0.50 [0.40, 0.60] of the best"),
        (Interval(0.5, nan, nan), 1, "over 1 window the mean delay is 0.50 [unknown] of the best"),
        (Interval(0.98, 0.9, 1.1), 20, "not shown to be worth anything"),
        (Interval(1.3, 1.1, 1.5), 20, "shown to make things worse"),
        (Interval(0.5, 0.1, 3.0), 4, "Too little history to tell"),
        (Interval(0.98, 0.1, 3.0), 4, "not shown to be worth anything"),
        (Interval(1.3, 1.1, 1.5), 4, "shown to make things worse"),
        (Interval(0.5, 0.4, 0.6), 4, "mean delay is 0.50 [0.40, 0.60] of the best"),
    ],
)
def test_the_verdict_follows_the_interval(made, ratio, disjoint, said):
    """A gain is named only where the interval excludes 1; few windows are called few."""
    cells = tuple(replace(cell, ratio=ratio) for cell in made.cells)
    judged = replace(made, cells=cells, disjoint=disjoint)
    assert said in judged.verdict
    assert ("4 windows" in judged.verdict) == (disjoint == 4)
    assert said.split("[")[0] in " ".join(text_of(worth_table(judged)).split())
    assert judged.verdict in render_turns(judged, "here")


def test_no_share_is_refused(jobs):
    """There is nothing to try."""
    with pytest.raises(InputError, match="at least one share"):
        turns_worth(jobs, CLUSTER, ())
