"""On a real Slurm the dominant reason is the one that squeue tells, and a proposed change starts the job when made."""

import time

from live_cases import settings
from real_slurm import site_factors

from rltune.explain import Explainer
from rltune.forecast import forecast
from rltune.live.clock import SystemClock
from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
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


def test_limits_and_what_never_fits_are_told_as_slurm_tells_them(testbed_with_database):
    """Limits of a QOS, a partition's time, CPUs beside GPUs, a node that is down, a dependency, a reservation."""
    bed = testbed_with_database
    for name, limit in (("few", "MaxTRESPerUser=gres/gpu=1"), ("tiny", "MaxTRESPerJob=gres/gpu=1")):
        bed.run("sacctmgr", "-i", "add", "qos", name, limit, check=False)  # an earlier test may have added it
        bed.run("sacctmgr", "-i", "modify", "account", "research", "set", f"qos+={name}", check=False)
    bed.run("scontrol", "create", "reservation", "ReservationName=ours", "StartTime=now+2hours", "Duration=60",
            "Nodes=k80-2", "Users=root")  # fmt: skip
    bed.wait_for("the QOS", lambda: "QOS=tiny(" in bed.run("scontrol", "show", "assoc_mgr", "flags=qos"))
    first = bed.submit(900, "--qos=few", gpus=1, gpu_type="p100", limit_min=60)
    hog = bed.submit(900, "--nodelist=m40-1", "--cpus-per-task=28", limit_min=60)
    for holder in (first, hog):
        bed.wait_for("a start", lambda holder=holder: bed.job(holder)["job_state"] == "RUNNING")
    second = bed.submit(900, "--qos=few", gpus=1, gpu_type="p100", limit_min=60)
    much = bed.submit(900, "--qos=tiny", gpus=2, gpu_type="p100", limit_min=60)
    beside = bed.submit(900, "--cpus-per-task=16", gpus=1, gpu_type="m40", limit_min=60)
    after = bed.submit(900, f"--dependency=afterok:{first}", gpus=1, gpu_type="p100", limit_min=60)
    kept = bed.submit(900, "--reservation=ours", gpus=1, gpu_type="k80", limit_min=30)
    bed.run("scontrol", "update", "PartitionName=gpu", "MaxTime=600")
    long = bed.submit(900, gpus=1, gpu_type="p100", limit_min=1200)
    bed.run("scontrol", "update", "NodeName=p100-2", "State=DRAIN", "Reason=test")
    both = bed.submit(900, gpus=1, gpu_type="p100", nodes=2, limit_min=30)

    def told():
        lines = bed.run("squeue", "--noheader", "--states=PENDING", "--format=%i %r").splitlines()
        return {int(line.split()[0]): line.split(maxsplit=1)[1] for line in lines}

    wanted = {second: "QOSMaxGRESPerUser", much: "QOSMaxGRESPerJob", long: "PartitionTimeLimit", after: "Dependency",
              kept: "Reservation", both: "ReqNodeNotAvail"}  # fmt: skip
    try:
        bed.wait_for("squeue's reasons", lambda: all(told().get(j, "").startswith(r) for j, r in wanted.items()))
        bed.wait_for("a reason for CPUs", lambda: told()[beside] in {"Resources", "Priority"})
        explainer = Explainer(look(bed))
    finally:
        bed.run("scontrol", "update", "PartitionName=gpu", "MaxTime=UNLIMITED")
    found = {job: explainer.explain(str(job)) for job in (*wanted, beside)}
    whys = {second: Why.LIMIT, much: Why.LIMIT, long: Why.NEVER, after: Why.DEPENDENCY, kept: Why.RESERVED,
            both: Why.DOWN, beside: Why.NO_FIT}  # fmt: skip
    assert {job: one.reason.why for job, one in found.items()} == whys
    assert "user root in QOS few has 1 job with 1 GPU running" in found[second].reason.text
    assert "waiting does not help" in found[much].next_step
    assert found[long].next_step == "ask for at most 10.0 h"
    assert f"job {first} runs" in found[after].reason.text
    assert "begins" in found[kept].reason.text
    assert "before a node that is down is back" in found[both].reason.text
    cpus = next(one.columns["cpus"] for one in found[beside].changes if one.starts_now and "cpus" in one.columns)
    gpus = next(one.columns["gpus"] for one in found[both].changes if one.starts_now and "gpus" in one.columns)
    bed.run("scancel", str(beside), str(both))  # in their place come the changed ones
    changed = (
        bed.submit(900, f"--cpus-per-task={cpus:.0f}", gpus=1, gpu_type="m40", limit_min=60),
        bed.submit(900, gpus=gpus, gpu_type="p100", limit_min=30),
    )
    for job in changed:
        bed.wait_for(f"the start of changed job {job}", lambda job=job: bed.job(job)["job_state"] == "RUNNING")


