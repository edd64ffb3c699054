"""A canary on a real Slurm: it acts on some jobs, compares them with the others, and widens or gives back by itself."""

import time

from live_cases import settings
from real_slurm import site_factors

from rltune.live.clock import SystemClock
from rltune.live.controller import Controller
from rltune.live.journal.store import Journal

FEW = {"min_jobs": 8}  # of each side; a site's own takes 50
RUN_S = 1.1  # Slurm tells times by the second, and a job of none is nothing to compare
PAUSE_S = 0.4
ENOUGH_S = 20.0  # to wait for: a slowdown of 2.1, for it is bounded at 10 s; clear though few jobs vary


def controller(bed, path, **sections):
    return Controller(bed.backend(), Journal.create(path), settings(**sections), SystemClock())


def take_all(bed):
    """Let one job hold all nodes."""
    holder = bed.submit(600, "--exclusive", nodes=5, limit_min=60)
    bed.wait_for("a start", lambda: bed.job(holder)["job_state"] == "RUNNING")
    return holder


def submit(bed, jobs):
    """Submit jobs one after the other: they are compared by blocks of time, and all of one moment are one block."""
    made = []
    for at in range(jobs):
        time.sleep(PAUSE_S)
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
    time.sleep(ENOUGH_S)
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
