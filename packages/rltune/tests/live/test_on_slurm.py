"""The controller on a real Slurm: it does what it says, and whatever breaks, nothing stays changed."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from live_cases import settings
from real_slurm import require_slurm, short_folder
from real_slurm import site_factors as factors

from rltune.errors import InputError
from rltune.lab.testbed import Testbed
from rltune.live.clock import SystemClock
from rltune.live.control_settings_file import load_settings
from rltune.live.controller import Controller
from rltune.live.decide.ranking import by_slurm
from rltune.live.decide.rehearse import rehearse
from rltune.live.journal.packing import unpack_decision
from rltune.live.journal.store import Journal
from rltune.live.journal.story import story
from rltune.live.replay_cycle import replay
from rltune.live.see.backend import ChangeKind
from rltune.live.single_instance import only_one

CHANGEABLE = ("priority", "site_factor", "priority_by_hand", "nice", "held", "excluded_nodes", "required_nodes")
RLTUNE = "from rltune.cli import main; main()"
ALL_K80 = {"gpus": 2, "gpu_type": "k80", "nodes": 2}


@pytest.fixture
def testbed(testbed_everywhere):
    return testbed_everywhere


def controller(bed, folder, backend=None, **sections):
    """Make a controller of partition gpu with a journal in a folder."""
    return Controller(backend or bed.backend(), Journal.create(folder / "j.db"), settings(**sections), SystemClock())


def fill(bed, *limits_min):
    """Let one job hold the K80s, and others of such limits wait for one of them each."""
    holder = bed.submit(600, **ALL_K80, limit_min=60)
    bed.wait_for("a start", lambda: bed.job(holder)["job_state"] == "RUNNING")
    return holder, [bed.submit(1, gpus=2, gpu_type="k80", limit_min=minutes) for minutes in limits_min]


def standing(bed):
    """Give of every waiting job all that a controller could have changed."""
    return {job.id: [getattr(job, name) for name in CHANGEABLE] for job in bed.waiting_jobs()}


def test_jobs_start_in_the_order_decided(testbed, tmp_path):
    """The shortest of three waiting jobs was submitted last and starts first; finished jobs are recorded with GPUs."""
    holder, jobs = fill(testbed, 50, 40, 30)
    acting = controller(testbed, tmp_path)
    assert acting.cycle().changes == 3
    testbed.run("scontrol", "update", "NodeName=k80-2", "State=DRAIN", "Reason=test")  # one at a time
    testbed.run("scancel", str(holder))
    testbed.wait_for("all to end", lambda: all(testbed.job(job)["job_state"] == "COMPLETED" for job in jobs))
    began = {job: testbed.job(job)["start_time"] for job in jobs}
    assert sorted(jobs, key=began.__getitem__) == jobs[::-1]
    acting.cycle()
    recorded = acting.journal.history(10)
    gpus = dict(zip(recorded.id.tolist(), recorded.gpus.tolist(), strict=True))
    assert [gpus[str(job)] for job in jobs] == [2, 2, 2]


def test_owed_jobs_start_first(testbed, tmp_path):
    """The oldest of three is the longest: the policy has it last, the guard first. It starts first."""
    holder, jobs = fill(testbed, 50, 40, 30)
    acting = controller(testbed, tmp_path, safety={"guard": "0h"})
    acting.cycle()
    seen = factors(testbed)
    assert seen[jobs[0]] > seen[jobs[1]] > seen[jobs[2]]
    testbed.run("scontrol", "update", "NodeName=k80-2", "State=DRAIN", "Reason=test")  # one at a time
    testbed.run("scancel", str(holder))
    testbed.wait_for("a start", lambda: testbed.job(jobs[2])["job_state"] == "COMPLETED")
    began = [testbed.job(job)["start_time"] for job in jobs]
    assert began == sorted(began)
    assert any("owed its start since" in line.text for line in story(acting.journal, jobs[0]))


def test_the_default_policy_acts_and_is_replayed(testbed, tmp_path):
    """A second look writes next to nothing, and both decisions come out the same."""
    fill(testbed, *range(10, 60, 5))
    journal = Journal.create(tmp_path / "j.db")
    act = load_settings(None, {"mode": "act", "scope": {"partitions": ["gpu"]}})
    acting = Controller(testbed.backend(), journal, act, SystemClock())
    assert act.pipeline.policy == "portfolio"
    assert acting.cycle().changes >= 9
    assert acting.pinned.pipeline.policy.name == "portfolio=learned:anywhere"
    assert acting.cycle().changes <= 2
    assert all(replay(journal, number).same for number in (1, 2))
    assert acting.release() == 0


def test_release_leaves_all_as_before(testbed, tmp_path):
    """Numbers and lists of the users' and the site's own, holds and arrays: every job as Slurm alone would have it."""
    _, jobs = fill(testbed, 50, 40, 30)
    testbed.submit(600, "--array=1-4%2", gpus=2, gpu_type="k80", limit_min=9)
    testbed.submit(600, "--hold", gpus=1, gpu_type="k80", limit_min=9)
    testbed.submit(600, "--exclude=k80-1", gpus=2, gpu_type="k80", limit_min=9)
    testbed.submit(600, "--partition=sla", gpus=2, gpu_type="k80", limit_min=9)
    testbed.run("scontrol", "update", f"JobId={jobs[1]}", "SiteFactor=77")
    testbed.run("scontrol", "update", f"JobId={jobs[2]}", "Priority=4321")
    before = standing(testbed)
    for sections in ({}, {"numbers": {"channel": "priority"}}):
        acting = controller(testbed, tmp_path, **sections)
        assert acting.cycle().changes >= 3  # a number of the site's own, and one set by hand, are left alone
        assert standing(testbed) != before
        assert acting.release() == 0
        assert standing(testbed) == before
        acting.journal.close()


def test_sla_jobs_are_never_touched_and_come_first(testbed, tmp_path):
    """A long job of the tier above starts before all of ours, whatever we set."""
    holder, jobs = fill(testbed, 5, 4)
    sla = testbed.submit(1, "--partition=sla", **ALL_K80, limit_min=500)
    untouched = standing(testbed)[sla]
    acting = controller(testbed, tmp_path)
    acting.cycle()
    assert standing(testbed)[sla] == untouched
    testbed.run("scancel", str(holder))
    testbed.wait_for("all to end", lambda: all(testbed.job(job)["job_state"] == "COMPLETED" for job in jobs))
    assert testbed.job(sla)["start_time"] <= min(testbed.job(job)["start_time"] for job in jobs)


@pytest.mark.parametrize("steer", ["exclude", "pin"])
def test_a_job_is_led_to_its_node_and_set_free_again(testbed, tmp_path, steer):
    """Best fit puts a 2-GPU job beside another on the second node; Slurm alone would take the first."""
    other = testbed.submit(600, "--nodelist=p100-2", gpus=2, gpu_type="p100", limit_min=60)
    testbed.wait_for("a start", lambda: testbed.job(other)["job_state"] == "RUNNING")
    job = testbed.submit(600, "--begin=now+3600", gpus=2, gpu_type="p100", limit_min=60)
    acting = controller(testbed, tmp_path, _Hasty(testbed, job), steer=steer)
    acting.cycle()
    kinds = {kind for (kind,) in acting.journal.rows("SELECT kind FROM change JOIN outcome ON change = change.id")}
    assert (ChangeKind.EXCLUDE_NODES if steer == "exclude" else ChangeKind.REQUIRE_NODES) in kinds
    testbed.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    testbed.wait_for("a start", lambda: testbed.job(job)["job_state"] == "RUNNING")
    assert testbed.job(job)["nodes"] == "p100-2"


class _Hasty:
    """Shows a job that Slurm holds back for its begin time as one that may start: no race with Slurm in the test."""

    def __init__(self, bed, job):
        self._slurm, self._job = bed.backend(), job

    def __getattr__(self, name):
        return getattr(self._slurm, name)

    def observe(self):
        seen = self._slurm.observe()
        jobs = [replace(j, reason="None", begin_s=float("nan")) if j.id == self._job else j for j in seen.jobs]
        return replace(seen, jobs=tuple(jobs))


def test_a_drained_node_frees_the_job_that_was_led_there(testbed, tmp_path):
    """The node goes away before the job starts: one cycle later the list is gone and it may go elsewhere."""
    other = testbed.submit(600, "--nodelist=p100-2", gpus=2, gpu_type="p100", limit_min=60)
    testbed.wait_for("a start", lambda: testbed.job(other)["job_state"] == "RUNNING")
    job = testbed.submit(600, "--begin=now+3600", gpus=2, gpu_type="p100", limit_min=60)
    acting = controller(testbed, tmp_path, _Hasty(testbed, job))
    acting.cycle()
    assert testbed.job(job)["excluded_nodes"]
    testbed.run("scontrol", "update", "NodeName=p100-2", "State=DRAIN", "Reason=test")
    acting.cycle()
    testbed.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    testbed.wait_for("a start", lambda: testbed.job(job)["job_state"] == "RUNNING")
    assert testbed.job(job)["nodes"] == "p100-1"


def test_jobs_that_end_or_start_in_mid_cycle_are_no_trouble(testbed, tmp_path):
    """One is cancelled, one released to run, between the look and the write: the others are written all the same."""
    _, jobs = fill(testbed, 50, 40, 30)
    slurm = testbed.backend()

    class Interrupted:
        def __getattr__(self, name):
            return getattr(slurm, name)

        def apply(self, changes):
            testbed.run("scancel", str(jobs[0]))
            return slurm.apply(changes)

    acting = controller(testbed, tmp_path, Interrupted())
    report = acting.cycle()
    assert report.outcome == "ok"
    assert (report.changes, report.refused) == (2, 1)
    assert jobs[0] not in acting.brain.holdings.by_job
    assert acting.cycle().refused == 0
    assert acting.release() == 0
    assert set(factors(testbed).values()) == {0}


def test_a_restart_of_slurmctld_is_survived(testbed, tmp_path):
    """Down for a cycle, then back: what was set is in place, and release frees all."""
    _, jobs = fill(testbed, 50, 40, 30)
    acting = controller(testbed, tmp_path)
    acting.cycle()
    numbers = factors(testbed)
    testbed.stop("slurmctld")
    assert acting.cycle().outcome == "failed"
    testbed.start("slurmctld")
    report = acting.cycle()
    assert report.outcome == "ok"
    assert report.acting
    assert factors(testbed) == numbers
    assert acting.release() == 0
    assert [factors(testbed)[job] for job in jobs] == [0, 0, 0]


def test_a_hard_kill_of_slurmctld_leaves_nothing_wrong(bed_folder, tmp_path):
    """Killed while it may not have saved what came last: it can lose jobs and numbers, and give ids again.

    Whatever it lost, those who are left, and a newcomer that may have the id of one that was lost, end as Slurm alone
    has them.
    """
    bed = Testbed.up(bed_folder)
    fill(bed, 50, 40, 30)
    acting = controller(bed, tmp_path)
    assert acting.cycle().changes == 3
    bed.stop("slurmctld", signal.SIGKILL)
    bed.start("slurmctld")
    bed.run("scontrol", "update", "NodeName=k80-[1-2]", "State=DRAIN", "Reason=test")  # who held them may be lost
    newcomers = {bed.submit(600, **ALL_K80, limit_min=20) for _ in range(3)}
    acting.cycle()  # the record may be among what was lost: then all is given back
    assert acting.cycle().outcome == "ok"
    assert acting.release() == 0
    left = factors(bed)
    assert newcomers <= set(left)
    assert set(left.values()) == {0}


def test_a_lost_munge_is_survived(testbed, tmp_path):
    """Without munge nobody can ask anything: cycles fail within seconds, and after it all is given back."""
    _, jobs = fill(testbed, 50, 40)
    acting = controller(testbed, tmp_path)
    acting.cycle()
    testbed.stop("munged", signal.SIGKILL)
    usual_s, acting.backend.timeout_s = acting.backend.timeout_s, 3.0
    begin = time.monotonic()
    assert acting.cycle().outcome == acting.cycle().outcome == "failed"
    assert time.monotonic() - begin < 15
    testbed.start("munged")
    testbed.wait_for("Slurm to answer", lambda: "is UP" in testbed.run("scontrol", "ping", check=False))
    acting.backend.timeout_s = usual_s
    report = acting.cycle()  # two failures in a row: it has lost its trust
    assert not report.acting
    assert [factors(testbed)[job] for job in jobs] == [0, 0]


def test_a_dead_slurmdbd_does_not_matter(testbed_with_database, tmp_path):
    """Driven by an unprivileged Operator, with accounting gone: jobs are ordered and given back."""
    bed = testbed_with_database
    _, jobs = fill(bed, 50, 40, 30)
    bed.stop("slurmdbd", signal.SIGKILL)
    try:
        acting = controller(bed, tmp_path, bed.backend(as_operator=True))
        before = standing(bed)
        assert acting.cycle().changes >= 2
        by_priority = sorted(jobs, key=lambda job: -standing(bed)[job][0])
        assert by_priority == jobs[::-1]
        assert acting.release() == 0
        assert standing(bed) == before
    finally:
        bed.start("slurmdbd")


@pytest.mark.parametrize("jump_s", [7200.0, -7200.0])
def test_a_jump_of_the_clock_gives_everything_back(testbed, tmp_path, jump_s):
    """The cluster's clock goes two hours forward or back: nothing is decided by such times."""
    fill(testbed, 50, 40, 30)
    acting = controller(testbed, tmp_path)
    acting.cycle()
    acting.backend.now_s = lambda: testbed.now_s() + jump_s
    report = acting.cycle()
    assert not report.acting
    assert set(factors(testbed).values()) == {0}


