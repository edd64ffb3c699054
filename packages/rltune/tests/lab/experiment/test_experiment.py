"""The experiment: its folder, its account, and a small one on a real Slurm."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from experiment_records import record_of
from real_slurm import require_slurm

from rltune.engine.pipeline import Pipeline
from rltune.engine.simulate import simulate
from rltune.errors import InputError
from rltune.lab.experiment import fine_tuning_jobs as workload
from rltune.lab.experiment import fresh_slurm as running
from rltune.lab.experiment import prediction as predict
from rltune.lab.experiment import tuned_multifactor as multifactor
from rltune.lab.experiment.experiment_plan import Arm, ExperimentPlan, path_of
from rltune.lab.experiment.experiment_result import ExperimentResult
from rltune.lab.experiment.fresh_slurm import RunWatch
from rltune.lab.experiment.perform import perform
from rltune.lab.experiment.run_record import RunRecord, as_schedule
from rltune.lab.testbed import debian_needs as needs

ALONE, SAF = Arm("multifactor"), Arm("saf", "saf")


@pytest.fixture
def plan():
    return ExperimentPlan((ALONE, SAF), (1, 2), jobs=40)


@pytest.fixture
def folder(tmp_path, plan):
    """All runs of a small plan, as if they had been made."""
    plan.keep_in(tmp_path)
    for arm, seed in plan.runs():
        record_of(plan, arm, seed).write(path_of(tmp_path, arm, seed))
    return tmp_path


def test_a_record_is_read_as_it_was_written(tmp_path, plan):
    """Every job, the controller's account, the arm."""
    made = record_of(plan, SAF, 1)
    made.write(tmp_path / "saf-1.json")
    assert RunRecord.read(tmp_path / "saf-1.json") == made
    (tmp_path / "saf-1.json").write_text("{}")
    with pytest.raises(InputError, match="is not the record of a run"):
        RunRecord.read(tmp_path / "saf-1.json")


def test_a_run_as_a_schedule(plan):
    """Waits, run times and nodes are those of the record."""
    made = record_of(plan, SAF, 1, later_s=30)
    schedule = as_schedule(made, plan)
    simulated = simulate(plan.workload(1), plan.cluster, "saf", "whole-nodes", "best-fit", "user")
    assert np.allclose(schedule.wait_s, simulated.wait_s + 30)
    assert [sorted(p) for p in schedule.placements] == [sorted(p) for p in simulated.placements]


def test_the_result_sets_arms_and_prediction_side_by_side(folder, plan):
    """Seed by seed, with the account of cycles that took too long."""
    result = ExperimentResult.of(plan, folder)
    told = result.to_dict()
    alone, saf = told["arms"]
    assert alone["wait_ratio"]["estimate"] == 1
    assert saf["wait_s"] < alone["wait_s"]
    assert len(told["runs"]) == 4
    assert json.dumps(told, allow_nan=False)
    assert "2 of the controller's 20 cycles took longer than the time to the next." in result.comparison.notes
    assert [arm["runs"] for arm in told["arms"]] == [2, 2]


def test_the_picture_has_a_bar_for_every_job_of_every_arm(folder, plan):
    """It is well-formed, and jobs of the first seed are all in it, once for each arm."""
    drawn = ET.fromstring(ExperimentResult.of(plan, folder).gantt())
    boxes = [box for box in drawn if box.tag.endswith("rect") and box.get("fill") != "none"]
    assert len(boxes) >= len(plan.arms) * plan.jobs
    assert all(float(box.get("x")) + float(box.get("width")) <= 900 for box in boxes)
    texts = [text.text for text in drawn if text.tag.endswith("text")]
    assert [any(text.startswith(arm.name) for text in texts) for arm in plan.arms] == [True] * len(plan.arms)


