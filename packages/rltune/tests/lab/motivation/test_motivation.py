"""Section 2's arms: what is planned, what is said of runs, and a short one on a real Slurm."""

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from experiment_records import as_ran
from real_slurm import require_slurm

from rltune.errors import InputError
from rltune.lab.experiment import tuned_multifactor as multifactor
from rltune.lab.experiment.experiment_plan import Arm
from rltune.lab.experiment.run_record import Cycles, RunRecord, as_schedule
from rltune.lab.motivation import run_motivation as whole
from rltune.lab.motivation.motivation_plan import MotivationArm, MotivationJob, MotivationPlan, shuffle
from rltune.lab.motivation.motivation_prediction import simulate_arm
from rltune.lab.motivation.motivation_run import run_arm
from rltune.lab.testbed import debian_needs as needs
from rltune.text import seconds

PLAN = MotivationPlan()
BY_FIGURE = {arm.figure: arm for arm in PLAN.arms}


def as_simulated_record(arm, states=None):
    """Make the record of an arm that went exactly as simulated."""
    return RunRecord(Arm(arm.name), 0, as_ran(simulate_arm(PLAN, arm), 0.0, states), Cycles(), 150.0, "22.05.8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """All arms, as if they had been run; there is no Slurm to run one."""
    monkeypatch.setattr(needs, "missing", lambda **_: "")
    monkeypatch.setattr(whole, "run_arm", lambda *_: pytest.fail("an arm that is there was run again"))
    PLAN.keep_in(tmp_path)
    for arm in PLAN.arms:
        as_simulated_record(arm).write(tmp_path / f"{arm.name}.json")
    return tmp_path


def test_shuffled_jobs_share_out_the_priorities_they_have():
    """Each stands where another stood, so that nobody else is passed or let by."""
    before = {4: 100.0, 6: 90.0, 7: 80.0, 8: 70.0}
    change = shuffle(before, (8, 6, 7))
    after = {job: before[job] + change.get(job, 0) for job in before}
    assert sorted(after, key=after.get, reverse=True) == [4, 8, 6, 7]
    assert sorted(after.values()) == sorted(before.values())
    with pytest.raises(InputError, match="have the same priority"):
        shuffle({1: 5.0, 2: 5.0}, (2, 1))


def test_the_jobs_are_of_every_kind():
    """One GPU, several, both nodes; consecutive jobs exchange priorities, as in the paper."""
    assert {(job.gpus, job.nodes) for job in PLAN.jobs} == {(1, 1), (2, 1), (4, 2)}
    assert all(job.limit_min > job.minutes for job in PLAN.jobs)
    assert PLAN.rows(BY_FIGURE[2].order) == [4, 3]
    assert PLAN.rows(BY_FIGURE[4].order) == [7, 5, 6]
    assert (PLAN.cluster.node_count, PLAN.cluster.gpu_count) == (2, 8)


def test_the_simulator_shows_the_four_effects():
    """Packing and a few priorities shorten the wait and the makespan."""
    made = {figure: simulate_arm(PLAN, arm) for figure, arm in BY_FIGURE.items()}
    for ours, theirs in ((2, 1), (3, 1), (4, 3)):
        assert made[ours].wait_s.sum() < 0.9 * made[theirs].wait_s.sum()
        assert made[ours].end_s.max() < 0.9 * made[theirs].end_s.max()


@pytest.mark.parametrize(("figure", "shared"), [(1, False), (2, False), (3, True), (4, True)])
def test_whole_nodes_are_not_shared(figure, shared):
    """In the simulator: with packing some are."""
    made = simulate_arm(PLAN, BY_FIGURE[figure])
    assert any_node_is_shared(made) == shared


def any_node_is_shared(made):
    """Return whether two jobs were on one node at a time."""
    nodes = [{node for node, _ in place} for place in made.placements]
    n = len(nodes)
    return any(
        nodes[a] & nodes[b] and made.start_s[a] < made.end_s[b] and made.start_s[b] < made.end_s[a]
        for a in range(n)
        for b in range(a)
    )


def test_arms_are_summed_up_and_set_beside_the_simulator(folder, monkeypatch):
    """What went as simulated is not off, but for GPUs that stay idle between backfillings."""
    monkeypatch.setattr(multifactor, "BACKFILL_S", 0)
    made = whole.run_motivation(folder)
    first = made.arms[0]
    simulated = simulate_arm(PLAN, PLAN.arms[0])
    assert first.wait_s == pytest.approx(simulated.wait_s.sum())
    assert first.makespan_s == pytest.approx(simulated.end_s.max())
    busy = sum(job.gpus * (job.end_s - job.start_s) for job in first.jobs)
    assert first.utilisation == pytest.approx(busy / (8 * first.makespan_s))
    assert [(arm.wait_error, arm.makespan_error) for arm in made.arms] == [pytest.approx((0, 0), abs=1e-9)] * 4
    swapped, packed, raised = made.effects
    assert (swapped.of, swapped.against) == ("whole-nodes-shuffled", "whole-nodes")
    assert swapped.wait == pytest.approx(made.arms[1].wait_s / made.arms[0].wait_s - 1)
    assert packed.utilisation > 0
    assert raised.simulated_makespan == pytest.approx(raised.makespan)
    assert json.loads((folder / "result.json").read_text()) == json.loads(json.dumps(made.to_dict(), allow_nan=False))


def test_each_arm_has_a_picture_with_its_jobs(folder):
    """Every job has a bar among the GPUs, a wait and a run below, all within one span."""
    made = whole.run_motivation(folder)
    assert [path.name for path in made.pictures] == [f"figure-{n}.svg" for n in (1, 2, 3, 4)]
    for path in made.pictures:
        drawn = ET.parse(path).getroot()
        boxes = [box for box in drawn if box.tag.endswith("rect") and box.get("fill") != "none"]
        assert len(boxes) >= 3 * len(PLAN.jobs)
        assert all(float(box.get("x")) + float(box.get("width")) <= 900 for box in boxes)
        texts = " ".join(text.text for text in drawn if text.tag.endswith("text"))
        assert all(texts.count(job.name) >= 2 for job in PLAN.jobs)


def test_the_time_it_takes_is_told_and_only_what_is_missing_counts(folder, monkeypatch):
    """Before anything starts."""

    def fail(*_):
        raise InputError("no Slurm")

    monkeypatch.setattr(whole, "run_arm", fail)
    told = []
    assert whole.estimate_motivation_s(folder) == 0
    (folder / "packed.json").unlink()
    one_s = whole.estimate_motivation_s(folder)
    assert 60 < one_s < 300
    assert 4 * 60 < whole.estimate_motivation_s(folder / "nothing yet") < 1200
    with pytest.raises(InputError, match="no Slurm"):
        whole.run_motivation(folder, lambda *progress: told.append(progress))
    assert told == [(0, 36, f"takes about {seconds(one_s)}")]


def test_a_job_that_failed_is_told(folder):
    """A timeout is no success."""
    as_simulated_record(BY_FIGURE[3], {2: "TIMEOUT"}).write(folder / "packed.json")
    assert "packed: job 3 resnet ended TIMEOUT." in whole.run_motivation(folder).notes


def test_other_jobs_need_another_folder(folder):
    """And an arm can move only jobs that are there."""
    with pytest.raises(InputError, match="holds an experiment with other settings"):
        replace(PLAN, jobs=(*PLAN.jobs, MotivationJob("10 more", 1, 1, 5, 10))).keep_in(folder)
    with pytest.raises(InputError, match="moves jobs that are not there: 12"):
        replace(PLAN, arms=(MotivationArm("odd", 1, whole_nodes=False, order=("12", "1 bert")),))
    with pytest.raises(InputError, match="a name of its own"):
        replace(PLAN, jobs=PLAN.jobs * 2)


def test_an_arm_on_a_real_slurm(tmp_path):
    """Jobs of one GPU a node that could share nodes do not, and the last is second."""
    require_slurm(database=True, clock=True)
    jobs = tuple(MotivationJob(name, 1, 2, minutes, 60) for name, minutes in (("a", 12), ("b", 2), ("c", 2)))
    arm = MotivationArm("short", 2, whole_nodes=True, order=("c", "b"))
    plan = MotivationPlan(jobs, (arm,))
    told = []
    made = run_arm(plan, arm, tmp_path, told.append)
    schedule = as_schedule(made, plan)
    assert made.failed == 0
    assert np.argsort(schedule.start_s).tolist() == [0, 2, 1]
    assert not any_node_is_shared(schedule)
    assert len(made.cycles.events) == 2
    assert told[-1] == 3
    assert not list(tmp_path.iterdir())
