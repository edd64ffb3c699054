"""A portfolio takes what served earlier jobs best, from nothing later, and says what it took."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from rltune import Cluster, Jobs, compare, evaluate, simulate
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.errors import InputError
from rltune.policy import get_policy
from rltune.policy.base import Policy
from rltune.trials import portfolio_choice
from rltune.trials.portfolio_choice import PastWindow, best_member
from rltune.trials.trial import Trial

SIZE = 256
ROW = 8 * SIZE


@pytest.fixture(scope="module")
def jobs():
    """Return bursts on a small cluster: a long job of one GPU beside short ones that ask for all of them."""
    rng = np.random.default_rng(1)
    n = 10 * SIZE
    wide = rng.random(n) < 0.5
    return Jobs.from_arrays(
        submit_s=np.sort(rng.uniform(0, 300.0 * n, n)),
        duration_s=np.where(wide, 100.0, 2_000.0) * rng.uniform(0.5, 1.5, n),
        gpus=np.where(wide, 4, 1),
    )


@pytest.fixture(scope="module")
def cluster():
    """Return four GPUs."""
    return Cluster.uniform(1, 4)


def test_without_enough_windows_the_first_member_is_taken(jobs, cluster):
    """Five windows are too few, and a run of which nothing came before has none: then it is the network."""
    trial = Trial(jobs, cluster, "oracle")
    assert trial.settled(parse_pipeline("portfolio"), 5 * SIZE, SIZE).policy.name == "portfolio=learned:anywhere"
    assert trial.run(parse_pipeline("portfolio"), 0, SIZE).settings.policy == "portfolio=learned:anywhere"
    alone = simulate(jobs.window(0, SIZE), cluster, "portfolio")
    assert alone.settings.policy == "portfolio=learned:anywhere"
    assert alone.start_s.tolist() == simulate(jobs.window(0, SIZE), cluster, "learned").start_s.tolist()


def test_where_a_network_cannot_order_the_rule_is_taken(jobs, cluster):
    """Networks do not order jobs that take turns by the policy's own order."""
    turns = parse_pipeline("portfolio+preempt:policy", "easy")
    assert Trial(jobs, cluster, "oracle").settled(turns, 5 * SIZE, SIZE).policy.name == "portfolio=saf"
    alone = simulate(jobs.window(0, SIZE), cluster, "portfolio+preempt:policy", "easy")
    assert alone.settings.policy.startswith("portfolio=saf")


@pytest.mark.parametrize("metric", ["wait", "slowdown"])
def test_the_best_of_the_history_is_taken(jobs, cluster, metric):
    """By hand: no member has a lower mean over the windows than what is taken, but for what is not worth it."""
    trial = Trial(jobs, cluster, "oracle")
    spec = "portfolio" if metric == "wait" else f"portfolio:{metric}"
    taken = trial.settled(parse_pipeline(spec), ROW, SIZE).policy.name.partition("=")[2]
    means = {}
    for rule in ("saf", "sjf", "srf", "fcfs", "wfp3", "unicep", "f1", "learned:anywhere"):
        made = [trial.run(parse_pipeline(rule), first, SIZE) for first in range(0, ROW, SIZE)]
        means[rule] = np.mean([s.wait_s.mean() if metric == "wait" else s.bounded_slowdown.mean() for s in made])
    assert means[taken] < 1.03 * min(means.values())
    assert means[taken] < 0.98 * means["fcfs"]


def test_what_comes_later_changes_nothing(jobs, cluster):
    """Neither jobs that are submitted later nor what is left of jobs that run at the moment of the choice."""
    now_s = jobs.submit_s[ROW]
    running = jobs.submit_s + jobs.duration_s > now_s
    assert running[:ROW].any()
    other = jobs.with_columns(duration_s=np.where(running, jobs.duration_s * 50 + 1e6, jobs.duration_s))
    one, two = Trial(jobs, cluster, "history"), Trial(other, cluster, "history")
    windows = [trial.settled(parse_pipeline("portfolio"), ROW, SIZE) for trial in (one, two)]
    assert windows[0].policy.name == windows[1].policy.name
    assert_same_values(one, two)


