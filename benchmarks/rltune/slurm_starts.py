"""Where Slurm and the simulator part: what each starts in the very state that a run's journal shows.

python benchmarks/rltune/slurm_starts.py out/slurm/learned-slurm-five-1.journal.db --show 5

For every end of a job the state of that moment is put together from the controller's snapshots: who ran where, who
waited, in which order by Slurm's numbers, bound to which nodes. The core makes one pass over it, and is compared with
whoever Slurm started within `--within` seconds. Left out: moments soon before another end or a submission, and those
so soon after a look of the controller that its numbers may not have been written yet. Not for arms that take turns.
"""

import argparse
import math
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from rltune.engine.pipeline import PLANNING
from rltune.live.control_settings import ControlSettings
from rltune.live.decide.engine_pass import CorePass
from rltune.live.decide.job_table import pose
from rltune.live.decide.node_layout import lay_out
from rltune.live.decide.ranking import by_slurm
from rltune.live.decide.run_times import limit_of
from rltune.live.journal.packing import unpack_snapshot
from rltune.live.journal.store import Journal
from rltune.live.pinned_pipeline import pin_policy
from rltune.live.see.snapshot import PENDING, RUNNING, LiveJob, Snapshot

WRITTEN_S = 25.0  # by the fast clock, from a look to the last number of its cycle


class Chronicle:
    """A run as its journal has it: every look, and what became of every job."""

    def __init__(self, path: Path) -> None:
        journal = Journal.read(path)
        cycles = [journal.cycle(number) for number in range(1, journal.last_cycle() + 1)]
        run = journal.run(cycles[0].run)
        settings = ControlSettings.model_validate_json(run.settings)
        self.pipeline = pin_policy(settings, journal.policy_text(run.policy) if run.policy else None).pipeline
        self.looks = [unpack_snapshot(cycle.snapshot) for cycle in cycles]
        self.taken_s = [look.taken_s for look in self.looks]
        self.fate = {job.id: job for look in self.looks for job in look.jobs}
        self.submits_s = sorted(job.submit_s for job in self.fate.values())
        seen = (job for job in self.fate.values() if job.ended and job.end_s < self.taken_s[-2])
        self.ends = sorted((job.end_s, job.id) for job in seen)

    def moments(self, within_s: float) -> list[float]:
        """List the ends that stand alone."""
        found = []
        for i, (at_s, _) in enumerate(self.ends):
            later = [self.ends[i + 1][0]] if i + 1 < len(self.ends) else []
            later += self.submits_s[bisect_right(self.submits_s, at_s) :][:1]
            look = bisect_right(self.taken_s, at_s) - 1
            alone = all(other_s - at_s >= within_s for other_s in later)
            if alone and look >= 1 and at_s - self.taken_s[look] >= WRITTEN_S:
                found.append(at_s)
        return found

    def state(self, at_s: float) -> Snapshot:
        """Return the cluster at a moment; numbers and node lists are those that the look after it shows."""
        look = bisect_right(self.taken_s, at_s) - 1
        after, before = self.looks[look + 1].job_by_id, self.looks[look]
        jobs = []
        for job in self.fate.values():
            if job.start_s <= at_s:
                jobs += [] if job.end_s <= at_s else [replace(job, state=RUNNING, end_s=math.nan)]
            elif job.submit_s <= at_s:
                known = after.get(job.id, job)
                jobs.append(replace(known, state=PENDING, start_s=math.nan, node_names=(), gpus_by_node=()))
        nodes = tuple(replace(node, gpus_used=0) for node in before.nodes)  # jobs tell what is in use
        return replace(before, taken_s=at_s, jobs=tuple(jobs), nodes=nodes)


@dataclass(frozen=True)
class Parting:
    """What a pass starts and what Slurm started."""

    at_s: float
    simulated: frozenset[int]
    real: frozenset[int]
    waiting: tuple[LiveJob, ...]  # in Slurm's order


def part(run: Chronicle, at_s: float, backfill: str, within_s: float) -> Parting | None:
    """Compare one moment; None if nobody waits."""
    state = run.state(at_s)
    waiting = sorted(state.pending, key=by_slurm)
    if not waiting:
        return None
    layout = lay_out(state, waiting)
    problem = pose(state, layout, waiting, {job.id: limit_of(job, state) for job in state.jobs})
    core = CorePass(problem, layout, replace(run.pipeline, backfill=backfill), at_s)
    core.order()
    core.run([job.id for job in waiting])
    simulated = frozenset(job for job, result in core.results().items() if result.tasks)
    real = frozenset(job.id for job in waiting if run.fate[job.id].start_s <= at_s + within_s)
    return Parting(at_s, simulated, real, tuple(waiting))


def show(run: Chronicle, parting: Parting) -> None:
    print(f"{parting.at_s - run.taken_s[0]:.0f} s after the first look, {len(parting.waiting)} wait")
    for rank, job in enumerate(parting.waiting):
        if job.id in parting.simulated ^ parting.real:
            who = "the simulator alone" if job.id in parting.simulated else "Slurm alone"
            asks = f"{job.gpus} GPUs on {job.nodes} nodes, type {'|'.join(job.gpu_types) or 'any'}"
            late_s = run.fate[job.id].start_s - parting.at_s
            print(
                f"  {who} starts job {job.id}, rank {rank}: {asks}, limit {job.limit_s / 60:.0f} min; {late_s:+.0f} s"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("journals", type=Path, nargs="+")
    parser.add_argument("--within", type=float, default=32.0, help="seconds of the fast clock")
    parser.add_argument("--show", type=int, default=0, help="how many moments that differ to show")
    asked = parser.parse_args()
    total = {backfill: Counter() for backfill in PLANNING}
    for path in asked.journals:
        run = Chronicle(path)
        for backfill, counts in total.items():
            found = [part(run, at_s, backfill, asked.within) for at_s in run.moments(asked.within)]
            told = [parting for parting in found if parting is not None]
            differ = [parting for parting in told if parting.simulated != parting.real]
            counts["moments"] += len(told)
            counts["alike"] += len(told) - len(differ)
            counts["started by both"] += sum(len(p.simulated & p.real) for p in told)
            counts["by the simulator alone"] += sum(len(p.simulated - p.real) for p in told)
            counts["by Slurm alone"] += sum(len(p.real - p.simulated) for p in told)
            if backfill == PLANNING[-1]:
                for parting in differ[: asked.show]:
                    show(run, parting)
    for backfill, counts in total.items():
        print(f"{backfill:12}", ", ".join(f"{what} {count}" for what, count in counts.items()))


if __name__ == "__main__":
    main()