def test_a_killed_controller_leaves_a_journal_by_which_all_is_given_back(testbed, tmp_path):
    """`kill -9` while it acts: the file is whole, every decision can be replayed, and --release frees every job."""
    _, jobs = fill(testbed, 50, 40, 30)
    before = standing(testbed)
    journal = tmp_path / "j.db"
    command = [sys.executable, "-c", RLTUNE, "control", "--testbed", str(testbed.folder)]
    command += ["--journal", str(journal)]
    patient = tmp_path / "patient.toml"  # on a slow machine half a second may be too short for a cycle
    patient.write_text("[advanced.health]\nmax_overruns = 1000000\n")
    act = ("--config", str(patient), "--mode", "act", "--partition", "gpu", "--cycle", "0.5")
    running = subprocess.Popen([*command, *act])
    try:
        testbed.wait_for("numbers", lambda: all(factors(testbed).values()), timeout_s=300)
        with (
            pytest.raises(InputError, match=f"another controller \\(process {running.pid}\\) is at work"),
            only_one(journal.with_name("j.db.lock")),
        ):
            pass
    finally:
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    assert standing(testbed) != before
    assert sqlite3.connect(journal).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert replay(Journal.read(journal), 0).same
    subprocess.run([*command, "--release"], check=True, capture_output=True)
    assert standing(testbed) == before
    assert set(jobs) <= set(before)


