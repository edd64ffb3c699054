"""Records of runs on Slurm that were never made: they went as simulated."""

from rltune.engine.simulate import simulate
from rltune.lab.experiment.run_record import Cycles, Ran, RunRecord

NODES = ("p100-1", "p100-2", "k80-1", "k80-2", "m40-1")


def record_of(plan, arm, seed, *, later_s=0.0, states=None):
    """Make the record of a run that went exactly as simulated, but for a delay of every start."""
    made = simulate(plan.workload(seed), plan.cluster, arm.policy or "fcfs", "whole-nodes", "best-fit", "user")
    cycles = Cycles(10, 1, 0.2, 1.5) if arm.policy else Cycles()
    return RunRecord(arm, seed, as_ran(made, later_s, states or {}), cycles, 60.0, "22.05.8")


def as_ran(made, later_s=0.0, states=None):
    """Return a simulated schedule as Slurm's accounting would tell it."""
    return tuple(
        Ran(
            1e9 + made.jobs.submit_s[i],
            1e9 + made.start_s[i] + later_s,
            1e9 + made.end_s[i] + later_s,
            tuple(NODES[node] for node, _ in made.placements[i]),
            (states or {}).get(i, "COMPLETED"),
        )
        for i in range(len(made.jobs))
    )
