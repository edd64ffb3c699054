"""What a cycle of the controller costs: read, decide, journal and write, with many waiting jobs.

python benchmarks/rltune/control.py                     # 1,000 and 10,000 waiting jobs; a minute
python benchmarks/rltune/control.py --jobs 10000 --policy wfp3 --placement milp --json
python benchmarks/rltune/control.py --jobs 1000 --minutes 20     # the cluster goes on: how many numbers are written

Slurm's commands are stand-ins that print generated JSON (a recorded record of Slurm 22.05 with other contents) and
answer as scontrol does, so that slurmctld's own time is not in these figures; everything else is as in production.
A second cycle on the same queue must write nothing. With --minutes the cluster goes on between the cycles: of what runs
a part ends, waiting jobs start by their priorities wherever they fit, and as many arrive as have started.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from rltune.live.clock import SystemClock
from rltune.live.control_settings_file import load_settings
from rltune.live.controller import Controller
from rltune.live.decide.rehearse import rehearse
from rltune.live.journal.store import Journal
from rltune.live.pinned_pipeline import pin_pipeline
from rltune.live.see.snapshot import RecordJob, Snapshot
from rltune.live.slurm.client import Slurm

RECORDED = Path(__file__).parents[2] / "packages/rltune/tests/live/slurm/data/22.05"
GPUS = 8
ENDS_A_MINUTE = 0.03  # of the jobs that run
CYCLES = 3  # on one queue, a second apart
FIRST_S = 1_800_000_000  # when the cluster is first looked at: its clock is its own, so that every run sees the same
SCONTROL = """#!/bin/sh
while IFS= read -r line; do
  echo "scontrol: $line"
  case "$line" in
    ping) echo "Slurmctld(primary) at here is UP" ;;
    "show hostnames "*) echo "${line#show hostnames }" ;;
    "show partition"*) cat "$FOLDER/partitions" ;;
    "show config"*) printf '%s\\n' "SLURM_VERSION = 22.05.8" "SelectTypeParameters = CR_CORE" ;;
    update*) echo "$line" >>"$FOLDER/written" ;;
  esac
done
"""

# As Slurm does, it shows at once what was written: what is on file is from before.
SPRIO = """#!/bin/sh
exec awk -F'[|]' -v OFS='|' '
  FILENAME ~ /written$/ { if (match($0, /JobId=[0-9]+ SiteFactor=/)) {
    split(substr($0, RSTART), word, /[= ]/); site[word[2]] = word[4] }; next }
  $1 in site { $2 += site[$1] - $3; $3 = site[$1] }
  { print }' "$FOLDER/written" "$FOLDER/sprio.out"
