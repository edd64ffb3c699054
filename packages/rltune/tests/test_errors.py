"""Unknown words: what was meant, and what there is."""

import pytest

import rltune
from rltune.errors import nearest, unknown
from rltune.model.feature_sets import get_recipe
from rltune.trace import load, synthesise
from rltune.trace.anonymise import anonymise

JOBS = rltune.Jobs.from_arrays([0.0], [10.0], [1])
CLUSTER = rltune.Cluster.uniform(1, 1)


def test_the_nearest_word_is_offered_and_all_are_listed():
    assert str(unknown("fruit", "aple", ["apple", "pear"])) == (
        "no fruit 'aple'; did you mean apple? there are: apple, pear"
    )


def test_two_letters_that_changed_places_are_nearer_than_a_wrong_one():
    """By difflib alone saf and srf are as near to sfa, and the order of the words decides."""
    for words in (["srf", "saf"], ["saf", "srf"]):
        assert "did you mean saf?" in str(unknown("policy", "sfa", words))
        assert "did you mean srf?" in str(unknown("policy", "SFR", words))
    assert nearest("saf", ["saf", "sfa"]) == "saf"
    assert nearest("ab", ["xy", "uv"]) is None


def test_nothing_is_offered_if_nothing_is_near():
    assert str(unknown("fruit", "stone", ["apple", "pear"])) == "no fruit 'stone'; there are: apple, pear"
    assert str(unknown("fruit", "stone", [])) == "no fruit 'stone'; there is none"


def test_purpose_and_more_are_said_where_they_belong():
    assert str(unknown("fruit", "stone", ["pear"], "to eat", more=", or your own")) == (
        "no fruit 'stone' to eat; there are: pear, or your own"
    )


def test_a_form_is_known_by_its_name_and_capitals_do_not_matter():
    assert "did you mean noisy[:sigma]?" in str(unknown("estimator", "Noisi", ["noisy[:sigma]"]))


def test_a_word_that_is_known_elsewhere_is_not_offered_for_itself():
    assert "did you mean" not in str(unknown("features", "sampled", ["sampled"], "here"))


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        (lambda: rltune.simulate(JOBS, CLUSTER, policy="safe"), "saf"),
        (lambda: rltune.simulate(JOBS, CLUSTER, backfill="esay"), "easy"),
        (lambda: rltune.simulate(JOBS, CLUSTER, placement="bestfit"), "best-fit"),
        (lambda: rltune.simulate(JOBS, CLUSTER, estimator="hystory"), "history"),
        (lambda: rltune.simulate(JOBS, CLUSTER, head="gobal"), "global"),
        (lambda: rltune.simulate(JOBS, CLUSTER, policy="learned:phily"), "philly"),
        (lambda: rltune.compare(JOBS, CLUSTER, ["fcfs"], metric="slow-down"), "slowdown"),
        (lambda: rltune.compare(JOBS, CLUSTER, ["fcfs"], estimator="oracle", baseline="fcf"), "fcfs"),
        (lambda: rltune.evaluate(JOBS, CLUSTER, ["fcfs"], metric="weight"), "wait"),
        (lambda: rltune.Cluster.preset("phily-slice"), "philly-slice"),
        (lambda: rltune.Cluster.load("phily-slice"), "philly-slice"),
        (lambda: load("anywhere", "sact"), "sacct"),
        (lambda: synthesise("phily", jobs=5), "philly"),
        (lambda: anonymise(JOBS, keep=["usr"]), "user"),
        (lambda: get_recipe("wyde"), "wide"),
    ],
)
def test_wherever_a_word_is_refused_the_nearest_is_offered(wrong, meant):
    with pytest.raises(rltune.InputError, match=rf"^no .*; did you mean {meant}\? there are: "):
        wrong()
