"""Whether `rltune calibrate` finds what was hidden in made-up sites, and finds nothing where nothing is.

python benchmarks/rltune/calibration.py [--seeds 20]
"""

import argparse
import sys
import tomllib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "packages" / "rltune" / "tests"))
from made_history import broken, cluster, happened, limited, workload

from rltune.calibration import calibrate
from rltune.calibration.cluster_file import lines_of
from rltune.cluster import Limit
from rltune.policy.multifactor import Multifactor

QOS = Multifactor(age=1000, fairshare=0, job_size=0, partition=0, qos=20, qos_priority={"high": 1.0})
FAIR = Multifactor(age=200, fairshare=1000, job_size=0, partition=0, qos=0)


def cases(seed):
    """Yield a name, the history, the cluster that is described, and whether what was found is the truth."""
    jobs = workload(seed=seed)
    end = float(jobs.submit_s.max())
    yield (
        "nothing hidden",
        happened(jobs, cluster()),
        cluster(),
        lambda f: not {"limit", "outage", "maintenance"} & set(f),
    )
    yield (
        "8 GPUs a user",
        happened(workload(load=0.6, users=4, seed=seed), limited(8)),
        cluster(),
        lambda f: f.get("limit") == [{"scope": "user", "max_gpus": 8}] and "outage" not in f,
    )
    running = cluster(limits=(Limit(scope="user", max_running=3),))
    yield (
        "3 running jobs a user",
        happened(workload(load=0.6, users=4, seed=seed), running),
        cluster(),
        lambda f: f.get("limit") == [{"scope": "user", "max_running": 3}] and "outage" not in f,
    )
    yield (
        "a node down for a third",
        happened(jobs, broken((2, 0.3 * end, 0.6 * end))),
        cluster(),
        lambda f: any(o["node"] == 2 and o["up_s"] - o["down_s"] > 0.27 * end for o in f.get("outage", ())),
    )
    yield (
        "2 of 10 nodes never there",
        happened(workload(load=1.1, seed=seed), cluster(8)),
        cluster(10),
        lambda f: [o["node"] for o in f.get("outage", ())] == [8, 9],
    )
    yield (
        "QOS 20 to age 1000",
        happened(workload(n=4000, load=0.95, seed=seed), cluster(), QOS),
        cluster(),
        lambda f: 14 < f["scheduler"].get("qos", 0) < 26 and f["scheduler"]["age"] == 1000,
    )
    yield (
        "fair share 1000 to age 200",
        happened(workload(n=3000, seed=seed), cluster(), FAIR),
        cluster(),
        lambda f: f["scheduler"].get("fairshare") == 1000 and 100 < f["scheduler"]["age"] < 300,
    )


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seeds", type=int, default=20)
    seeds = asked.parse_args().seeds
    table = {}
    for seed in range(seeds):
        for name, history, described, is_truth in cases(seed):
            made = calibrate(history, described)
            good = is_truth(tomllib.loads(lines_of(made.findings)))
            after = made.after or made.close
            table.setdefault(name, []).append((good, made.close.waits.ratio, after.waits.ratio))
    print("| hidden | found | replayed / recorded mean wait | with the lines |\n| --- | --- | --- | --- |")
    for name, rows in table.items():
        good, before, after = np.array(rows, dtype=float).T
        print(f"| {name} | {int(good.sum())} of {seeds} | {np.median(before):.2f} | {np.median(after):.2f} |")


if __name__ == "__main__":
    main()