def test_the_result_of_a_part(folder, plan):
    """What is missing is left out, and not taken for something else."""
    path_of(folder, SAF, 2).unlink()
    told = ExperimentResult.of(plan, folder).to_dict()
    assert [(arm["arm"], arm["runs"]) for arm in told["arms"]] == [("multifactor", 2), ("saf", 1)]
    for arm, seed in plan.runs():
        path_of(folder, arm, seed).unlink(missing_ok=True)
    with pytest.raises(InputError, match="no run has been made yet"):
        ExperimentResult.of(plan, folder)


def test_jobs_that_did_not_end_well_are_told(tmp_path, plan):
    """A timeout is no success."""
    one = replace(plan, arms=(ALONE,), seeds=(1,))
    record_of(one, ALONE, 1, states={3: "TIMEOUT"}).write(path_of(tmp_path, ALONE, 1))
    assert "1 jobs did not end as they should." in ExperimentResult.of(one, tmp_path).comparison.notes


def test_the_prediction_knows_that_slurm_starts_jobs_late(plan, monkeypatch):
    """Without that it is a plain simulation of the recorded run times."""
    made = record_of(plan, SAF, 1)
    monkeypatch.setattr(Pipeline, "takes_cycles", False)
    plain = simulate(plan.workload(1), plan.cluster, "saf", "whole-nodes", "best-fit", "user")
    late = predict.predict(made, plan)
    assert late.wait_s > plain.wait_s.mean()
    assert late.spread_s > 0
    assert late.real_wait_s == pytest.approx(plain.wait_s.mean())
    assert late.wait_error == pytest.approx(late.wait_s / plain.wait_s.mean() - 1)
    monkeypatch.setattr(multifactor, "BACKFILL_S", 0)
    exact = predict.predict(made, plan)
    assert exact.wait_error == pytest.approx(0, abs=1e-9)
    assert exact.makespan_s == pytest.approx(exact.real_makespan_s)


def test_the_prediction_has_the_controllers_guard(plan, monkeypatch):
    """Unless a policy has one of its own; Slurm alone has none."""
    seen = []
    monkeypatch.setattr(predict, "run_pipeline", lambda *asked: seen.append(asked[2].policy_name) or made)
    made = simulate(plan.workload(1), plan.cluster, "saf", "whole-nodes", "best-fit", "user")
    for arm in (ALONE, SAF, Arm("own", "saf+guard:1h")):
        predict.predict(record_of(plan, arm, 1), plan)
    assert set(seen) == {"multifactor", "saf+guard:24h:4x", "saf+guard:1h"}


def test_the_prediction_knows_that_the_controller_asks_once_a_cycle(plan):
    """Slurm alone is not asked by anyone."""
    rarely = replace(plan, cycle_s=7200.0)
    for arm, same in ((ALONE, True), (SAF, False), (Arm("searched", "saf+search:2"), True)):
        made = record_of(plan, arm, 1)
        assert (predict.predict(made, rarely).wait_s == predict.predict(made, plan).wait_s) == same


def test_a_folder_of_another_experiment_is_refused(folder, plan, monkeypatch):
    """More seeds and arms may be added to it."""
    replace(plan, seeds=(1, 2, 3), arms=(*plan.arms, Arm("sjf", "sjf"))).keep_in(folder)
    with pytest.raises(InputError, match="holds an experiment with other settings"):
        replace(plan, load=0.8).keep_in(folder)
    monkeypatch.setattr(needs, "missing", lambda **_: "")
    with pytest.raises(InputError, match=r"saf-1\.json: was made with policy saf, placement best-fit"):
        perform(replace(plan, arms=(ALONE, Arm("saf", "saf", "spread"))), folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"factor": 61}, "1 to 60 times as fast, not 61"),
        ({"seeds": ()}, "at least one arm and one seed"),
        ({"arms": (ALONE, ALONE)}, "each arm needs a name of its own"),
    ],
)
def test_plans_that_cannot_be(plan, change, message):
    """One sentence each."""
    with pytest.raises(InputError, match=message):
        replace(plan, **change)


