"""The policy of the experiment on a real Slurm: evolved in simulation on the experiment's workload of another seed.

python benchmarks/rltune/slurm_model.py slurm-five.rltune --makespan 0.12         # as it ships; half an hour
python benchmarks/rltune/slurm_model.py slurm-five-even.rltune --makespan 0.3     # gives up wait for makespan

As on Slurm, every waiting job has a reservation, the policy is asked once a minute and guarded as by the controller,
and a job holds its GPUs for up to 30 s longer, until the next backfilling. Minimised are the mean wait and a share of
the makespan, both in seconds. How much bends add (ADR 0014):

python benchmarks/rltune/slurm_model.py straight.rltune --makespan 0.08 --bends 0 --generations 40 --tried 16
python benchmarks/rltune/slurm_model.py bent.rltune --makespan 0.08 --bends 2 --generations 70
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from rltune import Cluster, __version__
from rltune.lab.experiment.experiment_plan import USERS
from rltune.lab.experiment.fine_tuning_jobs import make_jobs
from rltune.lab.experiment.tuned_multifactor import BACKFILL_S
from rltune.learn import evolve as evolving
from rltune.learn.cma_es import EvolveSettings
from rltune.learn.evolve import EvolvePlan, evolve_policy
from rltune.learn.replayed_windows import mean_wait
from rltune.live.control_settings import ControlSettings
from rltune.model.model_file import save_model

SEED = 1000  # the experiment's own seeds begin at 1
JOBS, LOAD = 41_000, 1.2
TRACE = f"the workload of `rltune slurm experiment`, seed {SEED}, {JOBS:,} jobs"
PLAN = EvolvePlan(
    estimators=("user",),
    backfill="conservative",
    cycle_s=ControlSettings().cycle_s,
    guard=ControlSettings().safety.guard,
    features="wide+gpu_type+vc",  # which GPUs a job may use, and how crowded those are
    bends=3,
    pool=40,
    size=1024,
    held_windows=10,
    contended_s=60.0,
    holdout=0.2,
    evolve=EvolveSettings(generations=60, tried=20, windows=8, every=5, threads=1),
)


def workload(cluster):
    """Make the jobs that teach: those of the experiment, each holding its GPUs until the next backfilling."""
    jobs = make_jobs(cluster, JOBS, LOAD, SEED, USERS)
    late_s = np.random.default_rng(1).uniform(0, BACKFILL_S, len(jobs))
    return jobs.with_columns(duration_s=jobs.duration_s + late_s)


def main() -> None:
    """Evolve, and write the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--makespan", type=float, required=True, help="weight of a second of makespan")
    parser.add_argument("--bends", type=int, default=PLAN.bends)
    parser.add_argument("--generations", type=int, default=PLAN.evolve.generations)
    parser.add_argument("--tried", type=int, default=PLAN.evolve.tried)
    given = parser.parse_args()
    plan = replace(
        PLAN,
        bends=given.bends,
        evolve=replace(PLAN.evolve, generations=given.generations, tried=given.tried),
    )
    cluster = Cluster.preset("slurm-five")
    jobs = workload(cluster)

    def cost(machine):
        makespan_s = machine.state.life.end.max() - machine.world.job.submit.min()
        return mean_wait(machine) + given.makespan * float(makespan_s)

    evolving.COSTS["wait"] = cost
    found = evolve_policy([(jobs, cluster)], plan, lambda news: print(news, flush=True), [TRACE])
    asked = " ".join(Path(word).name if word == given.out else word for word in sys.argv[1:])
    card = {
        "made_by": f"rltune {__version__}",
        "command": f"python benchmarks/rltune/slurm_model.py {asked}",
        "cluster": "slurm-five (5 nodes, 13 GPUs)",
    }
    save_model(found.model.with_card(**card), given.out)


if __name__ == "__main__":
    main()
