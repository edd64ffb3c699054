"""Which node Slurm takes for a job that nobody led to one: by which rule can its choice be told?

python benchmarks/rltune/slurm_nodes.py out/slurm

reads the runs of an experiment's folder. Every start of a job on one node counts for which more than one node had
room: who chose the least free GPUs, who the node whose CPUs are busiest (of equals the first by name, as Slurm orders
its nodes), who the first by name? Starts while others wait are counted apart: nodes that Slurm keeps for those are not
open to it. Left out are jobs that the controller led to a node, as the journal has it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from rltune.lab.experiment.experiment_plan import ExperimentPlan, read_plan
from rltune.lab.experiment.run_record import RunRecord, as_jobs
from rltune.lab.testbed.testbed_spec import Spec, ports_needed
from rltune.live.journal.packing import unpack_snapshot
from rltune.live.journal.store import Journal


def led(journal: Path) -> set[int]:
    """Return the rows of the jobs that ran with a list of nodes to keep away from."""
    kept = Journal.read(journal)
    looks = (unpack_snapshot(kept.cycle(number).snapshot) for number in range(1, kept.last_cycle() + 1))
    return {int(job.comment.split()[0]) for look in looks for job in look.jobs if job.excluded_nodes and job.comment}


def count(record: RunRecord, journal: Path, plan: ExperimentPlan) -> Counter:
    """Count the choices of one run, by rule."""
    jobs, cluster = as_jobs(record, plan), plan.cluster
    nodes = {node.name: node for node in Spec(Path("/"), cluster, range(1, 1 + ports_needed(cluster))).nodes}
    were_led = led(journal)
    told = Counter()
    for row, ran in enumerate(record.jobs):
        if len(ran.nodes) != 1 or row in were_led:
            continue
        gpus, cpus = ({name: getattr(node.group, what) for name, node in nodes.items()} for what in ("gpus", "cpus"))
        for other, running in enumerate(record.jobs):
            if other != row and (running.start_s, other) < (ran.start_s, row) and running.end_s > ran.start_s:
                for name in running.nodes:
                    gpus[name] -= jobs.gpus[other] / len(running.nodes)
                    cpus[name] -= jobs.cpus[other] / len(running.nodes)
        wanted = jobs.gpu_types.name_of(row)
        room = [n for n in nodes if gpus[n] >= jobs.gpus[row] and cpus[n] >= jobs.cpus[row]]
        room = [n for n in room if not wanted or nodes[n].gpu_type == wanted]
        if len(room) < 2 or ran.nodes[0] not in room:
            continue
        waits = any(one.submit_s < ran.start_s < one.start_s for one in record.jobs)
        rules = {
            "least free GPUs": lambda n, free=gpus: (free[n], list(nodes).index(n)),
            "busiest CPUs": lambda n, free=cpus: (free[n], n),
            "first by name": lambda n: n,
        }
        when = "others wait" if waits else "nobody waits"
        told[when, "starts"] += 1
        for name, rule in rules.items():
            told[when, name] += ran.nodes[0] == min(room, key=rule)
    return told


def main() -> None:
    """Count, and print a line for each rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    plan = read_plan(folder)
    told = Counter()
    for journal in folder.glob("*.journal.db"):
        stem = journal.name.removesuffix(".journal.db")
        if (folder / f"{stem}.json").exists():
            told += count(RunRecord.read(folder / f"{stem}.json"), journal, plan)
    for (when, what), number in sorted(told.items()):
        print(f"{when:14} {what:18} {number}")


if __name__ == "__main__":
    main()
