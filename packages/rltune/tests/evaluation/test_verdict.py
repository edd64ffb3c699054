from dataclasses import replace

import numpy as np
import pytest

from rltune import Cluster, Jobs, compare
from rltune.evaluation.verdict import verdict
from rltune.report import write_report
from rltune.trials.intervals import Interval

CLUSTER = Cluster.uniform(1, 8)


def jobs(n=2000, gpus=None, seed=0):
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0, 300.0 * n, n))
    asked = rng.choice([1, 2, 4, 8], n) if gpus is None else gpus
    return Jobs.from_arrays(submit, rng.exponential(550, n) + 1, asked)


@pytest.fixture(scope="module")
def clear():
    return compare(jobs(8000), CLUSTER, ["fcfs", "saf"], ["none"], estimator="oracle")


def test_a_winner_is_named_against_the_runner_up(clear):
    told = verdict(clear)
    assert told.startswith("Best mean wait: saf, ")
    assert "shown to be better than the runner-up, fcfs (ratio 0." in told


def test_the_headline_has_one_interval_of_two_and_it_agrees_with_what_is_said(clear):
    """The ratio's, which decides. What is compared may be 0 everywhere: then there is only a difference."""
    told = verdict(clear)
    found = clear.ratio_between("saf", "fcfs")
    assert told.count(f"(ratio {found.estimate:.3f} [unknown, {found.high:.3f}]") == 2
    assert found.high < 1
    assert "] min" not in told
    assert "] h" not in told
    calm = compare(jobs(400, np.ones(400)), CLUSTER, ["fcfs", "saf"], ["none"], estimator="oracle")
    assert "ratio" not in verdict(calm)


def test_what_is_alike_is_not_told_apart():
    """Best fit and first fit on one node are the same; a rule that hardly differs has no winner."""
    same = compare(jobs(400), CLUSTER, ["saf"], ["none"], ["best-fit", "first-fit"], estimator="oracle")
    assert verdict(same).startswith("No difference: saf and saf, first-fit")
    near = compare(jobs(400), CLUSTER, ["sjf", "saf", "fcfs"], ["easy"], estimator="oracle", baseline="fcfs")
    assert verdict(near).startswith("No difference shown between the first two by mean wait")


def test_who_is_shown_to_be_better_is_named_though_another_looks_best(clear):
    """The best may vary too much; that nothing is better would be wrong then."""
    saf, fcfs = clear.standings[1], clear.standings[0]
    lucky = replace(saf, label="lucky", value=saf.value / 2, difference=Interval(-1.0, -9.0, 9.0))
    third = replace(clear.contenders[1], label="lucky")
    runs = (*clear.runs, *(replace(run, contender=2) for run in clear.runs if run.contender == 1))
    three = replace(clear, contenders=(*clear.contenders, third), standings=(fcfs, saf, lucky), runs=runs)
    assert "saf is shown to be better than the baseline" in verdict(three)


def test_where_there_is_no_bound_none_is_told(clear):
    """On a real Slurm, with turns, no bound is worked out; a dash above it would be no answer."""
    assert "above a bound" in verdict(clear)
    unknown = replace(clear, standings=tuple(replace(one, gap=float("nan")) for one in clear.standings))
    assert "above a bound" not in verdict(unknown)


def test_a_cluster_whose_replays_are_for_ranking_only_gives_no_sizes():
    marked = replace(CLUSTER, calibrated=True, usable_for="ranking")
    told = [verdict(compare(jobs(400), on, ["fcfs", "saf"], estimator="oracle")) for on in (CLUSTER, marked)]
    assert ["usable for ranking only" in one for one in told] == [False, True]


def test_jobs_that_never_ran_come_first():
    asked = np.where(np.arange(400) % 20 == 0, 9, 1)
    told = verdict(compare(jobs(400, asked), CLUSTER, ["fcfs", "saf"], ["none"], estimator="oracle", windows="whole"))
    assert told.startswith("20 of 400 jobs (5.0 %) never ran and are in no mean.")


def test_a_simulated_warm_up_is_said(clear):
    assert verdict(clear).endswith("filled by a simulated warm-up.")
    assert "warm-up" not in verdict(compare(jobs(400), CLUSTER, ["fcfs"], windows="whole"))


def test_the_page_says_the_same(clear, tmp_path):
    page = write_report(clear, tmp_path / "a.html").read_text()
    assert "shown to be better than the runner-up, fcfs" in page


def test_a_comparison_in_which_nobody_waits_says_so(clear):
    calm = compare(jobs(400, np.ones(400)), CLUSTER, ["fcfs", "saf"], ["none"], estimator="oracle")
    assert "Hardly anybody waits under fcfs" in verdict(calm)
    assert "Hardly anybody" not in verdict(clear)


def test_a_cluster_whose_replays_tell_nothing_is_said_to_be_one():
    """`rltune tune` does not act on it, so the reader of a comparison must know."""
    doubted = replace(CLUSTER, usable_for="neither")
    told = [verdict(compare(jobs(400), on, ["fcfs", "saf"], windows="whole")) for on in (CLUSTER, doubted)]
    assert ["usable neither for ranking nor for sizes" in one for one in told] == [False, True]
