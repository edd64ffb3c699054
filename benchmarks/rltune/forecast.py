"""How often forecasts hold on held-out moments, beside the deterministic roll, and how fast they are.

python benchmarks/rltune/forecast.py                  # coverage and errors on made-up histories
python benchmarks/rltune/forecast.py speed            # 10,000 waiting jobs on 2,000 nodes
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from time import perf_counter

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.filled_moment import Seats
from rltune.engine.parse_pipeline import read_pipeline
from rltune.estimate import get_estimator
from rltune.forecast import StartCalibration, forecast
from rltune.forecast.calibrate_forecast import TriedMoment, correction, tried_moments
from rltune.jobs import Jobs
from rltune.present import Present
from rltune.trace import synthesise

HISTORIES = (("philly", "philly-slice"), ("helios", "helios-slice"), ("pai", "pai-slice"))


def held_out(kind: str, preset: str, pipeline: str, estimator: str, jobs: int, moments: int, rolls: int) -> str:
    """Correct on the first half of the moments, and judge on the second."""
    cluster = Cluster.load(preset)
    made = synthesise(kind, cluster=cluster, jobs=jobs, load=0.95)
    begin, end = float(made.submit_s.min()), float(made.submit_s.max())
    times = begin + (end - begin) * np.linspace(0.3, 0.75, moments)  # at its end nobody comes any more
    how = (made, cluster, read_pipeline(pipeline), get_estimator(estimator), times)
    trials = tried_moments(*how, rolls=rolls)
    half = len(trials) // 2
    learnt, test = correction(trials[:half]), trials[half:]
    raw, corrected = coverage(test, StartCalibration()), coverage(test, learnt)
    p50, roll = errors(test, learnt)
    starts = sum(len(trial.truth) for trial in test)
    return (
        f"{kind}, {pipeline}, run times by {estimator}: {starts} starts at {len(test)} held-out moments; inside the "
        f"80 % interval {raw:.1%} as drawn, {corrected:.1%} corrected; median error {p50:.0f} s, of the "
        f"deterministic roll {roll:.0f} s (ratio {p50 / max(roll, 1e-9):.2f})"
    )


def coverage(trials: list[TriedMoment], calibration: StartCalibration) -> float:
    """Return how often the truth was inside."""
    return float(np.concatenate([trial.errors(calibration)[2] for trial in trials]).mean())


def errors(trials: list[TriedMoment], calibration: StartCalibration) -> tuple[float, float]:
    """Return the median error of p50 and of the deterministic roll."""
    both = [trial.errors(calibration) for trial in trials]
    return tuple(float(np.median(np.concatenate([one[i] for one in both]))) for i in range(2))  # type: ignore[return-value]


def crowded(waiting: int = 10_000, nodes: int = 2_000, seed: int = 0) -> Present:
    """Make a cluster of 8-GPU nodes that is full, with many waiting jobs and a history."""
    rng = np.random.default_rng(seed)
    history = _drawn(rng, 20_000, np.sort(rng.uniform(-7 * 86_400.0, 0.0, 20_000)))
    history = history.with_columns(recorded_start_s=history.submit_s.copy())
    running = _drawn(rng, nodes, np.sort(rng.uniform(-40_000.0, -20_000.0, nodes)), gpus=8)
    queue = _drawn(rng, waiting, np.sort(rng.uniform(-20_000.0, 0.0, waiting)))
    jobs = running.followed_by(queue)
    start = np.asarray(running.submit_s) + 1.0
    return Present(
        now_s=0.0,
        cluster=Cluster.uniform(nodes, 8, "A100"),
        jobs=jobs,
        names=tuple(str(i) for i in range(len(jobs))),
        estimate_s=np.asarray(jobs.limit_s),
        seats=Seats.of((i, float(start[i]), 0.0, (i,)) for i in range(nodes)),
        waiting=np.arange(nodes, nodes + waiting),
        pipeline=read_pipeline("saf + easy"),
        source=f"{waiting:,} waiting jobs on {nodes:,} nodes",
        history=history,
    )


def _drawn(rng: np.random.Generator, n: int, submit_s: np.ndarray, gpus: int | None = None) -> Jobs:
    duration = np.minimum(rng.lognormal(8.5, 1.5, n), 5 * 86_400.0) + (30_000.0 if gpus else 0.0)
    return Jobs.from_arrays(
        submit_s=submit_s,
        duration_s=duration,
        gpus=gpus or rng.choice([1, 1, 1, 2, 4, 8, 16], n),
        limit_s=duration * rng.uniform(1.1, 4.0, n),
        user=[f"u{i % 50}" for i in range(n)],
    )


def speed(rolls: int, waiting: int, nodes: int) -> str:
    """Time a forecast of all; what is compiled is compiled before."""
    forecast(crowded(200, 20), rolls=2)
    present = crowded(waiting, nodes)
    alone = replace(present, history=None)
    begin = perf_counter()
    made = forecast(present, rolls=rolls, workers=2)
    took = perf_counter() - begin
    begin = perf_counter()
    forecast(alone, rolls=max(2, rolls // 10), workers=2)
    without = (perf_counter() - begin) / max(2, rolls // 10) * rolls
    return f"{present.source}: {rolls} rolls in {took:.1f} s ({len(made.jobs):,} jobs); nobody coming, {without:.1f} s"


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="coverage", choices=("coverage", "speed"))
    parser.add_argument("--jobs", type=int, default=6000)
    parser.add_argument("--moments", type=int, default=24)
    parser.add_argument("--rolls", type=int, default=40)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--pipelines", default="saf + easy;fcfs + easy")
    parser.add_argument("--estimator", default="history")
    given = parser.parse_args()
    if given.what == "speed":
        print(speed(given.rolls, given.waiting, given.nodes))
        return
    for kind, preset in HISTORIES:
        if given.only in kind:
            for pipeline in given.pipelines.split(";"):
                how = (kind, preset, pipeline, given.estimator, given.jobs, given.moments, given.rolls)
                print(held_out(*how), flush=True)


if __name__ == "__main__":
    main()
