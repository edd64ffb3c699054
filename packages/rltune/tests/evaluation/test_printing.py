"""Results print themselves in a few lines, and as HTML in a notebook."""

import pytest
from learn.looking import a_model

from rltune import compare, evaluate
from rltune.evaluation.transfer import Ground, transfer
from rltune.evaluation.verdict import verdict
from rltune.policy.learned import Learned

HOW = {"holdout": 0.25, "size": 60, "every": 15, "contended_s": 30.0}


@pytest.fixture(scope="module")
def comparison(trace, cluster):
    return compare(trace, cluster, ["fcfs", "saf"], ["none", "easy"], estimator="history", baseline="fcfs")


def test_a_comparison_prints_the_best_first_against_the_baseline(comparison):
    head, told, *lines = repr(comparison).splitlines()
    assert told.strip() == verdict(comparison)
    assert head.startswith("Comparison by mean wait, 1 window: whole trace")
    assert "estimates: history" in head
    standings = sorted(comparison.standings, key=lambda s: s.value)
    for standing, line in zip(standings, lines, strict=False):
        assert line.startswith(f"  {standing.label} ")
        assert line.endswith("baseline" if standing.label == "fcfs" else " of fcfs")
    assert str(comparison) == repr(comparison)


def test_a_comparison_of_many_jobs_prints_no_more_than_one_of_few(comparison):
    assert len(repr(comparison)) < 2000
    assert len(repr(comparison.runs[0])) < 5000


def test_by_a_metric_where_more_is_better_the_greatest_is_first(comparison):
    by_use = comparison.against("fcfs", "utilisation")
    best = max(by_use.standings, key=lambda s: s.value)
    assert repr(by_use).splitlines()[2].startswith(f"  {best.label} ")


def test_what_must_be_known_is_printed(trace, cluster):
    made = compare(trace.window(0, 50), cluster, ["fcfs"], estimator="oracle")
    assert "Estimates are the true run times, which no real scheduler knows." in repr(made)


def test_many_pipelines_are_cut(trace, cluster):
    rules = ["fcfs", "sjf", "srf", "saf", "f1", "wfp3", "unicep"]
    made = compare(trace.window(0, 40), cluster, rules, ["none", "easy"], estimator="oracle")
    assert "  ... and 2 more pipelines; .table() has all" in repr(made).splitlines()


def test_a_comparison_is_html(comparison):
    html = comparison._repr_html_()
    assert html.count("<tr>") == 1 + len(comparison.standings)
    assert "saf + easy" in html
    assert len(html) < 20_000


@pytest.fixture(scope="module")
def evaluation(trace, cluster):
    return evaluate(trace, cluster, ["saf", "sjf"], ["none", "easy"], **HOW, baseline="saf")


def test_an_evaluation_prints_every_pipeline_over_the_reference(evaluation):
    head, *lines = repr(evaluation).splitlines()
    assert head.startswith("Evaluation by mean wait; test part: jobs 1,500 to 1,999")
    best = evaluation.labels[evaluation.best]
    assert lines[0].startswith(f"  {best} ")
    assert sum(line.endswith(" of saf") for line in lines) == len(evaluation.labels) - 1
    assert any("Contended: " in line for line in lines)
    assert len(repr(evaluation)) < 3000


def test_an_evaluation_is_html(evaluation):
    assert "ratio to saf" in evaluation._repr_html_()
    assert "sjf + easy" in evaluation._repr_html_()


def test_a_transfer_prints_its_matrix(trace, cluster):
    model = Learned(a_model(seed=1, base="srf"), name="one")
    made = transfer([model], [Ground("wide", trace, cluster)], ["saf"], **HOW)
    assert "wide" in repr(made)
    assert "to srf" in repr(made)
    assert "to srf" in made._repr_html_()
