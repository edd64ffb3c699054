"""On a real Slurm the dominant reason is the one that squeue tells, and a proposed change starts the job when made."""

from live_cases import settings

from rltune.explain import Explainer
from rltune.forecast import forecast
from rltune.live.pinned_pipeline import pin_pipeline
from rltune.live.present_of_slurm import present_of_slurm
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


def test_a_forecast_of_slurms_own_order(testbed):
    """Whoever is next starts when the running job's limit is over, in every future: nothing else is known."""
    holder = testbed.submit(600, gpus=2, gpu_type="k80", nodes=2, limit_min=60)
    testbed.wait_for("a start", lambda: testbed.job(holder)["job_state"] == "RUNNING")
    first, second = (testbed.submit(600, gpus=2, gpu_type="k80", nodes=2, limit_min=30) for _ in range(2))
    made = forecast(look(testbed), rolls=6)
    assert set(made.by_job) == {str(first), str(second)}
    assert made.by_job[str(first)].p50_s < made.by_job[str(second)].p50_s
    assert made.order.startswith("Slurm's order")