def test_a_run_in_which_nothing_moves_is_ended():
    """It would otherwise go on for ever."""

    class Bed:
        folder, time_s = Path("bed"), 0.0

        def now_s(self):
            self.time_s += running.STUCK_S
            return self.time_s

        def run(self, *_):
            return "7\n"

    class Submitter:
        done, ids = True, (7,)

    watch = RunWatch(Bed(), Submitter(), lambda _: None)
    assert not watch.over()
    with pytest.raises(InputError, match="1 jobs are left and none has ended for 6 hours"):
        watch.over()


def test_a_question_that_fails_does_not_end_a_run():
    """Ten in a row do."""

    class Bed:
        folder, asked = Path("bed"), 0

        def now_s(self):
            return 0.0

        def run(self, *_):
            self.asked += 1
            if self.asked != 2:
                raise InputError("Zero Bytes were transmitted or received")
            return ""

    class Submitter:
        done, ids = True, ()

    watch = RunWatch(Bed(), Submitter(), lambda _: None)
    assert not watch.over()
    assert watch.over()
    for _ in range(9):
        assert not watch.over()
    with pytest.raises(InputError, match="Zero Bytes"):
        watch.over()


def test_what_a_killed_run_left_is_ended(tmp_path):
    """Also a testbed that had not come up; a note that was cut short ends nothing."""
    note = tmp_path / "saf-1.testbed"
    left = running._place(note)
    (left / "run").mkdir()
    again = running._place(note)
    assert not left.exists()
    assert note.read_text() == str(again)
    again.rmdir()
    for cut in ("", str(tmp_path)):
        note.write_text(cut)
        running._place(note).rmdir()
    assert tmp_path.exists()


def test_runs_side_by_side_on_a_real_slurm(tmp_path):
    """Each in its own process and testbed; a run that fails is told by name, and what was made stays."""
    require_slurm(database=True, clock=True)
    short = 274  # a seed whose jobs take a minute or so
    plan = ExperimentPlan((ALONE, SAF), (short,), jobs=2, load=8.0)
    told = []
    assert perform(plan, tmp_path, lambda *progress: told.append(progress), workers=2) == 2
    assert told[-1][:2] == (4, 4)
    assert [RunRecord.read(path_of(tmp_path, arm, short)).failed for arm in plan.arms] == [0, 0]
    assert not list(tmp_path.glob("*.testbed"))
    path_of(tmp_path, SAF, short).unlink()
    wrong = replace(plan, arms=(ALONE, Arm("none", "nobody"), SAF))
    with pytest.raises(InputError, match="none, seed 274: no policy 'nobody'"):
        perform(wrong, tmp_path, workers=2)
    assert path_of(tmp_path, SAF, short).exists()  # it was made all the same


def test_a_small_experiment_on_a_real_slurm(tmp_path, monkeypatch):
    """Jobs of a minute under the controller on the fast clock; asked for again, nothing is run again."""
    require_slurm(database=True, clock=True)
    monkeypatch.setattr(workload, "LONGEST_S", 60.0)
    plan = ExperimentPlan((SAF,), (1,), jobs=10, load=8.0)
    told = []
    assert perform(plan, tmp_path, lambda *progress: told.append(progress)) == 1
    assert perform(plan, tmp_path) == 0
    assert told[-1] == (10, 10, "saf, seed 1")
    made = RunRecord.read(path_of(tmp_path, SAF, 1))
    schedule = as_schedule(made, plan)
    assert made.failed == 0
    assert made.cycles.count >= 2
    assert (schedule.end_s - schedule.start_s >= 59).all()
    assert np.abs(schedule.jobs.submit_s - plan.workload(1).submit_s).max() < 600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.json", "saf-1.journal.db", "saf-1.json"]
    assert ExperimentResult.of(plan, tmp_path).to_dict()["runs"][0]["cycles"]["changes"] >= 0