def by_priority(bed):
    """Name the waiting jobs in Slurm's own order."""
    return [job.id for job in sorted(bed.waiting_jobs(), key=by_slurm)]


def test_an_array_with_a_long_list_of_tasks_is_ordered(testbed, tmp_path):
    """Slurm prints such a list shortened or with a step, and takes neither as a name."""
    holder = testbed.submit(600, **ALL_K80, limit_min=60)
    testbed.wait_for("a start", lambda: testbed.job(holder)["job_state"] == "RUNNING")
    uneven = ",".join(str(i * i) for i in range(1, 32))
    array = testbed.submit(1, f"--array={uneven}", gpus=2, gpu_type="k80", limit_min=5)
    testbed.submit(1, "--array=1-199:2", gpus=2, gpu_type="k80", limit_min=20)
    testbed.submit(1, gpus=2, gpu_type="k80", limit_min=50)
    acting = controller(testbed, tmp_path)
    report = acting.cycle()
    assert (report.changes, report.refused) == (3, 0)
    assert by_priority(testbed)[0] == array
    assert acting.cycle().changes == 0
    assert acting.release() == 0
    assert set(factors(testbed).values()) == {0}


@pytest.fixture(scope="module")
def bed_with_weights():
    """A Slurm whose QOS counts for 8,000 and whose other factors count for next to nothing."""
    require_slurm(database=True)
    with Testbed.up(short_folder(), database=True, settings={"PriorityWeightQOS": "8000"}) as bed:
        yield bed


