"""The experiment with jobs that take turns: its profile, its arms, its account, and a small one on a real Slurm."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from experiment_records import as_ran
from real_slurm import require_slurm

from rltune.engine.simulate import simulate
from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.lab.experiment import checkpointing_job
from rltune.lab.experiment import prediction as predict
from rltune.lab.experiment.experiment_plan import TURNS_ARMS, Arm, ExperimentPlan, path_of
from rltune.lab.experiment.experiment_result import ExperimentResult
from rltune.lab.experiment.job_log import read_log
from rltune.lab.experiment.job_profiles import TURNS
from rltune.lab.experiment.one_run import control_settings
from rltune.lab.experiment.perform import perform
from rltune.lab.experiment.run_record import CutShort, Cycles, RunRecord, TurnMade, as_schedule
from rltune.live.pinned_pipeline import pin_pipeline

NODES = ("p100-1", "p100-2", "k80-1", "k80-2", "m40-1")
ALONE, TAKING = Arm("multifactor"), Arm.driven("sjf+preempt:policy:most=20")


@pytest.fixture
def plan():
    return ExperimentPlan((ALONE, TAKING), (1,), jobs=60, profile=TURNS)


def simulated(plan, arm):
    """Return what the simulator makes of an arm's jobs."""
    if not arm.turns:
        return simulate(plan.workload(1), plan.cluster, "fcfs", "whole-nodes", "best-fit", "user")
    return simulate(plan.workload(1), plan.cluster, arm.policy, "easy", estimator="user", preempt=arm.preempt)


def record_of(plan, arm):
    """Make the record of a run that went as simulated, with all its spells."""
    made = simulated(plan, arm)
    spells, jobs = made.spells, list(as_ran(made))
    for row, job in enumerate(jobs):
        *cut, last = np.flatnonzero(spells.job == row).tolist()
        nodes = {i: tuple(NODES[node] for node, _ in spells.placements[i]) for i in (*cut, last)}
        jobs[row] = replace(
            job,
            start_s=1e9 + spells.start_s[last],
            cut_short=tuple(CutShort(1e9 + spells.start_s[i], 1e9 + spells.end_s[i], nodes[i]) for i in cut),
            lost_s=float(made.lost_s[row]),
        )
    turns = (TurnMade(1, "started", 20.0), TurnMade(2, "not started", None)) if arm.turns else ()
    return RunRecord(arm, 1, tuple(jobs), Cycles(10), 60.0, "22.05.8", turns)


def test_the_profile_stretches_jobs_and_draws_who_agrees(plan):
    """Run times are six times as long, and about half may be displaced; who is drawn depends on the seed alone."""
    short, long = replace(plan, profile="short", arms=(ALONE,)).workload(1), plan.workload(1)
    assert np.allclose(long.duration_s, 6 * short.duration_s)
    assert np.allclose(long.limit_s, 6 * short.limit_s)
    assert not short.preemptible.any()
    assert 0.3 < long.preemptible.mean() < 0.7
    assert (replace(plan, jobs=30).workload(1).preemptible == long.preemptible[:30]).all()
    assert set(long.checkpoint_s[long.preemptible]) == {300.0}
    assert set(long.restart_s[~long.preemptible]) == {0.0}


def test_an_arm_tells_its_turns_from_its_policy():
    """The controller has the order under [preempt]; numbers that it does not know are refused."""
    assert (TAKING.policy, TAKING.name) == ("sjf", "sjf-preempt-policy-most-20")
    assert (TAKING.turns.order, TAKING.turns.max_preemptions) == ("policy", 20)
    assert not ALONE.turns
    with pytest.raises(InputError, match=r"takes an order, run=, most= and late=, not 'las:margin=3'"):
        ExperimentPlan((Arm.driven("saf+preempt:las:margin=3"),), (1,), profile=TURNS)
    with pytest.raises(InputError, match="no job of profile short agrees to give way"):
        ExperimentPlan((TAKING,), (1,))


def test_the_controller_is_told_who_agreed_and_what_it_costs(plan):
    """By the word of the comment; other arms take no turns."""
    for name in TURNS_ARMS:
        pin_pipeline(control_settings(plan, Arm.driven(name)))
    preempt = control_settings(plan, TAKING).preempt
    assert (preempt.order, preempt.comment, preempt.checkpoint, preempt.restart) == ("policy", "yields", 300, 60)
    assert preempt.max_preemptions == preempt.max_a_day == 20
    assert preempt.late == 172_800
    assert math.isinf(control_settings(plan, Arm.driven("saf+preempt:las:late=off")).preempt.late)
    assert not control_settings(plan, Arm.driven("saf")).preempt.on


