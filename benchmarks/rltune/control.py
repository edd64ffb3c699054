"""What a cycle of the controller costs: read, decide, journal and write, with many waiting jobs.

python benchmarks/rltune/control.py                     # 1,000 and 10,000 waiting jobs; a minute
python benchmarks/rltune/control.py --jobs 10000 --policy wfp3 --placement milp --json

Slurm's commands are stand-ins that print generated JSON (a recorded record of Slurm 22.05 with other contents) and
answer as scontrol does, so that slurmctld's own time is not in these figures; everything else is as in production.
A second cycle on the same queue must write nothing.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from rltune.journal.store import Journal
from rltune.live.clock import SystemClock
from rltune.live.controller import Controller
from rltune.live.rehearse import rehearse
from rltune.live.settings import ControlSettings
from rltune.live.slurm.client import Slurm

RECORDED = Path(__file__).parents[2] / "packages/rltune/tests/live/slurm/data/22.05"
GPUS = 8
SCONTROL = """#!/bin/sh
while IFS= read -r line; do
  echo "scontrol: $line"
  case "$line" in
    ping) echo "Slurmctld(primary) at here is UP" ;;
    "show hostnames "*) echo "${line#show hostnames }" ;;
    "show partition"*) cat "$FOLDER/partitions" ;;
    "show config"*) echo "SelectTypeParameters    = CR_CORE" ;;
    update*) echo "$line" >>"$FOLDER/written" ;;
  esac
