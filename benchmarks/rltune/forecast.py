"""How often forecasts hold on held-out moments, beside the deterministic roll, and how fast they are.

python benchmarks/rltune/forecast.py                  # coverage and errors on made-up histories
python benchmarks/rltune/forecast.py --traces DIR     # on pieces of recorded ones, thinned to the load of a slice
python benchmarks/rltune/forecast.py speed            # 10,000 waiting jobs on 2,000 nodes
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.filled_moment import Seats
from rltune.engine.parse_pipeline import read_pipeline
from rltune.estimate import get_estimator
from rltune.forecast import StartCalibration, forecast
from rltune.forecast.calibrate_forecast import TriedMoment, corrected_as_of, joined, tried_moments
from rltune.jobs import Jobs
from rltune.present import Present
from rltune.trace import read_trace, synthesise

HISTORIES = (("philly", "philly-slice"), ("helios", "helios-slice"), ("pai", "pai-slice"))
FILES = {
    "philly": "philly/philly_jobs.csv.gz",
    "helios": "helios/venus_gpu_jobs.csv.gz",
    "pai": "alibaba_pai_2020/pai_tasks_sample.csv.gz",
}
LOAD = 0.95


def history_of(kind: str, cluster: Cluster, given: argparse.Namespace, seed: int) -> Jobs:
    """Make a history up; or take a piece of a recorded one, of which so many jobs are kept that the load is right."""
    if given.traces is None:
        return synthesise(kind, cluster=cluster, jobs=given.jobs, load=LOAD, seed=seed)
    recorded = part_of(read_trace(given.traces / FILES[kind]).sorted(), given.part)
    rng = np.random.default_rng(seed)
    work_s = float((recorded.duration_s * recorded.gpus).sum())
    load = work_s / cluster.gpu_count / float(recorded.submit_s[-1] - recorded.submit_s[0])
    kept = np.flatnonzero(rng.random(len(recorded)) < LOAD / load)
    first = int(rng.integers(0, max(1, len(kept) - given.jobs)))
    return recorded.take(kept[first : first + given.jobs])


def part_of(jobs: Jobs, part: str) -> Jobs:
    """Return the jobs of a part of the time, as 0.5:1."""
    begin, span = float(jobs.submit_s[0]), float(jobs.submit_s[-1] - jobs.submit_s[0])
    first, last = (begin + float(share) * span for share in part.split(":"))
    return jobs.take(np.flatnonzero((jobs.submit_s >= first) & (jobs.submit_s <= np.nextafter(last, np.inf))))


def held_out(kind: str, preset: str, pipeline: str, given: argparse.Namespace, seed: int) -> list[TriedMoment]:
    """Forecast at moments of one history, and print how they did as drawn and corrected by the moments before."""
    cluster = Cluster.load(preset)
    made = history_of(kind, cluster, given, seed)
    begin, end = float(made.submit_s.min()), float(made.submit_s.max())
    times = begin + (end - begin) * np.linspace(0.3, 0.75, given.moments)
    how = (made, cluster, read_pipeline(pipeline), get_estimator(given.estimator), times)
    trials = tried_moments(*how, rolls=given.rolls)
    raw = joined(trial.errors(StartCalibration()) for trial in trials)
    later = joined(corrected_as_of(trials))
    ratio = np.median(raw.median_s) / max(np.median(raw.roll_s), 1e-9) if len(raw.median_s) else np.nan
    print(
        f"{kind} {seed}, {pipeline}: {len(raw.inside)} starts at {len(trials)} moments; inside {_share(raw.inside)} as "
        f"drawn, {_share(later.inside)} corrected; median error {ratio:.2f} of the deterministic roll's",
        flush=True,
    )
    return trials


def pooled(trials: list[list[TriedMoment]]) -> str:
    """Sum all histories up: every start alike, and every moment alike."""
    raw = [trial.errors(StartCalibration()) for one in trials for trial in one]
    later = [errors for one in trials for errors in corrected_as_of(one)]
    told = []
    for name, errors in (("as drawn", raw), ("corrected by the moments before", later)):
        moments = [one.inside.mean() for one in errors if len(one.inside)]
        told.append(f"{name} {_share(joined(errors).inside)} of starts, {np.mean(moments):.1%} by moment")
    return f"all: {'; '.join(told)}"


def _share(inside: np.ndarray) -> str:
    return f"{inside.mean():.1%}" if len(inside) else "-"


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
    begin, busy = perf_counter(), process_time()
    made = forecast(present, rolls=rolls, workers=2)
    took, busy = perf_counter() - begin, process_time() - busy
    begin = perf_counter()
    forecast(alone, rolls=max(2, rolls // 10), workers=2)
    without = (perf_counter() - begin) / max(2, rolls // 10) * rolls
    told = f"{rolls} rolls in {took:.1f} s, {busy:.1f} s of processor time ({len(made.jobs):,} jobs)"
    return f"{present.source}: {told}; nobody coming, {without:.1f} s"


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="coverage", choices=("coverage", "speed"))
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--rolls", type=int, default=30)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--traces", type=Path, default=None, help="the folder of the recorded histories")
    parser.add_argument("--part", default="0:1", help="of a recorded history's time, from which pieces are taken")
    parser.add_argument("--pipelines", default="saf + easy;fcfs + easy")
    parser.add_argument("--estimator", default="history")
    given = parser.parse_args()
    if given.what == "speed":
        print(speed(given.rolls, given.waiting, given.nodes))
        return
    wanted = [(kind, preset) for kind, preset in HISTORIES if given.only in kind]
    pipelines, seeds = given.pipelines.split(";"), range(given.first_seed, given.first_seed + given.seeds)
    print(pooled([held_out(*one, p, given, seed) for one in wanted for seed in seeds for p in pipelines]))


if __name__ == "__main__":
    main()
