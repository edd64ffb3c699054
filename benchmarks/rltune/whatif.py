"""What-if answers about a queue, against runs in which the nodes really came at that moment.

python benchmarks/rltune/whatif.py                    # made-up histories, ten moments each

At moments of a history, `what_if_now` is asked with what was known then. Beside it the whole history is run twice, as
it was and on a cluster with more nodes, which come up at that moment. Compared are the mean
waits from then on of the jobs that waited.

After a history's last submission nobody comes any more, and what was told of days with arrivals cannot be judged. So a
moment counts if three times the mean wait that was told for it ends before; that asks nothing of the truth.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from rltune.cluster import Cluster, Outage
from rltune.engine.parse_pipeline import read_pipeline
from rltune.engine.run import Machine, run_pipeline
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.present.of_run import present_of_run
from rltune.present.present import Present
from rltune.trace import synthesise
from rltune.whatif import parse_edit, what_if_now
from rltune.whatif.edits import new_nodes, with_nodes

HISTORIES = (("philly", "philly-slice", "4x8:P100", 6000), ("helios", "helios-slice", "4x8:V100", 16_000))
LATEST = 3.0  # times the mean wait that was told, by which jobs must still come


def grown_at(cluster: Cluster, nodes: str, now_s: float) -> Cluster:
    """Return the cluster with more nodes, which are down until then."""
    grown = with_nodes(cluster, new_nodes(nodes, ""))
    since = range(cluster.node_count, grown.node_count)
    return replace(grown, outages=(*grown.outages, *(Outage(node=n, down_s=0.0, up_s=now_s) for n in since)))


def mean_wait(jobs: Jobs, start_s: np.ndarray, present: Present) -> float:
    """Return how long those who wait then waited from then on."""
    place = {str(name): row for row, name in enumerate(jobs.id)}
    return float(np.mean([start_s[place[name]] - present.now_s for name in present.waiting_names]))


def held_out(
    kind: str, preset: str, nodes: str, count: int, seed: int, given: argparse.Namespace
) -> list[tuple[float, ...]]:
    """Return for each moment the mean waits that were told and that came, without and with, and the told interval."""
    cluster, pipeline = Cluster.load(preset), read_pipeline(given.pipeline)
    jobs = synthesise(kind, cluster=cluster, jobs=given.jobs or count, load=0.95, seed=seed).sorted()
    estimator = get_estimator("history")
    begin, end = float(jobs.submit_s.min()), float(jobs.submit_s.max())
    as_it_was = run_pipeline(jobs, cluster, pipeline, estimator).start_s
    machine = Machine.of(jobs, cluster, pipeline, estimator)
    rows = []
    for now_s in begin + (end - begin) * np.linspace(0.25, 0.6, given.moments):
        machine.run_to(float(now_s))
        present = present_of_run(machine, float(now_s))
        if len(present.waiting) < given.fewest:
            continue
        told = what_if_now(present, [parse_edit(f"add={nodes}")], rolls=given.rolls)
        if now_s + LATEST * told.now_s["mean"] > end:
            continue
        grown = run_pipeline(jobs, grown_at(cluster, nodes, float(now_s)), pipeline, estimator).start_s
        before, after = mean_wait(jobs, as_it_was, present), mean_wait(jobs, grown, present)
        found = told.difference
        rows.append((told.now_s["mean"], told.then_s["mean"], before, after, found.low, found.high))
        print(
            f"{kind} {seed}: {told.jobs:4} wait; told {told.now_s['mean'] / 3600:5.1f} h to "
            f"{told.then_s['mean'] / 3600:5.1f} h ({found.low / 3600:+.1f} to {found.high / 3600:+.1f}); came "
            f"{before / 3600:5.1f} h to {after / 3600:5.1f} h ({(after - before) / 3600:+.1f})",
            flush=True,
        )
    return rows


def summed_up(rows: list[tuple[float, ...]]) -> str:
    """Return how far the answers were from what came."""
    told_before, told_after, before, after, low, high = np.array(rows).T
    told, came = told_after - told_before, after - before
    inside = ((low <= came) & (came <= high)).mean()
    sign = (np.sign(told) == np.sign(came)).mean()
    share = np.median(np.abs(told - came) / np.maximum(before, 1.0))
    points = np.median(np.abs(told_after / told_before - after / before))
    waits = f"{before.mean() / 3600:.1f} h without, {after.mean() / 3600:.1f} h with the nodes"
    beside = f"{told_before.mean() / 3600:.1f} h and {told_after.mean() / 3600:.1f} h told"
    held = f"the difference lay inside the interval of four futures in five at {inside:.0%}, had its sign at {sign:.0%}"
    off = f"{share:.0%} of the wait; what is left of the wait, by {100 * points:.0f} points"
    return f"{len(rows)} moments: mean wait {waits} ({beside}); {held}; off in the median by {off}"


def main() -> None:
    """Compare at all moments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=0, help="of each history; 0 = one to three weeks of them")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--moments", type=int, default=10)
    parser.add_argument("--rolls", type=int, default=30)
    parser.add_argument("--fewest", type=int, default=5, help="waiting jobs, for a moment to count")
    parser.add_argument("--pipeline", default="saf + easy")
    given = parser.parse_args()
    rows = [one for history in HISTORIES for seed in range(given.seeds) for one in held_out(*history, seed, given)]
    print(summed_up(rows))


if __name__ == "__main__":
    main()
