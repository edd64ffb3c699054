"""Section 5.6: what is said of runs, with how much certainty, and how long it will take."""

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from experiment_records import record_of

from rltune.lab import slurm_here
from rltune.lab.deployment import run_deployment as whole
from rltune.lab.deployment.deployment_result import Deployment
from rltune.lab.deployment.use_picture import draw_use
from rltune.lab.experiment.experiment_plan import ALONE, path_of
from rltune.lab.experiment.experiment_result import ExperimentResult
from rltune.lab.experiment.run_record import as_schedule
from rltune.lab.testbed import debian_needs as needs
from rltune.text import seconds

JOBS = 40


def fill(folder, plan):
    """Put the records of all runs into a folder."""
    plan.keep_in(folder)
    for arm, seed in plan.runs():
        record_of(plan, arm, seed).write(path_of(folder, arm, seed))


@pytest.fixture
def plan():
    return whole.deployment_plan(jobs=JOBS, seeds=2, policy="wfp3")


@pytest.fixture
def result(tmp_path, plan):
    fill(tmp_path, plan)
    return ExperimentResult.of(plan, tmp_path)


def test_gains_are_relative_to_slurm_alone(result):
    """By wait, makespan and utilisation, of both arms, and seed by seed."""
    made = Deployment.of(result)
    by_run = {(run.arm, run.seed): run for run in made.runs}
    assert [(gain.arm, gain.measure) for gain in made.gains] == [
        (arm, measure) for arm in ("saf", "wfp3") for measure in ("wait", "makespan", "utilisation")
    ]
    gain = made.gain("saf", "wait")
    ours, theirs = ([by_run[arm, seed].wait_s for seed in (1, 2)] for arm in ("saf", ALONE))
    assert gain.change == pytest.approx(np.mean(ours) / np.mean(theirs) - 1)
    assert gain.by_seed == pytest.approx(np.array(ours) / np.array(theirs) - 1)
    assert gain.difference == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert gain.better_in == sum(np.array(ours) < np.array(theirs))
    assert json.dumps(made.to_dict(), allow_nan=False)


def test_an_interval_is_told_from_three_seeds_on(tmp_path, result):
    """With fewer it is said that it cannot be told."""
    few = Deployment.of(result)
    assert {(gain.change_low, gain.change_high) for gain in few.gains} == {(None, None)}
    assert few.notes[0].startswith("2 seed(s) are too few for an interval: it takes 3")
    plan = replace(result.plan, seeds=(1, 2, 3))
    fill(tmp_path / "more", plan)
    more = Deployment.of(ExperimentResult.of(plan, tmp_path / "more"))
    wait = more.gain("saf", "wait")
    assert wait.change_low < wait.change < wait.change_high
    assert not any("too few" in note for note in more.notes)


def test_use_over_time_sums_up_to_what_the_jobs_took(result):
    """All runs of a seed have the same axis."""
    made = Deployment.of(result)
    assert len(made.use) == len(result.records)
    for use, record in zip(made.use, result.records, strict=True):
        assert (use.arm, use.seed) == (record.arm.name, record.seed)
        schedule = as_schedule(record, result.plan)
        busy = float(schedule.jobs.gpus @ (schedule.end_s - schedule.start_s))
        assert sum(use.share) * use.step_s * 13 == pytest.approx(busy, rel=1e-3)
    assert len({use.step_s for use in made.use if use.seed == 1}) == 1
    drawn = ET.fromstring(draw_use(made.use))
    assert {text.text for text in drawn if text.tag.endswith("text")} >= {ALONE, "saf", "wfp3"}


def test_the_time_it_takes_is_shared_by_workers(tmp_path, plan):
    """Runs that are there take none, and the longest run is the least."""
    nothing = tmp_path / "nothing"
    alone_s = whole.estimate_deployment_s(nothing, plan, 1)
    assert whole.estimate_deployment_s(nothing, plan, 2) == pytest.approx(alone_s / 2)
    assert alone_s / 6 < whole.estimate_deployment_s(nothing, plan, 16) < alone_s / 2
    fill(tmp_path, plan)
    assert whole.estimate_deployment_s(tmp_path, plan, 1) == 0


def test_runs_that_are_there_are_not_made_again(tmp_path, plan, monkeypatch):
    """Pictures and numbers are in the folder."""
    monkeypatch.setattr(needs, "missing", lambda **_: "")
    fill(tmp_path, plan)
    told = []
    made = whole.run_deployment(tmp_path, JOBS, 2, "wfp3", progress=lambda *progress: told.append(progress))
    assert not told
    assert len(made.runs) == 6
    written = {"gantt.svg", "utilisation.svg", "deployment.json", "result.json", "report.html"}
    assert written < {path.name for path in tmp_path.iterdir()}
    kept = json.loads((tmp_path / "deployment.json").read_text())
    assert kept["gains"][0]["change_low"] is None


def test_the_time_it_takes_is_told_before_anything_starts(tmp_path, plan, monkeypatch):
    """Of the runs that are missing."""
    monkeypatch.setattr(needs, "missing", lambda **_: "")
    monkeypatch.setattr(whole, "perform", lambda *_: None)
    fill(tmp_path, plan)
    path_of(tmp_path, plan.arms[1], 2).unlink()
    told = []
    whole.run_deployment(tmp_path, JOBS, 2, "wfp3", progress=lambda *progress: told.append(progress))
    assert told == [(0, 240, f"takes about {seconds(whole.estimate_deployment_s(tmp_path, plan))}")]


def test_why_there_can_be_no_slurm(monkeypatch):
    """One sentence, or nothing."""
    monkeypatch.setattr(needs.shutil, "which", lambda _: None)
    monkeypatch.setattr(needs.os, "geteuid", lambda: 0)
    assert slurm_here.slurm_available().startswith("a testbed needs Debian's packages munge")
    monkeypatch.setattr(needs.os, "geteuid", lambda: 1000)
    assert slurm_here.slurm_available() == "a testbed needs root: Slurm's daemons start jobs as their users"
    monkeypatch.setattr(slurm_here, "missing", lambda **_: "")
    assert slurm_here.slurm_available() is None
