"""A policy of one's own: smallest area first, with every hour of waiting worth 100 GPU-hours.

From the command line, in this folder:  rltune compare -t synth:philly -c philly-slice -p saf,aged_area.py:score
"""
# ruff: noqa: INP001, T201

import numpy as np

import rltune
from rltune.evaluate import compare, parse_windows
from rltune.policy import QueueView
from rltune.policy.base import Scored
from rltune.trace import synthesise


def score(queue: QueueView) -> np.ndarray:
    """Give each waiting job a number; the lowest runs first. Estimates are all that is known of run times."""
    return queue.gpus * queue.estimate_s - 100 * queue.wait_s


def main() -> None:
    """Compare it with the rule that it comes from."""
    cluster = rltune.Cluster.preset("philly-slice")
    jobs = synthesise("philly", jobs=4000, seed=1, load=1.0, cluster=cluster)
    result = compare(
        jobs,
        cluster,
        policies=["saf", Scored("aged area", score)],
        backfills=["easy"],
        windows=parse_windows("5x512"),
        estimator="history",
    )
    for s in result.standings:
        print(f"{s.label:17}  mean wait {s.wait_s.mean / 60:5.1f} min, longest {s.wait_s.max / 3600:5.1f} h")


if __name__ == "__main__":
    main()
