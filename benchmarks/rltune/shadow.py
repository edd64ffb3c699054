"""A week of shadow on a real Slurm with a fast clock: is nothing changed, and does nothing grow without bound?

    python benchmarks/rltune/shadow.py out/shadow                            a week in an hour
    python benchmarks/rltune/shadow.py out/shadow --days 2 --clock 168       two days in 17 minutes

The jobs of an experiment arrive for so long, and a controller in shadow mode looks at them once a second of the
machine's time. slurmctld logs every request that it gets: none may change a job, and none may submit or cancel one but
those of whoever submits. Every so often the numbers, node lists and comments that Slurm holds are read. Told in the
end: requests by kind, cycles and their length, memory and journal by tenths of the time; then the report of the
journal, which is what a site would read. Needs root and Slurm.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rltune.lab.experiment import tuned_multifactor as multifactor
from rltune.lab.experiment.experiment_plan import Arm, ExperimentPlan
from rltune.lab.experiment.fresh_slurm import fresh_testbed, submitting
from rltune.lab.testbed import Testbed
from rltune.live.clock import SystemClock
from rltune.live.control_settings import ControlSettings
from rltune.live.control_settings_file import load_settings
from rltune.live.controller import Controller
from rltune.live.decide.rehearse import rehearse
from rltune.live.journal.store import Journal
from rltune.live.pinned_pipeline import pin_pipeline

DAY_S = 86400.0
JOBS_A_DAY = 500  # of the experiment's kind: about what 13 GPUs can do
OPCODE = re.compile(r"received opcode (\w+)")
CHANGING = re.compile(r"REQUEST_(UPDATE|KILL|CANCEL|SUSPEND|JOB_REQUEUE|TOP|CREATE|DELETE|RECONFIGURE|SHUTDOWN)")
LOOK_S = 30.0  # real seconds between two looks at what Slurm holds and at what the controller takes


@dataclass
class Watch:
    """What is seen while the controller watches."""

    cycles_s: list[float] = field(default_factory=list)
    memory_mib: list[float] = field(default_factory=list)
    journal_mib: list[float] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)  # what Slurm held that nobody but a controller writes
    waiting: list[int] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)


def settings_for(policy: str, cycle_s: float, factor: int, journal_mib: float) -> ControlSettings:
    """Return the settings of a controller that only watches."""
    health = {"max_clock_jump_s": 30.0 + 5.0 * factor}
    told = {"mode": "shadow", "cycle_s": cycle_s, "pipeline": {"policy": policy, "estimator": "user"}}
    return load_settings(None, told | {"journal": {"max_mib": journal_mib}, "advanced": {"health": health}})


def look(bed: Testbed, watch: Watch, journal: Path) -> None:
    """Note memory and journal, and whatever of the jobs nobody but a controller could have changed."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    watch.memory_mib.append(int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024)
    files = journal.parent.glob(journal.name + "*")
    watch.journal_mib.append(sum(file.stat().st_size for file in files) / 2**20)
    seen = bed.backend().observe()
    watch.waiting.append(len(seen.pending))
    for job in seen.jobs:
        held = {"SiteFactor": job.site_factor, "Nice": job.nice, "ExcNodeList": job.excluded_nodes}
        held |= {"ReqNodeList": job.required_nodes, "AdminComment": job.admin_comment}
        watch.touched |= {f"{name} of job {job.id}: {value}" for name, value in held.items() if value}
    watch.touched |= {f"record {record.id}" for record in seen.records}


def shadow(controller: Controller, clock: SystemClock, bed: Testbed, until_s: float, journal: Path) -> Watch:
    """Let the controller watch until a time of the fast clock."""
    watch, looked_s = Watch(), 0.0
    while bed.now_s() < until_s:
        begin_s = time.monotonic()
        report = controller.cycle()
        watch.cycles_s.append(report.seconds)
        watch.events.update(re.sub(r"\d+(\.\d+)?", "N", event) for event in report.events)
        if time.monotonic() - looked_s >= LOOK_S:
            looked_s = time.monotonic()
            look(bed, watch, journal)
        clock.wait(controller.settings.cycle_s - (time.monotonic() - begin_s) * clock.factor)
    look(bed, watch, journal)
    return watch


def by_tenth(values: list[float]) -> list[float]:
    """Return the mean of every tenth of a course."""
    return [round(float(part.mean()), 3) for part in np.array_split(np.array(values), 10) if len(part)]


def main() -> None:
    """Watch, count, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--clock", type=int, default=168, help="how many times as fast")
    parser.add_argument("--policy", default="saf")
    parser.add_argument("--load", type=float, default=1.05)
    parser.add_argument("--journal-mib", type=float, default=48.0, help="what the journal may take")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True)
    journal_file = asked.folder.absolute() / "journal.db"
    settings = settings_for(asked.policy, float(asked.clock), asked.clock, asked.journal_mib)
    rehearse(settings, pin_pipeline(settings))
    plan = ExperimentPlan((Arm("shadow"),), (1,), max(1, round(JOBS_A_DAY * asked.days)), asked.load)
    conf = multifactor.settings_for(1.0) | {"DebugFlags": "Protocol"}
    with fresh_testbed(asked.folder / "testbed", plan.cluster, asked.clock, conf) as bed:
        log = bed.folder / "log/slurmctld.log"
        clock = SystemClock(float(bed.factor), *bed.clock_at)
        with closing(Journal.create(journal_file)) as journal, submitting(bed, plan.workload(1)) as submitter:
            controller = Controller(bed.backend(), journal, settings, clock)
            watch = shadow(controller, clock, bed, bed.now_s() + asked.days * DAY_S, journal_file)
        submitted = len(submitter.ids)
        requests = Counter(OPCODE.findall(log.read_text(encoding="utf-8", errors="replace")))
    tell(watch, requests, submitted, asked.folder)
    report = [str(Path(sys.executable).with_name("rltune")), "journal", "report", "--journal", str(journal_file)]
    subprocess.run(report, check=True)


def tell(watch: Watch, requests: Counter[str], submitted: int, folder: Path) -> None:
    """Print what was seen, and keep it as JSON."""
    changing = {name: number for name, number in requests.items() if CHANGING.match(name)}
    told = {
        "cycles": len(watch.cycles_s),
        "cycle_s by tenths": by_tenth(watch.cycles_s),
        "longest cycle_s": round(max(watch.cycles_s), 2),
        "memory_mib by tenths": by_tenth(watch.memory_mib),
        "journal_mib by tenths": by_tenth(watch.journal_mib),
        "most waiting": max(watch.waiting),
        "jobs submitted": submitted,
        "requests": dict(requests.most_common()),
        "requests that change something": changing,
        "held by Slurm that only a controller writes": sorted(watch.touched)[:10],
        "events": dict(watch.events.most_common(10)),
    }
    (folder / "shadow.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    for name, value in told.items():
        print(f"{name}: {value}", flush=True)


if __name__ == "__main__":
    main()
