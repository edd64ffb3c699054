"""Who may be displaced: a cluster's rules, a lot that belongs to the job, and what results say of it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltune import Cluster, InputError, Jobs, compare, simulate
from rltune.opt_in import at_cost, opted_in, told_of
from rltune.preemption_rules import PreemptionRule, parse_lot

GROUP = "[[group]]\ncount = 1\ngpus = 8\nvc = ['lab', 'prod']\n"


def cluster(tmp_path, rules):
    file = tmp_path / "cluster.toml"
    file.write_text(GROUP + rules)
    return Cluster.from_toml(file)


def with_rules(*rules):
    return Cluster(Cluster.uniform(1, 8).groups, preemption=rules)


def four(**columns):
    return Jobs.from_arrays(
        [0, 1, 2, 3], 5.0, 1, qos=["scavenge", "normal", "scavenge", None], user=["ann", "bob", "bob", "ann"], **columns
    )


def test_a_rule_by_name_fits_those_who_have_all_it_names(tmp_path):
    rules = "[[preemption]]\nqos = ['scavenge']\nuser = 'bob'\ncheckpoint = '5m'\nrestart = 30\n"
    jobs = opted_in(four(), cluster(tmp_path, rules))
    assert jobs.preemptible.tolist() == [False, False, True, False]
    assert jobs.checkpoint_s.tolist() == [np.inf, np.inf, 300, np.inf]
    assert jobs.restart_s.tolist() == [0, 0, 30, 0]


def test_the_first_rule_that_fits_counts():
    exception = PreemptionRule(user=("ann",), preemptible=False)
    everybody = PreemptionRule(checkpoint=60)
    scavengers = PreemptionRule(qos=("scavenge",), checkpoint=7)
    assert opted_in(four(), with_rules(exception, everybody)).preemptible.tolist() == [False, True, True, False]
    assert opted_in(four(), with_rules(everybody, exception)).preemptible.all()
    assert opted_in(four(), with_rules(scavengers, everybody)).checkpoint_s.tolist() == [7, 60, 7, 60]


def test_whom_no_rule_fits_keeps_what_the_trace_says():
    jobs = four(preemptible=[False, True, True, False], checkpoint_s=[np.inf, 1, 2, 3])
    ruled = opted_in(jobs, with_rules(PreemptionRule(qos=("scavenge",), checkpoint=9)))
    assert ruled.preemptible.tolist() == [True, True, True, False]
    assert ruled.checkpoint_s.tolist() == [9, 1, 9, 3]


def test_partition_is_another_word_for_vc(tmp_path):
    """The cluster's own VCs are known, even if no job of the trace is in one."""
    jobs = Jobs.from_arrays([0, 1], 5.0, 1, vc=["lab", None])
    assert opted_in(jobs, cluster(tmp_path, "[[preemption]]\npartition = 'lab'\n")).preemptible.tolist() == [
        True,
        False,
    ]
    assert not opted_in(jobs, cluster(tmp_path, "[[preemption]]\nvc = ['prod']\n")).preemptible.any()


@given(st.integers(0, 9), st.floats(0, 1), st.data())
def test_a_lot_is_the_jobs_own(seed, share, data):
    """Windows cut from a trace draw the same, in any order; applied again nothing changes."""
    ids = data.draw(st.lists(st.integers(0, 999), min_size=1, max_size=20, unique=True))
    rows = np.array(data.draw(st.lists(st.integers(0, len(ids) - 1), min_size=1, unique=True)))
    jobs = Jobs.from_arrays(np.arange(len(ids)), 5.0, 1, id=ids)
    on = with_rules(PreemptionRule(share=share, seed=seed))
    whole = opted_in(jobs, on)
    assert opted_in(jobs.take(rows), on).preemptible.tolist() == whole.preemptible[rows].tolist()
    assert opted_in(whole, on).preemptible.tolist() == whole.preemptible.tolist()


