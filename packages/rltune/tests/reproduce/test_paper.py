"""The paper's numbers: each once, consistent where the paper is, and contradictory exactly where it is."""

from collections import Counter
from pathlib import Path

import pytest

import rltune
from rltune import InputError
from rltune.reproduce import paper
from rltune.trials.measures import METRICS

ROOM = Path(rltune.__file__).parent / "reproduce"


def test_the_numbers_lie_beside_their_reader():
    """The wheel takes the whole of the package, so what lies in it is shipped; nothing of it is ignored."""
    assert (ROOM / "paper.toml").is_file()
    build = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert 'packages = ["src/rltune"]' in build
    assert "exclude" not in build


def test_every_key_is_one_number():
    keys = Counter(each.key for each in (*paper.numbers(), *paper.statements(), *paper.claims()))
    assert [key for key, count in keys.items() if count > 1] == []
    assert all(paper.number(each.key) is each for each in paper.numbers())


@pytest.mark.parametrize(
    ("name", "cells"), [("table2", 25), ("table4", 27), ("table6", 9), ("table7", 16), ("table8", 8), ("table9", 52)]
)
def test_the_tables_are_whole(name, cells):
    table = paper.table(name)
    assert len(table.cells) == cells
    assert all(each.where == f"table {name[5:]}" for each in table.cells)


def test_a_table_is_asked_by_row_and_column_or_by_what_is_measured():
    """The paper's words for row and column, ours for policy, trace and metric."""
    table = paper.table("table9")
    cell = table.cell("fifo", "alibaba.wait")
    assert (cell.value, cell.unit, cell.kind, cell.better) == (14306.14, "s", "absolute", "lower")
    assert table.select(policy="fcfs", trace="pai", metric="wait") == (cell,)
    assert paper.number("table7.wfp3.sjf").value == -4.01
    assert paper.number("fig15.alibaba.f1.jct").value == -1.3


def test_the_printed_digits_are_kept():
    assert paper.number("table9.schedinspector.helios.util").step == 0.01  # printed 4.00
    assert paper.number("table2.philly.jobs").step == 1000  # printed 60k
    assert paper.number("table4.alibaba.jobs").step == 100_000  # printed 1.2 million


def test_metrics_that_we_measure_have_our_names():
    """What a policy achieves is called as `rltune` calls it, and the same direction is better."""
    beyond = {"overhead", "latency", "training"}  # of the scheduler, not of a schedule
    measured = [each for each in paper.numbers() if each.kind != "setting" and each.metric not in beyond]
    assert {each.metric for each in measured} <= set(METRICS)
    for each in measured:
        higher = each.kind in {"gain", "factor"} or METRICS[each.metric].higher_is_better
        assert each.better == ("higher" if higher else "lower"), each.key


@pytest.mark.parametrize("claim", paper.claims(), ids=lambda claim: claim.key)
def test_each_claim_is_what_the_arithmetic_makes_of_it(claim):
    """Recomputed from the numbers, so a digit that is off changes a verdict."""
    assert claim.verdict == claim.expected
    assert claim.compare in {"said", "found", "each", "neither"}


RECOMPUTED = {
    "qssf.bsld": 1.4008,
    "qssf.wait": 24.4956,
    "qssf.jct": 6.6588,
    "helios.rlscheduler.wait": 29.8229,
    "wait.table9": 75.9817,
    "wait.state-of-the-art": 71.6474,
    "jct.state-of-the-art.table9": 42.9580,
    "jct.philly.fifo": 49.4482,
    "wait.helios.fifo": 40.3149,
    "bsld.most": 82.0640,
    "util.helios.fifo": 1.4888,
    "util.rl": 4.5259,
    "jct.rl": 1.1983,
    "wait.rl": 60.4684,
    "makespan": 24.8349,
    "growth.least": 1.2564,
    "growth.most": 1.5944,
    "latency.queue128": 60.9375,
    "latency.table9": 6.1016,
    "run.philly.rltune": 51561.58,
    "run.alibaba": 4912.9367,
    "month.hpc2n": 23.5749,
    "jobs.philly": 39065.5167,
    "util.unit": 23.5880,
}


@pytest.mark.parametrize("key", RECOMPUTED)
def test_what_follows_has_this_value(key):
    """Worked out by hand from the printed tables."""
    claim = next(each for each in paper.claims() if each.key == key)
    assert claim.found.value == pytest.approx(RECOMPUTED[key], abs=1e-4)


def test_what_is_contradictory_is_said_and_only_that():
    keys = {claim.key for claim in paper.contradictions()}
    assert {"qssf.bsld", "helios.rlscheduler.wait", "wait.fig16", "jct.conclusion", "wait.rl", "util.rl"} <= keys
    assert keys.isdisjoint({"qssf.wait", "jct.rl", "makespan", "growth.least", "growth.most", "run.alibaba"})


def test_a_number_of_something_else_is_no_agreement():
    """81 is printed for slowdown; 70 for a gain over FIFO."""
    verdicts = {claim.key: claim.verdict for claim in paper.claims()}
    assert verdicts["wait.fig16"] == "other metric"
    assert verdicts["jct.state-of-the-art"] == "other base"


def test_gains_by_table_9():
    """Positive is better, for waits as for utilisation."""
    found = {(gain.trace, gain.metric): gain.value for gain in paper.gains("table9", "fcfs")}
    assert len(found) == 13
    assert found["philly", "slowdown"] == pytest.approx(82.0640, abs=1e-4)
    assert found["helios", "wait"] == pytest.approx(40.3149, abs=1e-4)
    assert found["pai", "jct"] == pytest.approx(29.0321, abs=1e-4)
    assert found["philly", "utilisation"] == pytest.approx(4.7516, abs=1e-4)
    assert found["", "overhead"] == pytest.approx(-18.0037, abs=1e-4)


def test_rltune_is_best_on_every_trace_as_table_9_says():
    for against in ("fcfs", "schedinspector", "rlscheduler"):
        gains = [g for g in paper.gains("table9", against) if g.metric in {"slowdown", "wait", "jct"}]
        assert len(gains) == 9
        assert min(gain.value for gain in gains) > 0


def test_what_does_not_go_with_a_statement_is_a_number():
    assert [paper.number(each.but).key for each in paper.statements() if each.but]


def test_an_unknown_key_names_its_neighbours():
    with pytest.raises(InputError, match=r"did you mean fig17\.philly\.qssf\.jct"):
        paper.number("fig17.philly.qsf.jct")
    with pytest.raises(InputError, match="no table of the paper 'table3'"):
        paper.table("table3")
    with pytest.raises(InputError, match="no policy 'qssf' in table9"):
        paper.gains("table9", "qssf")
