"""How often the intervals of `rltune evaluate` hold the truth, by how long a trace remembers, beside two simpler ways.

The truth is known because the series are made: waits and the ratio of two pipelines drift as autoregressions whose
memory is told in windows. Windows of 1,024 jobs start every 64 jobs. One core, about a minute.
"""

import argparse

import numpy as np

from rltune.trials.intervals import Course, over_time, over_windows, ratio

SIZE, EVERY = 1024, 64
TRUTH = 0.9 * np.exp(0.25**2 / 2)


def drift(rng, jobs, memory):
    """A normal series of variance 1 whose correlation falls to 1/e over `memory` jobs."""
    keep = np.exp(-1 / memory)
    noise = rng.normal(size=jobs) * np.sqrt(1 - keep**2)
    series = np.empty(jobs)
    series[0] = rng.normal()
    for t in range(1, jobs):
        series[t] = keep * series[t - 1] + noise[t]
    return series


def window_means(series):
    sums = np.concatenate([[0.0], np.cumsum(series)])
    starts = np.arange(0, len(series) - SIZE + 1, EVERY)
    return (sums[starts + SIZE] - sums[starts]) / SIZE


def covers(interval):
    return interval.low <= TRUTH <= interval.high


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    trials = parser.parse_args().trials
    how = {"confidence": 0.95, "resamples": 400, "seed": 0}
    apart = SIZE // EVERY
    print(
        "| jobs held out | disjoint windows | memory, jobs | this way | all windows as if independent | disjoint only |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for jobs in (6_000, 10_957):
        for memory in (10, 100, 500, 2000):
            rng, hits = np.random.default_rng(memory), np.zeros(3)
            for _ in range(trials):
                theirs = np.exp(drift(rng, jobs, memory))
                ours = theirs * 0.9 * np.exp(0.25 * drift(rng, jobs, memory))
                a, b = window_means(ours), window_means(theirs)
                course = Course(np.arange(len(a)), len(a), apart, jobs // SIZE)
                made = (
                    over_time(a, b, course, ratio, **how),
                    over_windows(a, b, ratio, **how),
                    over_windows(a[::apart], b[::apart], ratio, **how),
                )
                hits += [covers(interval) for interval in made]
            shares = " | ".join(f"{100 * share:.0f} %" for share in hits / trials)
            print(f"| {jobs:,} | {jobs // SIZE} | {memory:,} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