done
"""


def make_cluster(folder: Path, jobs: int, nodes: int, seed: int) -> None:
    """Write what the stand-ins print, and the stand-ins."""
    random = np.random.default_rng(seed)
    answer = json.loads((RECORDED / "squeue.json").read_text(encoding="utf-8"))
    by_state = {record["job_state"]: record for record in answer["jobs"] if not record["array_job_id"]}
    now = int(time.time())
    running = [running_job(by_state["RUNNING"], i, i % nodes, now) for i in range(2 * nodes)]
    waiting = [waiting_job(by_state["PENDING"], 10_000 + i, random, now) for i in range(jobs)]
    (folder / "squeue.out").write_text(json.dumps({**answer, "jobs": [*running, *waiting]}), encoding="utf-8")
    listed = json.loads((RECORDED / "sinfo.json").read_text(encoding="utf-8"))
    (folder / "sinfo.out").write_text(json.dumps({**listed, "nodes": nodes_of(listed["nodes"][0], nodes)}))
    write_factors(folder, waiting)
    (folder / "partitions").write_text(f"PartitionName=gpu Nodes=n[0-{nodes - 1}] PriorityTier=1 State=UP\n")
    (folder / "written").touch()
    for name in ("squeue", "sinfo", "sprio"):
        write_program(folder / name, f'#!/bin/sh\ncat "$FOLDER/{name}.out"\n')
    write_program(folder / "scontrol", SCONTROL)


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def write_factors(folder: Path, waiting: list[dict], site: dict[int, int] | None = None) -> None:
    """Write what sprio prints: priority, site factor, nice and the others."""
    factors = site or {}
    lines = []
    for record in waiting:
        number = record["job_id"]
        own = 20_000 + number % 500
        lines.append(f"{number}|{own + factors.get(number, 0)}|{factors.get(number, 0)}|0|{own}|0|0|0|0|0|")
    (folder / "sprio.out").write_text("\n".join(lines) + "\n")


def waiting_job(record: dict, number: int, random: np.random.Generator, now: int) -> dict:
    gpus = int(random.choice([1, 2, 4, 8]))
    return {
        **record,
        "job_id": number,
        "name": f"train{number % 50}",
        "user_name": f"user{number % 97}",
        "partition": "gpu",
        "submit_time": now - int(random.integers(1, 500_000)),
        "time_limit": int(random.integers(5, 5000)),
        "tres_req_str": f"cpu={gpus},mem=1G,node=1,billing=1,gres/gpu={gpus}",
        "tres_per_node": f"gres:gpu:{gpus}",
        "cpus": gpus,
        "priority": 20_000 + number % 500,
        "state_reason": "Priority",
        "dependency": "",
        "features": "",
        "required_nodes": "",
        "excluded_nodes": "",
    }


def running_job(record: dict, number: int, node: int, now: int) -> dict:
    return {
        **record,
        "job_id": number + 1,
        "partition": "gpu",
        "nodes": f"n{node}",
        "node_count": 1,
        "start_time": now - 600,
        "submit_time": now - 1200,
        "time_limit": 60 + number,
        "gres_detail": ["gpu:a100:4(IDX:0-3)"],
        "tres_per_node": "gres:gpu:4",
        "tres_req_str": "cpu=4,mem=1G,node=1,billing=4,gres/gpu=4",
        "tres_alloc_str": "cpu=4,mem=1G,node=1,billing=4,gres/gpu=4",
        "cpus": 4,
    }


def nodes_of(record: dict, count: int) -> list[dict]:
    gpus = {"gres": f"gpu:a100:{GPUS}", "gres_used": f"gpu:a100:{GPUS}(IDX:0-7)", "partitions": ["gpu"], "cpus": 64}
    return [{**record, **gpus, "name": f"n{i}"} for i in range(count)]


def apply_written(folder: Path) -> None:
    """Let the stand-ins show what was written, as Slurm would."""
    site: dict[int, int] = {}
    for line in (folder / "written").read_text().splitlines():
        words = dict(word.split("=", 1) for word in line.split()[1:])
        if "SiteFactor" in words:
            site[int(words["JobId"])] = int(words["SiteFactor"])
    answer = json.loads((folder / "squeue.out").read_text())
    for record in answer["jobs"]:
        if record["job_state"] == "PENDING":
            record["priority"] = 20_000 + record["job_id"] % 500 + site.get(record["job_id"], 0)
    (folder / "squeue.out").write_text(json.dumps(answer))
    write_factors(folder, [r for r in answer["jobs"] if r["job_state"] == "PENDING"], site)


def measure(jobs: int, nodes: int, policy: str, backfill: str, placement: str) -> dict:
    """Run three cycles on one queue: all is written, nothing is written, nothing is written."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_cluster(folder, jobs, nodes, seed=1)
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "FOLDER": str(folder)}
        slurm = Slurm(environment=environment)
        pipeline = {"policy": policy, "backfill": backfill, "placement": placement}
        limits = {"changes_per_cycle": 1_000_000}
        wanted = {"mode": "act", "scope": {"partitions": ["gpu"]}, "pipeline": pipeline, "limits": limits}
        settings = ControlSettings.load(None, wanted)
        rehearse(settings)
        controller = Controller(slurm, Journal.create(folder / "j.db"), settings, SystemClock(), say=print)
        os.environ["PATH"] = environment["PATH"]
        cycles, calls, cpu = [], [], []
        for _ in range(3):
            before, began = sum(slurm.calls.values()), time.process_time()
            cycles.append(controller.cycle())
            cpu.append(round(time.process_time() - began, 2))
            calls.append(sum(slurm.calls.values()) - before)
            apply_written(folder)
        return {
            "waiting": cycles[0].waiting,
            "nodes": nodes,
            "pipeline": f"{policy} + {backfill}, {placement}",
            "seconds": [round(c.seconds, 2) for c in cycles],
            "cpu_seconds": cpu,
            "decide_seconds": [round(c.decide_s, 2) for c in cycles],
            "changes": [c.changes for c in cycles],
            "refused": sum(c.refused for c in cycles),
            "processes": calls,
            "journal_mib": round(controller.journal.size_bytes() / 2**20, 1),
            "peak_mib": peak_mib(),
        }


def peak_mib() -> int:
    """Give the most memory this program had; `getrusage` would count what its parent had when it began, too."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--nodes", type=int, default=250)
    parser.add_argument("--policy", default="saf")
    parser.add_argument("--backfill", default="easy")
    parser.add_argument("--placement", default="best-fit")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for jobs in given.jobs:
        found = measure(jobs, given.nodes, given.policy, given.backfill, given.placement)
        if given.json:
            print(json.dumps(found))
            continue
        for key, value in found.items():
            print(f"{key:16} {value}")
        print()


if __name__ == "__main__":
    main()