def test_a_refused_qos_a_draining_node_and_a_node_by_name_are_told_as_they_are(testbed_with_database):
    """A QOS that the partition does not take is no limit; a node that drains makes no room; any other node would do."""
    bed = testbed_with_database
    bed.run("sacctmgr", "-i", "add", "qos", "odd", check=False)  # an earlier run may have added it
    bed.run("sacctmgr", "-i", "modify", "account", "research", "set", "qos+=odd", check=False)
    bed.wait_for("the QOS", lambda: "QOS=odd(" in bed.run("scontrol", "show", "assoc_mgr", "flags=qos"))
    holder = bed.submit(900, "--nodelist=p100-1", gpus=4, gpu_type="p100", limit_min=60)
    bed.wait_for("a start", lambda: bed.job(holder)["job_state"] == "RUNNING")
    bed.run("scontrol", "update", "NodeName=p100-1", "State=DRAIN", "Reason=test")
    named = bed.submit(900, "--nodelist=p100-1", gpus=3, gpu_type="p100", limit_min=30)
    bed.run("scontrol", "update", "PartitionName=gpu", "AllowQos=normal")
    refused = bed.submit(900, "--qos=odd", gpus=1, limit_min=30)

    def told(job):
        return bed.run("squeue", "--noheader", f"--jobs={job}", "--format=%r").strip()

    try:
        bed.wait_for("a reason for the node", lambda: told(named).startswith("ReqNodeNotAvail"))
        bed.wait_for("a reason for the QOS", lambda: "QOS" in told(refused))
        explainer = Explainer(look(bed))
    finally:
        bed.run("scontrol", "update", "PartitionName=gpu", "AllowQos=ALL")
    never, away = explainer.explain(str(refused)), explainer.explain(str(named))
    assert never.reason.why is Why.NEVER
    assert "does not take its QOS" in never.reason.text
    assert away.reason.why is Why.DOWN
    assert away.reason.text.endswith("down: p100-1; it cannot start before a node that is down is back")
    change = next(one for one in away.changes if one.starts_now and one.text.startswith("any node of partition gpu"))
    assert change.columns == {"vc": "gpu"}
    anywhere = bed.submit(900, gpus=3, gpu_type="p100", limit_min=30)
    bed.wait_for("the start of the changed job", lambda: bed.job(anywhere)["job_state"] == "RUNNING")
    bed.run("scontrol", "update", "NodeName=p100-1", "State=RESUME")


def test_the_guards_reason_is_the_order_that_sprio_shows(testbed, tmp_path):
    """Who acts puts an owed job first: the others wait for the guard, and sprio has them behind it."""
    holder = testbed.submit(600, gpus=2, gpu_type="k80", nodes=2, limit_min=60)
    testbed.wait_for("a start", lambda: testbed.job(holder)["job_state"] == "RUNNING")
    owed = testbed.submit(600, gpus=2, gpu_type="k80", nodes=2, limit_min=50)
    begin = testbed.now_s()
    testbed.wait_for("the owed job to be owed", lambda: testbed.now_s() > begin + 8)
    later = testbed.submit(600, gpus=2, gpu_type="k80", nodes=2, limit_min=30)
    acting = settings(safety={"guard": "0.0015h"})  # 5.4 s
    Controller(testbed.backend(), Journal.create(tmp_path / "j.db"), acting, SystemClock()).cycle()
    factors = site_factors(testbed)
    assert factors[owed] > factors[later]
    explainer = Explainer(present_of_slurm(testbed.backend(), acting, pin_pipeline(acting)))
    assert explainer.reason(str(owed)).why is Why.FULL
    told = explainer.reason(str(later))
    assert told.why is Why.GUARD
    assert f"({owed})" in told.text
