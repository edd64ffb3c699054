"""How near the simulator came to the runs of an experiment on Slurm, by arm and seed.

python benchmarks/rltune/slurm_promise.py out/slurm

reads the records in an experiment's folder, simulates each run with nodes taken by best fit and as Slurm takes them,
and prints by how much the simulated mean wait is off. The spread is that from draw to draw of the simulation, which
draws nothing but the seconds until the next backfilling: a run is one such draw.
"""

import argparse
from pathlib import Path

from rltune.lab.experiment.experiment_plan import path_of, read_plan
from rltune.lab.experiment.prediction import Prediction, predict
from rltune.lab.experiment.run_record import RunRecord


def off(predictions: list[Prediction]) -> float:
    """Return by which share the mean of several runs is off."""
    return sum(p.wait_s for p in predictions) / sum(p.real_wait_s for p in predictions) - 1


def main() -> None:
    """Print a line a run, and one an arm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    plan = read_plan(folder)
    for arm in plan.arms:
        made: list[tuple[Prediction, Prediction]] = []
        for seed in plan.seeds:
            if not path_of(folder, arm, seed).exists():
                continue
            record = RunRecord.read(path_of(folder, arm, seed))
            plain, slurms = predict(record, plan), predict(record, plan, slurms_nodes=True)
            made.append((plain, slurms))
            told = f"{arm.name:20} seed {seed}  waited {plain.real_wait_s / 60:5.1f} min"
            both = (f"{p.wait_error:+6.1%} (spread {p.spread_s / p.real_wait_s:5.1%})" for p in (plain, slurms))
            late = f"{record.cycles.overran} of {record.cycles.count} cycles late"
            print(f"{told}  best fit {next(both)}  as Slurm {next(both)}  {late}", flush=True)
        if made:
            plain_off, slurms_off = (off(list(one)) for one in zip(*made, strict=True))
            print(f"{arm.name:20} mean    best fit {plain_off:+6.2%}  as Slurm {slurms_off:+6.2%}", flush=True)


if __name__ == "__main__":
    main()
