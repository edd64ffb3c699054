"""The matrix of models and traces."""

import io
import json

import numpy as np
import pytest
from learn.looking import a_model
from rich.console import Console

from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.evaluation import evaluate
from rltune.evaluation.transfer import Ground, base_of, gap, transfer
from rltune.evaluation.transfer_tables import matrix
from rltune.policy import get_policy
from rltune.policy.learned import Learned
from rltune.trials.intervals import Interval

HOW = {"holdout": 0.25, "size": 60, "every": 15, "contended_s": 30.0}
MODELS = [Learned(a_model(seed=1, base="srf"), name="one"), Learned(a_model(seed=2, base="saf"), name="two")]


@pytest.fixture(scope="module")
def made(trace, cluster):
    grounds = [Ground("wide", trace, cluster), Ground("narrow", trace, Cluster.uniform(3, 4))]
    return transfer(MODELS, grounds, ["saf", "sjf"], **HOW)


def test_every_model_runs_on_every_trace(made):
    """Against its own base policy."""
    assert [(c.trace, c.model, c.base) for c in made.cells] == [
        ("wide", "one", "srf"),
        ("wide", "two", "saf"),
        ("narrow", "one", "srf"),
        ("narrow", "two", "saf"),
    ]


def test_a_cell_is_what_an_evaluation_gives(made, trace, cluster):
    """On the same windows of the same trace."""
    alone = evaluate(trace, cluster, [MODELS[0], "srf", "saf", "sjf"], **HOW)
    cell = made.cell("one", "wide")
    ours = alone.test.index("one")
    assert cell.value == alone.test.mean(ours, "wait")
    assert cell.to_base["wait"] == alone.test.ratio(ours, alone.test.index("srf"))
    assert cell.to_static["slowdown"] == alone.test.ratio(ours, alone.test.index(cell.static), "slowdown")


def test_the_best_rule_is_chosen_on_the_validation_part(made, trace, cluster):
    """Of the rules given."""
    chosen = evaluate(trace, cluster, ["saf", "sjf"], **HOW, select=True).choices[0]
    assert made.cell("one", "wide").static == chosen.pipeline.label


def test_a_gap_is_the_share_of_the_greater():
    """0.5 of theirs is a gap of 50 %, twice theirs one of -50 %; its interval turns round."""
    assert gap(Interval(0.5, 0.4, 0.8)) == Interval(0.5, pytest.approx(0.2), pytest.approx(0.6))
    assert gap(Interval(2.0, 1.0, 4.0)) == Interval(-0.5, -0.75, 0.0)
    assert gap(Interval(2.0, 1.0, 4.0), higher_is_better=True) == Interval(0.5, 0.0, 0.75)
    assert np.isnan(gap(Interval(0.5, np.nan, np.nan)).low)


def test_a_rule_is_measured_against_fcfs():
    """A model against what it was trained against."""
    assert base_of(get_policy("saf")) == "fcfs"
    assert base_of(MODELS[0]) == "srf"


def test_a_model_that_is_the_best_rule_is_compared_with_itself(trace, cluster):
    """And stands at exactly 1."""
    got = transfer(["saf"], [Ground("t", trace, cluster)], ["saf"], **HOW, backfill="easy")
    cell = got.cells[0]
    assert (cell.model, cell.static, cell.base) == ("saf + easy", "saf + easy", "fcfs + easy")
    assert cell.to_static["wait"] == Interval(1, 1, 1)


def test_the_matrix_and_its_json(made):
    """One row a model, one column a trace."""
    console = Console(width=200, file=io.StringIO())
    console.print(matrix(made))
    text = console.file.getvalue()
    assert all(part in text for part in ("one", "two", "wide", "narrow", "to srf", "disjoint windows"))
    told = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert len(told["cells"]) == 4
    assert told["cells"][0]["gap_to_base"]["estimate"] == gap(made.cells[0].to_base["wait"]).estimate


def test_a_trace_named_twice_is_refused(trace, cluster):
    """Its columns could not be told apart."""
    with pytest.raises(InputError, match="each once"):
        transfer(MODELS, [Ground("t", trace, cluster)] * 2, ["saf"], **HOW)