@pytest.mark.parametrize(
    "sections",
    [{}, {"scope": {"partitions": ["gpu"], "not_qos": ["sla"]}}, {"safety": {"guard": "24h:4x:sla=sla"}}],
    ids=["all ours", "as shipped", "guard"],
)
def test_numbers_that_slurm_would_clamp_are_not_given(bed_with_weights, tmp_path, sections):
    """Most jobs have a priority of 8,000, some of 1: the order is the one decided, and stays as it is.

    Below 1 Slurm knows no order, so that one meant for the last jobs was lost, and numbers changed in every cycle.
    """
    bed = bed_with_weights
    bed.clear()
    holder = bed.submit(600, **ALL_K80, limit_min=60)
    bed.wait_for("a start", lambda: bed.job(holder)["job_state"] == "RUNNING")
    sla = [bed.submit(1, "--qos=sla", gpus=2, gpu_type="k80", limit_min=60 - i) for i in range(9)]
    normal = [bed.submit(1, gpus=2, gpu_type="k80", limit_min=30 - i) for i in range(4)]
    acting = controller(bed, tmp_path, **sections)
    acting.cycle()
    meant = [w.job for w in unpack_decision(acting.journal.cycle(0).decision).waiting if w.competes]
    for _ in range(3):
        assert by_priority(bed) == meant
        assert acting.cycle().changes == 0
    if sections:
        assert set(meant[:9]) == set(sla)
    assert meant[-4:] == normal[::-1] or not sections
    assert acting.release() == 0
    assert set(factors(bed).values()) == {0}


