"""The policy of the experiment on a real Slurm: evolved in simulation on the experiment's workload of another seed.

python benchmarks/rltune/slurm_model.py slurm-five.rltune
"""

import sys

from rltune import Cluster
from rltune.learn.evolve import EvolveSettings
from rltune.learn.evolving import Plan, evolve_policy
from rltune.learn.model import save_model
from rltune.live.slurm.experiment.plan import USERS
from rltune.live.slurm.experiment.workload import make_jobs

SEED = 1000  # the experiment's own seeds begin at 0
PLAN = Plan(
    estimators=("user",),
    backfill="easy",
    pool=60,
    size=300,
    held_windows=12,
    contended_s=60.0,
    evolve=EvolveSettings(generations=30, tried=14, windows=20, every=5),
)


def main() -> None:
    """Evolve, and write the model."""
    cluster = Cluster.preset("slurm-five")
    jobs = make_jobs(cluster, 6000, 1.2, SEED, USERS)
    found = evolve_policy([(jobs, cluster)], PLAN, lambda news: print(news, flush=True))
    save_model(found.model.with_card(command=f"python benchmarks/rltune/slurm_model.py {sys.argv[1]}"), sys.argv[1])


if __name__ == "__main__":
    main()
