"""Models that were trained on what they are tested on are told."""

import pytest
from learn.looking import a_model

from rltune.evaluation import evaluate
from rltune.evaluation.evaluation_tables import honesty
from rltune.evaluation.transfer import Ground, transfer
from rltune.evaluation.transfer_tables import notes
from rltune.policy.learned import Learned
from rltune.trials.leak import fingerprint

HOW = {
    "holdout": 0.25,
    "size": 60,
    "every": 60,
    "contended_s": 30.0,
}  # of 2,000: validation from 1,000, test from 1,500


def trained_on(trace, first, end, **changes):
    card = {"trace_sha256": fingerprint(trace), "trained_on_jobs": [first, end], **changes}
    return Learned(a_model(card=card), name="net")


@pytest.mark.parametrize(
    ("end", "select", "told"),
    [
        (1000, True, []),
        (1500, False, []),
        (1500, True, ["500 of the 500 jobs of the validation part"]),
        (1600, False, ["100 of the 500 jobs of the test part"]),
        (1600, True, ["500 of the 500 jobs of the validation part", "100 of the 500 jobs of the test part"]),
    ],
)
def test_training_on_what_is_looked_at_is_told(trace, cluster, end, select, told):
    """For the validation part only where it is looked at."""
    got = evaluate(trace, cluster, [trained_on(trace, 0, end)], **HOW, select=select)
    warned = [line for line in honesty(got) if "was trained on" in line]
    assert [what in line for what, line in zip(told, warned, strict=True)] == [True] * len(told)


def test_another_trace_is_no_leak(trace, cluster):
    """The same rows of other jobs are other jobs; a model without a card tells nothing."""
    other = trained_on(trace, 0, 2000, trace_sha256="elsewhere")
    assert evaluate(trace, cluster, [other, Learned(a_model(), name="bare")], **HOW).warnings == ()


def test_a_transfer_tells_of_leaks_by_trace(trace, cluster):
    """So that one column is not believed."""
    made = transfer([trained_on(trace, 0, 2000)], [Ground("mine", trace, cluster)], ["saf"], **HOW)
    assert any(line.startswith("mine: net was trained on 500") for line in notes(made))


def test_the_trainer_names_traces_in_the_same_way(trace):
    """Or no leak would ever be found."""
    train = pytest.importorskip("rltune.learn.train", reason="torch is not installed")
    assert train.fingerprint(trace) == fingerprint(trace)