def assert_same_values(one, two):
    values = [trial._choices[0]._measured for trial in (one, two)]
    assert list(values[0]) == list(values[1])
    assert all(np.array_equal(values[0][key], values[1][key]) for key in values[0])


def test_a_running_job_counts_with_what_it_had_run():
    """The truth is cut at the moment of the choice; where a start is recorded, it is counted from there."""
    known = Jobs.from_arrays(submit_s=[0.0, 10.0, 20.0], duration_s=[5.0, 500.0, 500.0], gpus=[1, 1, 1])
    known = known.with_columns(recorded_start_s=np.array([np.nan, np.nan, 60.0]))
    assert PastWindow(0, 3, 100.0).known(known).duration_s.tolist() == [5.0, 90.0, 40.0]


def test_the_prior_stays_unless_another_is_better_beyond_chance():
    """One per cent is not worth a change; neither is one lucky window, nor many that are outweighed by a long queue."""
    base = np.full(20, 1_000.0)
    noise = np.random.default_rng(0).uniform(0.5, 1.5, 20)
    assert best_member(np.array([base, 0.99 * base]), prior=0) == 0
    assert best_member(np.array([base, 0.9 * base]), prior=0) == 1
    assert best_member(np.array([base, 0.95 * noise * base]), prior=0) == 0
    lucky, unlucky = 1.2 * base, 0.9 * base
    base[3], lucky[3], unlucky[3] = 20_000.0, 10_000.0, 24_000.0
    assert best_member(np.array([base, lucky, unlucky]), prior=0) == 0


def test_windows_in_which_nobody_waits_decide_nothing():
    """Some seconds against none are no ratio."""
    base = np.array([1_000.0, 900.0, 0.0, 0.0, 0.0])
    assert best_member(np.array([base, [800.0, 720.0, 5.0, 5.0, 5.0]]), prior=0) == 0
    assert best_member(np.array([base, [300.0, 270.0, 5.0, 5.0, 5.0]]), prior=0) == 0
    assert best_member(np.array([base[:2], [800.0, 720.0]]), prior=0) == 1


def test_who_is_far_behind_is_not_run_to_the_end(jobs, cluster):
    """Members that lose on a few windows beyond chance are spared the others."""
    trial = Trial(jobs, cluster, "oracle")
    trial.settled(parse_pipeline("portfolio"), ROW, SIZE)
    runs = Counter(settings.policy for settings, _ in trial._choices[0]._measured)
    assert runs["learned:anywhere"] == 8
    assert min(runs.values()) == 6


def test_a_network_that_was_taught_by_the_history_is_left_out(jobs, cluster, monkeypatch):
    """It would look better there than it is; only the first member stays, whom nobody needs to choose."""
    monkeypatch.setattr(portfolio_choice, "leaks", lambda policies, _: [p for p in policies if "learned" in p.name])
    usual = get_policy("portfolio")
    for members, tried in (
        (("saf", "learned", "sjf"), {"saf", "sjf"}),
        (("learned", "learned:philly", "saf"), {"learned", "saf"}),
    ):
        trial = Trial(jobs, cluster, "oracle")
        trial.settled(parse_pipeline(replace(usual, members=members)), ROW, SIZE)
        assert {settings.policy for settings, _ in trial._choices[0]._measured} == tried


def test_evaluate_and_compare_say_what_was_taken(jobs, cluster):
    """A reader sees the rule, not only the portfolio."""
    made = evaluate(jobs, cluster, ["portfolio", "saf"], ["easy"], size=128, holdout=0.15, contended_s=0.0)
    assert any(note.startswith("portfolio + easy took ") for note in made.to_dict()["notes"])
    compared = compare(jobs, cluster, ["portfolio:slowdown", "saf"], windows="steady:0.9")
    assert any(note.startswith("portfolio:slowdown took ") for note in compared.notes)


def test_it_is_a_policy_by_name():
    """Every command takes it; a metric that it does not know is refused."""
    assert isinstance(get_policy("portfolio"), Policy)
    assert get_policy("portfolio:slowdown").name == "portfolio:slowdown"
    with pytest.raises(InputError, match="makespan"):
        get_policy("portfolio:makespan")
