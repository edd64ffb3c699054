"""On a real Slurm the dominant reason is the one that squeue tells, and a proposed change starts the job when made."""

import time

from live_cases import settings

from rltune.explain import Explainer
from rltune.forecast import forecast
from rltune.live.pinned_pipeline import pin_pipeline
from rltune.live.present_of_slurm import present_of_slurm
from rltune.live.see.admin_comment import JobNotice
from rltune.live.tell_waiting import tell_waiting
from rltune.present import Why


def look(bed):
    """Take the present as the commands do."""
    shadow = settings(mode="shadow")
    return present_of_slurm(bed.backend(), shadow, pin_pipeline(shadow))


def test_reasons_agree_with_squeue_and_a_change_starts_the_job(testbed):
    """Held, dependent, first in line, behind it, and one whose other type is free: Slurm's words and ours agree."""
    holder = testbed.submit(600, gpus=2, gpu_type="k80", nodes=2, limit_min=60)
    testbed.wait_for("a start", lambda: testbed.job(holder)["job_state"] == "RUNNING")
    first, second, held, after = (testbed.submit(600, gpus=2, gpu_type="k80", limit_min=30) for _ in range(4))
    testbed.run("scontrol", "hold", str(held))
    testbed.run("scontrol", "update", f"JobId={after}", f"Dependency=afterany:{holder}")
    waits = (first, second, held, after)

    def told():
        lines = testbed.run("squeue", "--noheader", "--states=PENDING", "--format=%i %r").splitlines()
        return {int(line.split()[0]): line.split()[1] for line in lines}

    wanted = {first: "Resources", second: "Priority", held: "JobHeldUser", after: "Dependency"}
    wanted[held] = told()[held]
    testbed.wait_for("squeue's reasons", lambda: told() == wanted)
    present = look(testbed)
    explainer = Explainer(present)
    whys = {job: explainer.reason(str(job)).why for job in waits}
    assert whys == {first: Why.FULL, second: Why.PRIORITY, held: Why.HOLD, after: Why.DEPENDENCY}
    made = explainer.explain(str(first))
    assert f"when job {holder} is expected to end" in made.reason.text
    change = next(one for one in made.changes if one.starts_now and "gpu_types" in one.columns)
    other = change.columns["gpu_types"].replace("k80", "").strip("|")
    changed = testbed.submit(600, gpus=2, gpu_type=other, limit_min=30)
    testbed.wait_for("the changed job's start", lambda: testbed.job(changed)["job_state"] == "RUNNING")


def test_more_reasons_agree_with_squeue_and_their_changes_start_the_job(testbed):
    """Spread over nodes, a place kept for another, maintenance, a throttle, a begin time: as Slurm tells."""
    begins = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(testbed.now_s() + 1200))
    window = (f"StartTime={begins}", "Duration=60", "Nodes=m40-1", "Flags=MAINT,IGNORE_JOBS", "Users=root")
    testbed.run("scontrol", "create", "reservation", "ReservationName=window", *window)
    holders = [testbed.submit(900, gpus=1, gpu_type="k80", nodes=2, limit_min=60)]
    holders.append(testbed.submit(900, gpus=3, gpu_type="p100", nodes=2, limit_min=60))
    tasks = testbed.submit(900, "--array=1-3%1", limit_min=60)
    running = lambda job: testbed.job(job)["job_state"] == "RUNNING"  # noqa: E731  shorter than a function
    for holder in holders:
        testbed.wait_for("a start", lambda holder=holder: running(holder))
    spread = testbed.submit(600, gpus=2, gpu_type="p100", limit_min=30)
    head = testbed.submit(600, gpus=2, gpu_type="k80", nodes=2, limit_min=30)
    testbed.wait_for("a plan for the head", lambda: testbed.job(head)["state_reason"] in {"Resources", "Priority"})
    late = testbed.submit(600, gpus=1, gpu_type="k80", limit_min=600)
    window = testbed.submit(600, gpus=1, gpu_type="m40", limit_min=90)
    begins = testbed.submit(600, "--begin=now+1hour", gpus=1, limit_min=30)

    def told():
        lines = testbed.run("squeue", "--noheader", "--states=PENDING", "--format=%F %r").splitlines()
        return dict(line.split(maxsplit=1) for line in lines)

    turn, away = {"Resources", "Priority"}, "ReqNodeNotAvail"
    wanted = {spread: turn, head: turn, late: turn, tasks: {"JobArrayTaskLimit"}, begins: {"BeginTime"}}

    def squeue_agrees():
        found = told()
        return found.get(str(window), "").startswith(away) and all(
            found.get(str(job)) in reasons for job, reasons in wanted.items()
        )

    testbed.wait_for("squeue's reasons", squeue_agrees)
    explainer = Explainer(look(testbed))
    array = next(name for name in explainer.present.asides if name.startswith(f"{tasks}_"))
    whys = {job: explainer.reason(job).why for job in (*map(str, (spread, head, late, window, begins)), array)}
    assert whys == {
        str(spread): Why.FRAGMENTED,
        str(head): Why.FULL,
        str(late): Why.RESERVED,
        str(window): Why.MAINTENANCE,
        str(begins): Why.NOT_YET,
        array: Why.LIMIT,
    }

    def minutes(job):
        made = explainer.explain(str(job)).changes
        return int(next(one.columns["limit_s"] for one in made if one.starts_now and "limit_s" in one.columns) // 60)

    nodes = next(c for c in explainer.explain(str(spread)).changes if c.starts_now and "nodes" in c.columns)
    assert nodes.columns["nodes"] == 2
    changed = [
        testbed.submit(600, gpus=1, gpu_type="p100", nodes=2, limit_min=30),
        testbed.submit(600, gpus=1, gpu_type="k80", limit_min=minutes(late) - 2),
        testbed.submit(600, gpus=1, gpu_type="m40", limit_min=minutes(window) - 2),
    ]
    for job in changed:
        testbed.wait_for(f"the start of changed job {job}", lambda job=job: running(job))


def test_a_forecast_of_slurms_own_order(testbed):
    """Whoever is next starts when the running job's limit is over, in every future: nothing else is known."""
    holder = testbed.submit(600, gpus=2, gpu_type="k80", nodes=2, limit_min=60)
    testbed.wait_for("a start", lambda: testbed.job(holder)["job_state"] == "RUNNING")
    first, second = (testbed.submit(600, gpus=2, gpu_type="k80", nodes=2, limit_min=30) for _ in range(2))
    present = look(testbed)
    made = forecast(present, rolls=6)
    assert set(made.by_job) == {str(first), str(second)}
    assert made.by_job[str(first)].p50_s < made.by_job[str(second)].p50_s
    assert made.order.startswith("Slurm's order")
    testbed.run("scontrol", "update", f"JobId={second}", "AdminComment=mine")
    reasons, snapshot = Explainer(present).all_reasons(), testbed.backend().observe()
    told = tell_waiting(testbed.backend(), snapshot, reasons, made, present.pipeline.label)
    assert (told.written, told.refused) == (1, 0)
    comment = next(job.admin_comment for job in testbed.backend().observe().jobs if job.id == first)
    assert JobNotice.read(comment).why.startswith("full: needs 2 x 2 GPUs")
    assert "start about" in comment
    shown = testbed.run("scontrol", "show", "job", str(second))
    assert "AdminComment=mine" in shown