def test_a_job_that_a_human_put_first_stays_first(testbed, tmp_path):
    """It is left alone, and nobody is lifted over it."""
    _, jobs = fill(testbed, 50, 40, 30, 20)
    testbed.run("scontrol", "update", f"JobId={jobs[0]}", "Priority=777")
    acting = controller(testbed, tmp_path)
    acting.cycle()
    assert by_priority(testbed) == [jobs[0], *jobs[:0:-1]]
    assert testbed.job(jobs[0])["priority"] in (777, {"set": True, "infinite": False, "number": 777})
    assert acting.release() == 0


def cpu_s():
    """Return what this process and its children have taken of the processors: a crowded machine hardly changes it."""
    return sum(os.times()[:4])


def test_a_thousand_waiting_jobs(testbed, tmp_path):
    """A cycle takes little of the processor and few processes, and the next no writes; the clock is the benchmark's."""
    fill(testbed)
    script = (
        "#!/bin/sh\nfor i in $(seq 1000); do sbatch -J j$i -o /dev/null -D / -t $((i % 97 + 3)) $O --wrap true; done"
    )
    environment = {**testbed.environment, "O": "--gpus-per-node=k80:2 -N 2"}
    subprocess.run(["sh", "-c", script], env=environment, check=True, capture_output=True)
    acting = controller(testbed, tmp_path)
    rehearse(acting.settings, acting.pinned)
    begin_s = cpu_s()
    first = acting.cycle()
    spent_s = cpu_s() - begin_s
    calls = acting.backend.calls.copy()
    assert calls.total() <= 8 + 7 + 1 + 2 + 4 + 8  # to take the lock, to look and write, and for pages of the record
    second = acting.cycle()
    assert (acting.backend.calls - calls).total() <= 6
    third = acting.cycle()
    assert (first.waiting, first.refused) == (1000, 0)
    assert first.changes >= 700  # the others stand near enough to their places already
    assert second.changes == third.changes == 0
    assert spent_s < 5  # quiet: 1.5 s by the clock
    assert acting.release() == 0
    assert set(factors(testbed).values()) == {0}
