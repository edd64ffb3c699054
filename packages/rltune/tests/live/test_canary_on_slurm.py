"""A canary on a real Slurm: it acts on some jobs, compares them with the others, and widens or gives back by itself."""

import time

import pytest
from live_cases import settings
from real_slurm import require_slurm, short_folder, site_factors

from rltune.lab.testbed import Testbed
from rltune.live.clock import SystemClock
from rltune.live.controller import Controller
from rltune.live.journal.store import Journal

FEW = {"min_jobs": 8}  # of each side; a site's own takes 50
FACTOR = 20  # by which its clock is faster: waits that are long by it are short by ours
RUN_S = 3.0  # by the fast clock, as all times here; Slurm tells times by the second
PAUSE_S = 1.0
ENOUGH_S = 120.0  # to wait for: a slowdown of 12, for it is bounded at 10 s, where one that starts at once has 1 to 2


@pytest.fixture(scope="module")
def started_fast_testbed():
    require_slurm(clock=True)
    with Testbed.up(short_folder(), factor=FACTOR) as bed:
        yield bed


@pytest.fixture
def testbed(started_fast_testbed):
    started_fast_testbed.clear()
    return started_fast_testbed


def controller(bed, path, **sections):
    health = {"advanced": {"health": {"max_clock_jump_s": 30.0 + 5.0 * FACTOR}}}  # a second of ours is 20 by its clock
    clock = SystemClock(float(bed.factor), *bed.clock_at)
    return Controller(bed.backend(), Journal.create(path), settings(**sections, **health), clock)


def pass_time(seconds):
    """Wait by the fast clock."""
    time.sleep(seconds / FACTOR)


def take_all(bed):
    """Let one job hold all nodes."""
    holder = bed.submit(3600, "--exclusive", nodes=5, limit_min=600)
    bed.wait_for("a start", lambda: bed.job(holder)["job_state"] == "RUNNING")
    return holder


def submit(bed, jobs):
    """Submit jobs one after the other: they are compared by blocks of time, and all of one moment are one block."""
    made = []
    for at in range(jobs):
        pass_time(PAUSE_S)
        made.append(bed.submit(RUN_S, gpus=1, limit_min=5 + at % 40))
    return made


def wait_for_end(bed, jobs):
    mine = set(jobs)
    bed.wait_for(
        "all to end", lambda: {job["job_state"] for job in bed.jobs() if job["job_id"] in mine} == {"COMPLETED"}
    )


def told_of_canary(acting):
    return [text for (text,) in acting.journal.rows("SELECT text FROM event WHERE kind IN ('canary', 'stopped')")]


def test_a_share_of_the_jobs_does_no_worse_and_all_are_acted_on(testbed, tmp_path):
    """Some of the jobs are touched, by a hash of their numbers; when they have ended well, all are."""
    acting = controller(testbed, tmp_path / "j.db", canary={"share": 0.5, "worse_by": 3.0, **FEW})  # a slow machine
    holder, jobs, touched = take_all(testbed), [], set()
    while min(len(touched), len(jobs) - len(touched)) < FEW["min_jobs"]:
        jobs += submit(testbed, 8)
        acting.cycle()
        touched = {job for job, number in site_factors(testbed).items() if number}
    assert not told_of_canary(acting)
    testbed.run("scancel", str(holder))
    wait_for_end(testbed, jobs)
    take_all(testbed)
    later = submit(testbed, 12)
    acting.cycle()
    (told,) = told_of_canary(acting)
    assert told.startswith(f"slowdown of the canary's {len(touched)} jobs over that of ")
    assert told.endswith("no worse than allowed; from now on all jobs of the scope")
    acting.cycle()
    assert all(site_factors(testbed)[job] for job in later)
    assert acting.release() == 0
    assert set(site_factors(testbed).values()) == {0}


def test_a_partition_that_does_worse_than_before_is_given_back(testbed, tmp_path):
    """Its jobs started at once before, and wait now: the controller lets go by itself, for good, and says so once."""
    acting = controller(testbed, tmp_path / "j.db", canary={"partition": "gpu", **FEW})
    before = submit(testbed, 10)
    wait_for_end(testbed, before)
    acting.cycle()
    holder, jobs = take_all(testbed), submit(testbed, 10)
    assert acting.cycle().changes > 0
    pass_time(ENOUGH_S)
    testbed.run("scancel", str(holder))
    wait_for_end(testbed, jobs)
    take_all(testbed)
    submit(testbed, 3)
    reports = [acting.cycle() for _ in range(3)]
    assert [report.acting for report in reports] == [False] * 3
    (told,) = told_of_canary(acting)
    assert told.startswith("the canary is rolled back: slowdown of the canary's 10 jobs over that of ")
    assert told.endswith("worse; not acting until it is started again")
    assert set(site_factors(testbed).values()) == {0}