"""


def make_cluster(folder: Path, jobs: int, nodes: int, seed: int) -> None:
    """Write what the stand-ins print, and the stand-ins."""
    random = np.random.default_rng(seed)
    answer = json.loads((RECORDED / "squeue.json").read_text(encoding="utf-8"))
    by_state = {record["job_state"]: record for record in answer["jobs"] if not record["array_job_id"]}
    running = [running_job(by_state["RUNNING"], i, i % nodes, FIRST_S) for i in range(2 * nodes)]
    waiting = [waiting_job(by_state["PENDING"], 10_000 + i, random, FIRST_S) for i in range(jobs)]
    (folder / "squeue.out").write_text(json.dumps({**answer, "jobs": [*running, *waiting]}), encoding="utf-8")
    write_nodes(folder, [GPUS] * nodes)
    write_factors(folder, waiting)
    (folder / "partitions").write_text(f"PartitionName=gpu Nodes=n[0-{nodes - 1}] PriorityTier=1 State=UP\n")
    (folder / "written").touch()
    for name in ("squeue", "sinfo"):
        write_program(folder / name, f'#!/bin/sh\ncat "$FOLDER/{name}.out"\n')
    write_program(folder / "scontrol", SCONTROL)
    write_program(folder / "sprio", SPRIO)


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def write_factors(folder: Path, waiting: list[dict], site: dict[int, int] | None = None) -> None:
    """Write what sprio prints: priority, site factor, nice and the others."""
    factors = site or {}
    lines = []
    for record in waiting:
        number = record["job_id"]
        own = own_priority(number)
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
        "priority": own_priority(number),
        "state_reason": "Priority",
        "dependency": "",
        "features": "",
        "required_nodes": "",
        "excluded_nodes": "",
    }


def running_job(record: dict, number: int, node: int, now: int, gpus: int = 4) -> dict:
    tres = f"cpu={gpus},mem=1G,node=1,billing={gpus},gres/gpu={gpus}"
    return {
        **record,
        "job_id": number + 1,
        "partition": "gpu",
        "nodes": f"n{node}",
        "node_count": 1,
        "start_time": now - 600,
        "submit_time": now - 1200,
        "time_limit": 60 + number,
        "gres_detail": [f"gpu:a100:{gpus}(IDX:0-{gpus - 1})"],
        "tres_per_node": f"gres:gpu:{gpus}",
        "tres_req_str": tres,
        "tres_alloc_str": tres,
        "cpus": gpus,
    }


def write_nodes(folder: Path, used: list[int]) -> None:
    """Write what sinfo prints, the nodes having so many GPUs in use."""
    listed = json.loads((RECORDED / "sinfo.json").read_text(encoding="utf-8"))
    has = {"gres": f"gpu:a100:{GPUS}", "partitions": ["gpu"], "cpus": 64}
    nodes = [
        {**listed["nodes"][0], **has, "gres_used": f"gpu:a100:{gpus}(IDX:N/A)", "name": f"n{i}"}
        for i, gpus in enumerate(used)
    ]
    (folder / "sinfo.out").write_text(json.dumps({**listed, "nodes": nodes}))


@dataclass
class Cluster:
    """What the stand-ins show."""

    folder: Path
    nodes: int
    random: np.random.Generator
    clock_s: int = FIRST_S
    next_id: int = 1_000_000

    def now_s(self) -> float:
        return self.clock_s

    def minute(self) -> None:
        """Let some jobs end, others start by their priorities, and as many arrive."""
        self.clock_s += 60
        answer = json.loads((self.folder / "squeue.out").read_text())
        running = [r for r in answer["jobs"] if r["job_state"] == "RUNNING" and self.random.random() > ENDS_A_MINUTE]
        waiting = [r for r in answer["jobs"] if r["job_state"] == "PENDING"]
        free = [GPUS] * self.nodes
        for record in running:
            free[int(record["nodes"][1:])] -= gpus_of(record)
        started = self.start(waiting, running[0], free)
        arrived = [self.arrive(waiting[0]) for _ in started]
        names = {record["job_id"] for record in started}
        waiting = [record for record in waiting if record["job_id"] not in names] + arrived
        (self.folder / "squeue.out").write_text(json.dumps({**answer, "jobs": [*running, *started, *waiting]}))
        write_nodes(self.folder, [GPUS - gpus for gpus in free])
        site = {r["job_id"]: r["priority"] - own_priority(r["job_id"]) for r in waiting}
        write_factors(self.folder, waiting, site)

    def start(self, waiting: list[dict], like: dict, free: list[int]) -> list[dict]:
        """Start whatever fits, by priority, on the first node that has room."""
        started = []
        for record in sorted(waiting, key=lambda r: (-r["priority"], r["submit_time"], r["job_id"])):
            gpus = gpus_of(record)
            node = next((i for i, room in enumerate(free) if room >= gpus), None)
            if node is not None:
                free[node] -= gpus
                started.append(running_job(like, record["job_id"] - 1, node, self.clock_s + 600, gpus))
        return started

    def arrive(self, like: dict) -> dict:
        self.next_id += 1
        return {**waiting_job(like, self.next_id, self.random, 0), "submit_time": self.clock_s}


def gpus_of(record: dict) -> int:
    return int(record["tres_per_node"].rpartition(":")[2])


def own_priority(number: int) -> int:
    return 20_000 + number % 500


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
            record["priority"] = own_priority(record["job_id"]) + site.get(record["job_id"], 0)
    (folder / "squeue.out").write_text(json.dumps(answer))
    write_factors(folder, [r for r in answer["jobs"] if r["job_state"] == "PENDING"], site)


class SlurmWithRecords(Slurm):
    """The programs here submit no jobs: what the controller keeps of its own in Slurm is remembered in this process."""

    _kept: ClassVar[dict[int, RecordJob]] = {}

    def observe(self) -> Snapshot:
        return replace(super().observe(), records=tuple(self._kept.values()))

    def user(self) -> str:
        return "rltune"

    def open_record(self, text: str, partition: str) -> int:  # noqa: ARG002
        number = 10_000_000 + len(self._kept)
        self._kept[number] = RecordJob(number, self.user(), text)
        return number

    def write_records(self, texts: dict[int, str]) -> None:
        self._kept.update({job: replace(self._kept[job], text=text) for job, text in texts.items()})

    def close_records(self, jobs: list[int]) -> None:
        for job in jobs:
            self._kept.pop(job, None)


def measure(jobs: int, nodes: int, pipeline: dict, minutes: int, exact: int | None) -> dict:
    """Run cycles: three on one queue (all is written, nothing is, nothing is), or one a minute of a cluster at work."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_cluster(folder, jobs, nodes, seed=1)
        cluster = Cluster(folder, nodes, np.random.default_rng(2))
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "FOLDER": str(folder)}
        slurm = SlurmWithRecords(environment=environment, now_s=cluster.now_s)
        wanted = {
            "mode": "act",
            "scope": {"partitions": ["gpu"]},
            "pipeline": pipeline,
            "numbers": {"exact": exact},
            "limits": {"changes_per_cycle": 1_000_000},
            "health": {"max_clock_jump_s": 1e9},
        }
        settings = load_settings(None, wanted)
        rehearse(settings, pin_pipeline(settings))
        controller = Controller(slurm, Journal.create(folder / "j.db"), settings, SystemClock(), say=to_stderr)
        os.environ["PATH"] = environment["PATH"]
        cycles, calls, cpu = [], [], []
        for _ in range(minutes or CYCLES):
            before, began = sum(slurm.calls.values()), time.process_time()
            cycles.append(controller.cycle())
            cpu.append(round(time.process_time() - began, 2))
            calls.append(sum(slurm.calls.values()) - before)
            apply_written(folder)
            if minutes:
                cluster.minute()
            else:
                cluster.clock_s += 1
        told = settings.pipeline
        numbers = controller.journal.rows(
            "SELECT cycle, count(*) FROM change WHERE kind = 'site-factor' AND NOT undo GROUP BY cycle ORDER BY cycle"
        )
        return {
            "waiting": cycles[0].waiting,
            "nodes": nodes,
            "pipeline": f"{told.policy} + {told.backfill}, {told.placement}",
            "seconds": [round(c.seconds, 2) for c in cycles],
            "cpu_seconds": cpu,
            "decide_seconds": [round(c.decide_s, 2) for c in cycles],
            "changes": [c.changes for c in cycles],
            "numbers": [count for _, count in numbers],
            "refused": sum(c.refused for c in cycles),
            "processes": calls,
            "journal_mib": round(controller.journal.size_bytes() / 2**20, 1),
            "peak_mib": peak_mib(),
        }


def to_stderr(text: str) -> None:
    """Print what the controller says; standard output has the figures alone."""
    print(text, file=sys.stderr)


def peak_mib() -> int:
    """Return the most memory this program had; `getrusage` would count what its parent had when it began, too."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--nodes", type=int, default=250)
    parser.add_argument("--policy")
    parser.add_argument("--backfill")
    parser.add_argument("--placement")
    parser.add_argument("--minutes", type=int, default=0)
    parser.add_argument("--exact", type=int, help="jobs whose order is kept exactly; 100000 = all")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for jobs in given.jobs:
        pipeline = {"policy": given.policy, "backfill": given.backfill, "placement": given.placement}
        found = measure(jobs, given.nodes, pipeline, given.minutes, given.exact)
        if given.json:
            print(json.dumps(found))
            continue
        for key, value in found.items():
            print(f"{key:16} {value}")
        print()


if __name__ == "__main__":
    main()
