"""Which pipeline to run: chosen on the middle part, tested on the last, the same however it is computed."""

import json
import tomllib

import numpy as np
import pytest

from rltune import Cluster, Jobs, simulate
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.errors import InputError
from rltune.live.control_settings_file import load_settings
from rltune.tune import tune
from rltune.tune.halving import JOBS_A_MINUTE, Rounds, Scoreboard, halve
from rltune.tune.stretches import BlockSums, HistoryStretch
from rltune.tune.tried_pipelines import Candidate, opening, usual_now, variations
from rltune.tune.tuning import Advice
from rltune.tune.tuning_page import render_tuning
from rltune.tune.tuning_text import sentences, settings_file

CLUSTER = Cluster.uniform(2, 8)


def history(n=3000, load=0.85, seed=0):
    """Jobs of which some are large and long; recorded starts are those of FCFS without backfilling."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 4, 8], n, p=[0.6, 0.2, 0.1, 0.1])
    duration = rng.lognormal(5.5, 1.2, n)
    submit = np.sort(rng.uniform(0, (gpus * duration).sum() / (16 * load), n))
    user = [f"u{i}" for i in rng.integers(0, 6, n)]
    bare = Jobs.from_arrays(submit, duration, gpus, limit_s=duration * rng.uniform(1, 4, n), user=user)
    return bare.with_columns(recorded_start_s=simulate(bare, CLUSTER, "fcfs").start_s)


@pytest.fixture(scope="module")
def jobs():
    return history()


@pytest.fixture(scope="module")
def made(jobs, tmp_path_factory):
    kept = tmp_path_factory.mktemp("tune") / "runs"
    return tune(jobs, CLUSTER, "fcfs", models=[], minutes=2, kept=kept), kept


def test_a_poor_pipeline_is_to_be_changed_and_the_last_part_bears_it_out(made):
    tuning, _ = made
    assert tuning.answer is Advice.CHANGE
    assert tuning.borne_out
    assert tuning.resumed
    assert tuning.values[1] < 0.7 * tuning.values[0]
    assert sentences(tuning)[0].startswith(f"Change to {tuning.chosen.label}")
    assert {name for name, _ in tuning.decided} & {"policy", "backfill"}
    assert {share.kind for share in tuning.shares} == {"size", "user"}


def test_the_last_part_is_reported_as_it_is(made, jobs):
    """Mean waits of the chosen and of what there is now are those of simulations of the last part alone."""
    tuning, _ = made
    first = tuning.parts[2].first
    got = simulate(jobs, CLUSTER, "fcfs").wait_s[first:].mean()
    assert tuning.values[0] == pytest.approx(got, rel=0.01)  # on two nodes running jobs may lie elsewhere


def test_what_is_best_already_stays(made, jobs):
    tuning, _ = made
    best = tuning.chosen
    again = tune(jobs, CLUSTER, best.pipeline.label, now_estimator=best.estimator, models=[], minutes=2)
    assert again.answer is Advice.STAY
    assert "Stay with what you have" in sentences(again)[0]
    assert not again.decided


def test_finished_runs_are_not_run_again(made, jobs):
    """Nor does a line that was cut off do harm."""
    tuning, kept = made
    with kept.open("a") as file:
        file.write('{"run": "half')
    told = []
    again = tune(
        jobs, CLUSTER, "fcfs", models=[], minutes=2, kept=kept, progress=lambda *progress: told.append(progress)
    )
    assert not told
    assert again.to_dict() == tuning.to_dict()


def test_a_short_history_is_told_how_much_is_missing(jobs):
    short = tune(jobs.window(0, 500), CLUSTER, models=[])
    assert short.answer is Advice.TOO_LITTLE
    assert sentences(short) == ["Too little history to tell: 500 jobs; at least 2,000 are needed."]
    json.dumps(short.to_dict(), allow_nan=False)
    assert "Too little" in render_tuning(short)


def test_a_gain_that_chance_may_explain_asks_for_more(jobs):
    """Waits of one queue in 2,000 jobs: two rules that are near each other cannot be told apart."""
    calm = tune(history(2000, load=0.5, seed=3), CLUSTER, "saf + easy", now_estimator="history", models=[], minutes=1)
    assert calm.answer is not Advice.CHANGE
    if calm.answer in {Advice.TOO_LITTLE, Advice.LIKELY}:
        assert calm.needed_jobs > calm.jobs


def test_the_settings_are_those_that_a_controller_takes(made, tmp_path):
    tuning, _ = made
    path = tmp_path / "ours.toml"
    path.write_text(settings_file(tuning))
    read = load_settings(path).pipeline
    assert (read.policy, read.backfill) == (tuning.chosen.pipeline.policy_name, tuning.chosen.pipeline.backfill)
    assert read.estimator == tuning.chosen.estimator == tomllib.loads(path.read_text())["pipeline"]["estimator"]


def test_the_page_says_the_same(made):
    tuning, _ = made
    page = render_tuning(tuning, "mine")
    assert f"Change to {tuning.chosen.label.split(' ')[0]}" in page
    assert "[pipeline]" in page


def test_what_cannot_be_tuned_is_refused(jobs):
    with pytest.raises(InputError, match="cannot be tuned for"):
        tune(jobs, CLUSTER, metric="makespan")
    with pytest.raises(InputError, match="minutes"):
        tune(jobs, CLUSTER, minutes=0)


def test_halving_counts_its_work_beforehand(jobs):
    """Whatever the length of the history, rounds cost no more than the budget; what there is now is never lost."""
    now = usual_now(jobs)
    first = opening(now, [], ("history",))
    for n in (10_000, 1_000_000, 10_000_000):
        rounds = Rounds.of(HistoryStretch(0, n), first, 5.0)
        spent = [0.0]

        def run(tasks, spent=spent):
            spent[0] += sum(c.cost * len(s) for c, s in tasks)
            return [BlockSums((float(len(c.label)),), (1.0,), 0) for c, _ in tasks]

        left = halve(first, rounds, now, Scoreboard(), run)
        assert spent[0] <= 5.0 * JOBS_A_MINUTE
        assert now.label in {c.label for c in left}
        assert left[0].label == min((c.label for c in first), key=len)


def test_one_part_is_changed_at_a_time():
    base = Candidate(parse_pipeline("saf", "easy"), "history")
    for other in variations([base], solver=True):
        assert len(other.changes_from(base)) <= 1
    assert len(variations([base], solver=True)) == 8