def test_a_share_is_about_that_share_and_holds_the_smaller_ones():
    jobs = Jobs.from_arrays(np.arange(20_000), 5.0, 1)
    drawn = [opted_in(jobs, with_rules(PreemptionRule(share=s))).preemptible for s in (0.0, 0.1, 0.3, 1.0)]
    np.testing.assert_allclose([d.mean() for d in drawn], [0, 0.1, 0.3, 1], atol=0.01)
    assert all((less <= more).all() for less, more in itertools.pairwise(drawn))
    other = opted_in(jobs, with_rules(PreemptionRule(share=0.3, seed=1))).preemptible
    assert 0.05 < (other & drawn[2]).mean() < 0.13  # independent of the other seed: 0.09


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ("qoss = ['a']", "no setting of a preemption rule 'qoss'; did you mean qos?"),
        ("share = 1.5", "share in [[preemption]] number 1 should be 1.0 or less, not 1.5"),
        (
            "checkpoint = 'soon'",
            "checkpoint in [[preemption]] number 1: 'soon' is no time; write seconds, or 90s, 10m, 2h",
        ),
        ("checkpoint = -1", "checkpoint in [[preemption]] number 1 should be 0 or more, not -1"),
        ("restart = inf", "restart in [[preemption]] number 1 should be a finite number"),
        ("vc = ['a']\npartition = 'b'", "vc and partition name the same column of a job; give one of them"),
        ("preemptible = false\nrestart = 5", "a rule with preemptible = false takes no checkpoint and no restart"),
    ],
)
def test_a_bad_rule_is_refused_with_one_sentence(rules, sentence, tmp_path):
    with pytest.raises(InputError) as error:
        cluster(tmp_path, f"[[preemption]]\n{rules}\n")
    assert sentence in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"qos": ("scavange",)}, "no QOS among the jobs 'scavange' .preemption rule 1.; did you mean scavenge"),
        ({"user": ("bop",)}, "no user among the jobs 'bop' .preemption rule 1.; did you mean bob"),
        ({"account": ("x",)}, "no account among the jobs 'x' .preemption rule 1.; there is none"),
    ],
)
def test_a_name_that_no_job_has_is_an_error_with_the_nearest_name(rule, sentence):
    """Also in a run: a rule that silently fits nobody is the worst."""
    on = with_rules(PreemptionRule(**rule))
    with pytest.raises(InputError, match=sentence):
        opted_in(four(), on)
    with pytest.raises(InputError, match=sentence):
        simulate(four(), on)


@pytest.mark.parametrize(
    ("text", "share", "seed"),
    [("30%", 0.3, 0), ("0.3", 0.3, 0), ("all", 1, 0), ("none", 0, 0), ("12.5%:seed=7", 0.125, 7)],
)
def test_a_share_in_words(text, share, seed):
    assert parse_lot(text) == PreemptionRule(share=share, seed=seed)


@pytest.mark.parametrize("text", ["", "some", "30%:lot=1", "30%:seed=x", "nan", "130%", "-1%"])
def test_a_share_that_cannot_be_is_refused(text):
    with pytest.raises(InputError, match="preemptible"):
        parse_lot(text)


def test_costs_change_for_the_willing_only():
    jobs = at_cost(four(preemptible=[True, False, True, False]), 30.0, 0.0)
    assert jobs.checkpoint_s.tolist() == [30, np.inf, 30, np.inf]
    assert jobs.restart_s.tolist() == [0, 0, 0, 0]
    with pytest.raises(InputError, match="no job is preemptible"):
        at_cost(four(), 30.0, None)


def test_results_say_who_was_willing_and_what_was_assumed():
    on = with_rules(PreemptionRule(qos=("scavenge",)))
    note = "2 of 4 jobs (50.0 %) may be preempted: checkpoints every 10.0 min, restarts of 2.0 min."
    assert told_of(opted_in(four(), on)) == (note,)
    assert note in compare(four(), on, ["fcfs"], ["none"]).notes
    assert told_of(four()) == ()
    mixed = four(preemptible=True, checkpoint_s=[0, 60, 600, np.inf], restart_s=[1, 2, 3, 4])
    assert told_of(mixed) == (
        "4 of 4 jobs (100.0 %) may be preempted: checkpoints every 0.0 s to all work lost, restarts of 1.0 s to 4.0 s.",
    )


def test_a_schedule_has_the_jobs_as_they_were_ruled():
    made = simulate(four(), with_rules(PreemptionRule(user=("bob",))))
    assert made.jobs.preemptible.tolist() == [False, True, True, False]
