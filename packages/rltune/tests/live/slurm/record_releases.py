"""Record what newer releases of Slurm print, for the tests that read it: `python record_releases.py 24.11 26.05`.

On a testbed of each release the same jobs are submitted as were once recorded from 22.05, and two more. What is long
and read by nobody, such as the map of cores, is taken out, and the machine's name is replaced.
"""

import json
import socket
import sys
import time
from pathlib import Path

from real_slurm import short_folder

from rltune.lab.testbed import Testbed
from rltune.live.slurm import sacct_history
from rltune.live.slurm.client import SPRIO, SQUEUE
from rltune.live.slurm.dialect import dialect_for

DATA = Path(__file__).parent / "data"
LEFT_OUT = ("job_resources", "environment", "standard_error", "standard_output", "stderr_expanded", "stdout_expanded")
SETTINGS = ("KillWait", "SelectTypeParameters", "SLURM_VERSION")
LONG = 36_000


def fill(bed: Testbed) -> None:
    """Submit the jobs, in this order, so that numbers are the same in every release."""

    def wait_for(job: int, *states: str) -> None:
        bed.wait_for(f"job {job}", lambda: bed.job(job)["job_state"] in states)

    wait_for(bed.submit(0, gpus=1, name="done"), "COMPLETED")
    wait_for(int(bed.run("sbatch", "--parsable", "-J", "failed", "-o", "/dev/null", "--wrap=exit 3")), "FAILED")
    wait_for(bed.submit(LONG, gpus=3, gpu_type="p100", nodes=2, limit_min=10, name="two nodes"), "RUNNING")
    others = "NodeName=k80-[1-2],m40-1,p100-2"  # which releases differ in preferring
    bed.run("scontrol", "update", others, "State=DRAIN", "Reason=not now")
    wait_for(bed.submit(LONG, gpus=1, limit_min=20, name="any"), "RUNNING")
    wait_for(bed.submit(LONG, "--cpus-per-task=4", "--mem=8G", name="cpu"), "RUNNING")
    bed.run("scontrol", "update", others, "State=RESUME")
    wait_for(int(bed.run("sbatch", "--parsable", "-J", "gpus6", "-G6", "-o", "/dev/null", "--wrap=true")), "COMPLETED")
    wait_for(bed.submit(LONG, "--exclusive", gpus=1, gpu_type="m40", name="exclusive"), "RUNNING")
    big = {"gpus": 4, "gpu_type": "p100"}
    wait = bed.submit(LONG, **big, name="wait")
    bed.submit(LONG, "--constraint=p100|k80", "--time=UNLIMITED", gpus=4, name="unlimited")
    bed.submit(LONG, "--hold", gpus=1, name="held")
    array = bed.submit(LONG, "--array=1-5%2", gpus=2, gpu_type="k80", name="array")
    bed.submit(LONG, f"--dependency=afterok:{wait}", gpus=1, name="dependent")
    bed.submit(LONG, "--begin=now+3600", gpus=1, name="later")
    bed.submit(LONG, "--nodelist=p100-1", "--exclude=k80-2", "--nice=50", **big, name="pinned")
    bed.submit(LONG, "--partition=sla,gpu", gpus=4, name="several partitions")
    words = ("--gpus-per-node=k80:2", ":", "--gpus-per-node=p100:4")
    bed.run("sbatch", "-J", "wrap", "-o", "/dev/null", "-D", "/", *words, "--wrap=sleep 36000")
    for name, node, later in (("maint", "m40-1", 3600), ("class", "k80-[1-2]", 82_800)):
        flags = ["Flags=MAINT"] if name == "maint" else []
        when = (f"StartTime=now+{later}", "Duration=60" if name == "maint" else "Duration=120")
        bed.run(
            "scontrol", "create", "reservation", f"ReservationName={name}", f"Nodes={node}", "Users=root", *when, *flags
        )
    bed.submit(LONG, "--reservation=class", gpus=1, name="in class")
    by_hand = bed.submit(LONG, **big, name="by hand")
    site = bed.submit(LONG, **big, name="site")
    bed.submit(LONG, "--cpus-per-task=6", "--mem-per-cpu=2G", **big, name="mem per cpu")
    bed.submit(LONG, "--mem-per-gpu=3G", **big, name="mem per gpu")
    bed.submit(LONG, "--exclusive=user", **big, name="exclusive to a user")
    bed.run("scontrol", "update", f"JobId={by_hand}", "Priority=4321")
    bed.run("scontrol", "update", f"JobId={site}", "SiteFactor=600")
    bed.wait_for(
        "two tasks", lambda: sum(j["name"] == "array" and j["job_state"] == "RUNNING" for j in bed.jobs()) == 2
    )
    bed.run("scontrol", "update", f"JobId={array}_4", "Nice=3")
    bed.run("scontrol", "update", "NodeName=k80-2", "State=DRAIN", "Reason=a fan")
    time.sleep(5)  # until the scheduler has told everybody why it waits


def record(release: str) -> None:
    """Write one release's folder."""
    folder, dialect = DATA / release, dialect_for(release)
    folder.mkdir(exist_ok=True)
    with Testbed.up(short_folder(), database=True, release=release) as bed:
        fill(bed)
        config = bed.run("scontrol", "show", "config").splitlines()
        kept = "".join(f"{line}\n" for line in config if line.startswith(SETTINGS))
        shown = "".join(bed.run("scontrol", "--oneliner", "show", what) for what in ("partition", "reservation"))
        files = {
            "squeue.json": _json(bed.run(*SQUEUE, dialect.json_word), "jobs"),
            "nodes.json": _json(bed.run(*dialect.nodes_command), "nodes"),
            "nodes-own-shape.json": _json(bed.run("scontrol", "--json", "show", "nodes"), "nodes"),
            "scontrol.txt": shown + kept,
            "show-nodes.txt": bed.run("scontrol", "show", "nodes"),
            "sprio.txt": bed.run(*SPRIO),
        }
        sacct = sacct_history.Sacct(environment=bed.environment, rest=lambda _: None)
        files["sacct.txt"] = sacct.ask(int(time.time()) - 3600, int(time.time()) + 60)
    for name, text in files.items():
        (folder / name).write_text(text.replace(socket.gethostname(), "head"), encoding="utf-8")


def _json(text: str, key: str) -> str:
    answer = json.loads(text)
    answer[key] = [{k: v for k, v in record.items() if k not in LEFT_OUT} for record in answer[key]]
    answer["meta"].pop("client", None)
    return json.dumps(answer, sort_keys=True) + "\n"


if __name__ == "__main__":
    for named in sys.argv[1:]:
        record(named)