def test_a_run_with_turns_as_a_schedule(plan, tmp_path):
    """Gaps between spells are no run time: delay, lost time and spells are those of the simulation it was made of."""
    made, record = simulated(plan, TAKING), record_of(plan, TAKING)
    assert made.preemptions.sum() > 0
    record.write(tmp_path / "run.json")
    assert RunRecord.read(tmp_path / "run.json") == record
    schedule = as_schedule(record, plan)
    assert np.allclose(schedule.delay_s, made.delay_s)
    assert np.allclose(schedule.jobs.duration_s, made.jobs.duration_s)
    assert np.allclose(schedule.lost_s, made.lost_s)
    assert (schedule.preemptions == made.preemptions).all()
    assert len(schedule.spells) == len(made.spells)


def test_the_result_has_delay_stops_and_lost_time(plan, tmp_path):
    """And says whether every job ran to its end exactly once, and how long nodes took to be free."""
    for arm in plan.arms:
        record = record_of(plan, arm)
        wrong = ("job 3 ended 2 times, with 60 s of 60 s done",) if arm.turns else ()
        replace(record, problems=wrong).write(path_of(tmp_path, arm, 1))
    result = ExperimentResult.of(plan, tmp_path)
    alone, taking = result.to_dict()["arms"]
    assert taking["delay_s"] < alone["delay_s"]
    assert taking["preemptions"] > alone["preemptions"] == 0
    assert 0 < taking["lost_share"] < 0.2
    notes = " ".join(result.comparison.notes)
    assert "By their own logs 119 of 120 jobs ran to their end exactly once. The others: job 3 ended 2 times" in notes
    assert "Turns: 1 started, 1 not started. From the command to the other job's start by the fast clock: mean" in notes
    assert "of them agree to give way: checkpoints every 5.0 min of it, restarts of 60.0 s." in notes
    assert json.dumps(result.to_dict(), allow_nan=False)
    assert result.table().row_count == 2


def test_the_prediction_of_turns_has_the_time_until_nodes_are_free(plan):
    """The longer that takes, the longer the delay; the pipeline is the arm's, under its guard."""
    record = record_of(plan, TAKING)
    quick = predict.predict(record, plan)
    slow = predict.predict(replace(record, turns=(TurnMade(1, "started", 3600.0),)), plan)
    assert quick.delay_s < slow.delay_s
    assert quick.real_delay_s == pytest.approx(float(as_schedule(record, plan).delay_s.mean()))
    assert abs(quick.delay_error) < 0.5


class OneGivesWay(ExperimentPlan):
    """A long job that agreed to it, and a short one that comes when it runs."""

    def workload(self, _seed):
        return Jobs.from_arrays(
            submit_s=[0, 300],
            duration_s=[1800, 240],
            gpus=[1, 1],
            nodes=[1, 1],
            gpus_per_node=[1, 1],
            cpus=[4, 4],
            limit_s=[36000, 600],
            user=["games", "lp"],
            name=["long", "short"],
            gpu_types=["m40", "m40"],
            preemptible=[True, False],
            checkpoint_s=[300, math.inf],
            restart_s=[60, 0],
        )


def test_a_job_gives_way_and_goes_on_in_an_experiment_on_a_real_slurm(tmp_path):
    """Its log, written by another user on the fast clock, tells what it lost; the other has not waited for its end."""
    require_slurm(database=True, clock=True)
    arm = Arm.driven("sjf+preempt:policy:run=0")
    plan = OneGivesWay((arm,), (1,), jobs=2, factor=120, cycle_s=120.0, band=1_000_000, profile=TURNS)
    assert perform(plan, tmp_path) == 1
    record = RunRecord.read(path_of(tmp_path, arm, 1))
    long, short = record.jobs
    assert (record.failed, record.problems) == (0, ())
    assert len(long.cut_short) == 1
    assert short.cut_short == ()
    assert long.cut_short[0].end_s <= short.start_s < short.end_s <= long.start_s
    assert 60 <= long.lost_s <= 60 + 300 + 60
    assert 1680 <= long.run_s <= 3600  # a busy machine adds seconds, of 120 s each
    assert [turn.outcome for turn in record.turns] == ["started"]
    assert 0 <= record.freed_s <= short.start_s - short.submit_s  # the command came after the other job


def test_a_job_that_is_run_again_after_its_end_does_nothing(tmp_path):
    """Slurm may requeue it before it knows that it is over: its own log says so, and it ends once."""
    program = [sys.executable, checkpointing_job.__file__, str(tmp_path), "30", "300", "60", "1000"]
    for _ in range(2):
        subprocess.run(program, env={"SLURM_JOB_ID": "7"}, check=True)
    log = (tmp_path / "7.log").read_text()
    told = read_log(log, 30.0, 1000.0)
    assert (told.starts, told.ends, told.problem) == (2, 1, "")
    assert "resume" not in log  # it holds its GPUs for no restart
