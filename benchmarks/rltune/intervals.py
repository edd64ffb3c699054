"""How often intervals of 95 % hold the truth, and how often a gain of 20 % is shown: few windows, alike, heavy-tailed.

The truth is known because the waits are made: series that remember, turned into heavy-tailed waits, and a pipeline that
takes a share of them away. First windows apart from each other, beside simpler ways and what no test could exceed;
then windows of families on which nothing was tuned; then windows that overlap, as `rltune evaluate` runs them; then the
jobs of one queue, in blocks of time. One core, about four minutes; `--only` runs some of the tables.
"""

import argparse
from statistics import NormalDist

import numpy as np

from rltune.trials.intervals import Course, Interval, difference, over_jobs, over_time, over_windows, ratio, student

SIZE, EVERY = 1024, 64
GAIN, LEVEL = 0.2, 0.95
QUEUE = 0.06  # a wait above this is one of a busy window, where queues are rare
UNDER_LOAD, WHILE_BUSY = 1.228, 1.0355  # times the gain, so that it is GAIN of all waiting
NORMAL = NormalDist()
CDF = np.vectorize(NORMAL.cdf)


def drift(rng, shape, keep):
    """Normal series of variance 1 whose neighbours correlate by `keep`."""
    series = rng.normal(size=shape)
    for t in range(1, shape[-1]):
        series[..., t] = keep * series[..., t - 1] + np.sqrt(1 - keep**2) * series[..., t]
    return series


def noise(rng, shape, keep, size):
    return np.exp(size * drift(rng, shape, keep) - size**2 / 2)


def lognormal(rng, shape, keep, gain, spread=1.0, unsteady=0.25):
    theirs = np.exp(spread * drift(rng, shape, keep))
    return theirs * (1 - gain) * noise(rng, shape, keep, unsteady), theirs


def pareto(rng, shape, keep, gain):
    theirs = (1 - CDF(drift(rng, shape, keep))) ** (-1 / 2.2)
    return theirs * (1 - gain) * noise(rng, shape, keep, 0.25), theirs


def gain_under_load(load, gain):
    return np.minimum(gain * UNDER_LOAD * CDF(2 * load), 0.95)


def under_load(rng, shape, keep, gain):
    """All of the gain is made where the queue is long."""
    load = drift(rng, shape, keep)
    theirs = np.exp(load)
    return theirs * (1 - gain_under_load(load, gain)) * noise(rng, shape, keep, 0.25), theirs


def weibull(rng, shape, keep, gain):
    theirs = -np.log(1 - np.minimum(CDF(drift(rng, shape, keep)), 1 - 1e-12))
    return theirs ** (1 / 0.6) * (1 - gain) * noise(rng, shape, keep, 0.3), theirs ** (1 / 0.6)


def calm_and_busy(rng, shape, keep, gain):
    """Most windows are calm and nearly empty, where the pipelines differ at random; the gain is made in busy ones."""
    busy = drift(rng, shape, keep) > 0.3
    theirs = np.where(busy, 1.0, 0.02) * np.exp(drift(rng, shape, keep))
    unsteady = np.where(busy, noise(rng, shape, keep, 0.2), noise(rng, shape, 0.0, 1.0))
    return theirs * np.where(busy, 1 - WHILE_BUSY * gain, 1.0) * unsteady, theirs


def rare_queues(rng, shape, keep, gain):
    """One window in eight is busy, the others are all but empty."""
    busy = drift(rng, shape, keep) > 1.15
    theirs = np.where(busy, 1.0, 0.005) * np.exp(0.7 * drift(rng, shape, keep))
    return theirs * (1 - gain) * noise(rng, shape, keep, 0.25), theirs


FAMILIES = {
    "log-normal": lognormal,
    "log-normal, sigma 1.5": lambda *how: lognormal(*how, spread=1.5),
    "Pareto, alpha 2.2": pareto,
    "gain only under load": under_load,
    "Weibull, shape 0.6": weibull,
    "calm and busy": calm_and_busy,
}


def long_memory(rng, shape, keep, gain):
    """What happens fades slowly: half of it stays for eight windows."""
    slow, quick = drift(rng, shape, 0.5 ** (1 / 8)), drift(rng, shape, keep)
    theirs = np.exp(np.sqrt(0.5) * (slow + quick))
    return theirs * (1 - gain) * noise(rng, shape, keep, 0.25), theirs


def own_ups_and_downs(rng, shape, keep, gain):
    """Both have waits of their own around a common level."""
    level = np.exp(0.8 * drift(rng, shape, keep))
    return level * (1 - gain) * noise(rng, shape, keep, 0.4), level * noise(rng, shape, keep, 0.4)


def two_seasons(rng, shape, keep, gain):
    """Windows of one season wait eight times as long as those of the other, and a season lasts."""
    season = rng.random(shape) < 0.4
    for t in range(1, shape[-1]):
        season[..., t] = np.where(rng.random(shape[:-1]) < keep, season[..., t - 1], season[..., t])
    theirs = np.where(season, 8.0, 1.0) * rng.random(shape) ** (-1 / 3)
    return theirs * (1 - gain) * noise(rng, shape, keep, 0.25), theirs


def uneven_gain(rng, shape, keep, gain):
    """Each window has a gain of its own, now and then a loss, and good times last."""
    theirs = np.exp(drift(rng, shape, keep))
    own = np.clip(0.2 * drift(rng, shape, keep), -0.79, 0.79)
    return theirs * (1 - gain - own) * noise(rng, shape, keep, 0.1), theirs


APART = {  # nothing was tuned on these; the last two were written when the method stood, and run once
    "rare queues (looked at)": rare_queues,
    "long memory (looked at)": long_memory,
    "ups and downs of their own (looked at)": own_ups_and_downs,
    "two seasons": two_seasons,
    "a gain of its own in each window": uneven_gain,
}


WINDOW_COLUMNS = ["waits", "correlation of neighbours", "windows", "ratio holds", "difference holds", "gain shown"]
WINDOW_COLUMNS += ["shown without a gain", "ratio of 1 holds"]


def student_of_differences(ours, theirs):
    values, n = ours - theirs, len(ours)
    half = student(0.5 + LEVEL / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return Interval(values.mean(), values.mean() - half, values.mean() + half)


def student_of_logs(ours, theirs):
    values, n = np.log(ours / theirs), len(ours)
    half = student(0.5 + LEVEL / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return Interval(*np.exp([values.mean(), values.mean() - half, values.mean() + half]))


def bootstrap(ours, theirs):
    """BCa over windows."""
    n, values = len(ours), ours - theirs
    drawn = values[np.random.default_rng(0).integers(0, n, (400, n))].mean(axis=1)
    below = min(max(np.mean(drawn < values.mean()), 1 / 800), 1 - 1 / 800)
    bias, lean = NORMAL.inv_cdf(below), values.mean() - (values.sum() - values) / (n - 1)
    skew = (lean**3).sum() / (6 * (lean**2).sum() ** 1.5)
    ends = [bias + NORMAL.inv_cdf(tail) for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)]
    low, high = np.quantile(drawn, [NORMAL.cdf(bias + z / (1 - skew * z)) for z in ends])
    return Interval(values.mean(), low, high)


def holds(interval, truth):
    return interval.low <= truth <= interval.high


def table(title, columns):
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n|{' --- |' * len(columns)}", flush=True)


def percents(shares):
    return " | ".join(f"{100 * share:.0f} %" for share in shares)


def separate_windows(trials):
    others = ["Student's t holds (shown)", "BCa holds (shown)", "t of log ratios holds (shown)"]
    table("Windows apart from each other", [*WINDOW_COLUMNS, *others])
    for name, family in FAMILIES.items():
        ours, theirs = family(np.random.default_rng(7), (2_000_000, 1), 0.0, GAIN)
        truths = ours.mean() - theirs.mean(), ours.mean() / theirs.mean()
        for keep in (0.3, 0.5):
            for windows in (3, 5, 10, 20):
                ours, theirs = family(np.random.default_rng(windows), (trials, windows), keep, GAIN)
                made = np.mean([judged(a, b, *truths) for a, b in zip(ours, theirs, strict=True)], axis=0)
                pairs = " | ".join(f"{100 * made[i]:.0f} % ({100 * made[i + 1]:.0f} %)" for i in (3, 5, 7))
                shares = percents([*made[:3], *without_gain(family, trials, windows, keep)])
                print(f"| {name} | {keep:g} | {windows} | {shares} | {pairs} |", flush=True)


def without_gain(family, trials, windows, keep):
    """Return how often a gain is shown where there is none, and how often the ratio of 1 is held."""
    rows = zip(*family(np.random.default_rng(windows), (trials, windows), keep, 0.0), strict=True)
    found = [over_windows(a, b, ratio, confidence=LEVEL) for a, b in rows]
    return np.mean([i.high < 1 for i in found]), np.mean([holds(i, 1.0) for i in found])


def most_shown(keep, windows, gains, spread=0.25):
    """Return what the best of all tests shows (Neyman and Pearson), told the noise and where the gain is made."""
    load = drift(np.random.default_rng(0), (2000, windows), keep)
    step = np.log(1 - gains(load))
    likeness = keep ** np.abs(np.subtract.outer(np.arange(windows), np.arange(windows)))
    certain = np.sqrt(np.einsum("ti,ij,tj->t", step, np.linalg.inv(spread**2 * likeness), step))
    return np.mean(CDF(certain - NORMAL.inv_cdf(0.5 + LEVEL / 2)))


def found_by_sums(trials, keep, family):
    """Return what the ratio of sums shows with 20 windows if it is told how alike neighbours are, at an error of 2.5 %.

    That error is exact: it is taken from runs without a gain.
    """
    draws = np.random.default_rng(5)
    shape = (4 * trials, 20)
    runs = [zip(*family(draws, shape, keep, gain), strict=True) for gain in (0.0, GAIN)]
    none, some = (np.array([log_over_error(a, b, keep) for a, b in run]) for run in runs)
    return np.mean(some < np.quantile(none, (1 - LEVEL) / 2))


def log_over_error(ours, theirs, keep):
    pull = ours / ours.mean() - theirs / theirs.mean()
    return np.log(ours.mean() / theirs.mean()) / np.sqrt(((pull[1:] - keep * pull[:-1]) ** 2).mean())


def limits(trials):
    table("What no test could exceed", ["gain", "correlation of neighbours", "3", "5", "10", "20 windows"])
    for name, (gains, spread) in {
        "in all windows": (lambda load: np.full_like(load, GAIN), 0.25),
        "only under load": (lambda load: gain_under_load(load, GAIN), 0.25),
        "only in busy windows, four of ten": (lambda load: np.where(load > 0.3, WHILE_BUSY * GAIN, 0.0), 0.2),
    }.items():
        for keep in (0.3, 0.5):
            made = [most_shown(keep, windows, gains, spread) for windows in (3, 5, 10, 20)]
            print(f"| {name} | {keep:g} | {percents(made)} |", flush=True)
    table("The ratio of sums, told how alike neighbours are", ["waits", "correlation of neighbours", "20 windows"])
    for name, family in FAMILIES.items():
        for keep in (0.3, 0.5):
            print(f"| {name} | {keep:g} | {percents([found_by_sums(trials, keep, family)])} |", flush=True)


def windows_apart(trials):
    table("Families on which nothing was tuned", WINDOW_COLUMNS)
    for name, family in APART.items():
        ours, theirs = family(np.random.default_rng(7), (2_000_000, 1), 0.0, GAIN)
        truths = ours.mean() / theirs.mean(), ours.mean() - theirs.mean()
        for keep in (0.3, 0.5):
            for windows in (3, 5, 10, 20):
                rows = zip(*family(np.random.default_rng(windows), (trials, windows), keep, GAIN), strict=True)
                made = np.mean([held(a, b, truths) for a, b in rows], axis=0)
                shares = percents([*made, *without_gain(family, trials, windows, keep)])
                print(f"| {name} | {keep:g} | {windows} | {shares} |", flush=True)


def queues_seen(trials):
    """Split the runs of rare queues by how many windows had one: an interval knows of no queue that it has not seen."""
    columns = ["windows with a queue", "correlation of neighbours", "windows", "runs", "ratio holds"]
    table("Rare queues, by how many were seen", [*columns, "difference holds", "gain shown"])
    ours, theirs = rare_queues(np.random.default_rng(7), (2_000_000, 1), 0.0, GAIN)
    truths = ours.mean() / theirs.mean(), ours.mean() - theirs.mean()
    for keep in (0.3, 0.5):
        for windows in (5, 10, 20):
            rows = list(zip(*rare_queues(np.random.default_rng(windows), (trials, windows), keep, GAIN), strict=True))
            seen = np.array([(b > QUEUE).sum() for _, b in rows])
            made = np.array([held(a, b, truths) for a, b in rows], dtype=np.float64)
            for name, part in {
                "none": seen == 0,
                "one or two": (seen > 0) & (seen < 3),
                "three or more": seen > 2,
            }.items():
                if part.any():
                    shares = percents([part.mean(), *made[part].mean(axis=0)])
                    print(f"| {name} | {keep:g} | {windows} | {shares} |", flush=True)


def held(ours, theirs, truths):
    found = [over_windows(ours, theirs, kind, confidence=LEVEL) for kind in (ratio, difference)]
    return [holds(found[0], truths[0]), holds(found[1], truths[1]), found[0].high < 1]


def judged(ours, theirs, apart, share):
    found = [over_windows(ours, theirs, kind, confidence=LEVEL) for kind in (ratio, difference)]
    told = [holds(found[0], share), holds(found[1], apart), found[1].high < 0]
    for interval in (student_of_differences(ours, theirs), bootstrap(ours, theirs)):
        told += [holds(interval, apart), interval.high < 0]
    logs = student_of_logs(ours, theirs)
    return [*told, holds(logs, share), logs.high < 1]


def window_means(series):
    sums = np.concatenate([[0.0], np.cumsum(series)])
    starts = np.arange(0, len(series) - SIZE + 1, EVERY)
    return (sums[starts + SIZE] - sums[starts]) / SIZE


def overlapping_windows(trials):
    columns = ["jobs held out", "disjoint windows", "memory, jobs", "this way", "all windows as if independent"]
    table("Windows of 1,024 that start every 64 jobs", columns)
    apart = SIZE // EVERY
    for jobs in (3_500, 6_000, 10_957, 21_000):
        for memory in (10, 100, 500, 2000):
            rng, hits = np.random.default_rng(memory), np.zeros(2)
            ours, theirs = lognormal(rng, (trials, jobs), np.exp(-1 / memory), GAIN)
            for one, other in zip(ours, theirs, strict=True):
                a, b = window_means(one), window_means(other)
                course = Course(np.arange(len(a)), len(a), apart, jobs // SIZE)
                made = over_time(a, b, course, ratio, confidence=LEVEL), over_windows(a, b, ratio, confidence=LEVEL)
                hits += [holds(interval, 1 - GAIN) for interval in made]
            print(f"| {jobs:,} | {jobs // SIZE} | {memory:,} | {percents(hits / trials)} |", flush=True)


def jobs_of_one_queue(trials):
    """Waits in front of one or four servers; ours has 3 % less work to do."""
    table("Jobs of one queue", ["queue", "jobs", "ratio holds", "difference holds", "gain shown"])
    for name, queue in QUEUES.items():
        long = queue(np.random.default_rng(1), 16, 400_000)
        truths = long[0].mean() / long[1].mean(), long[0].mean() - long[1].mean()
        for jobs in (2_000, 10_000, 50_000):
            ours, theirs, submit = queue(np.random.default_rng(jobs), trials, jobs)
            made = []
            for a, b, when in zip(ours, theirs, submit, strict=True):
                found = [over_jobs(a, b, when, kind, confidence=LEVEL) for kind in (ratio, difference)]
                made.append([holds(found[0], truths[0]), holds(found[1], truths[1]), found[0].high < 1])
            print(f"| {name} | {jobs:,} | {percents(np.mean(made, axis=0))} |", flush=True)


WARM = 5_000  # jobs before those that count


def one_server(rng, runs, jobs):
    """A load of 0.9, by Lindley's recursion."""
    gap = rng.exponential(1.0, (runs, jobs + WARM))
    work = 0.9 * rng.lognormal(-0.5, 1.0, (runs, jobs + WARM))
    return waits_of(gap, work, servers=1)


def bursts_at_four_servers(rng, runs, jobs):
    """A load of 0.75; jobs come in bursts of ten on average, with run times of a wider spread."""
    gap = rng.exponential(10.0, (runs, jobs + WARM)) * (rng.random((runs, jobs + WARM)) < 0.1)
    work = 4 * 0.75 * rng.lognormal(-0.98, 1.4, (runs, jobs + WARM))
    return waits_of(gap, work, servers=4)


def waits_of(gap, work, servers):
    """First come, first served, by the recursion of Kiefer and Wolfowitz."""
    waits = np.zeros((2, *gap.shape))
    for side, share in enumerate((0.97, 1.0)):
        left = np.zeros((len(gap), servers))  # the work before each server, the least first
        for t in range(1, gap.shape[1]):
            left[:, 0] += share * work[:, t - 1]
            left = np.maximum(np.sort(left, axis=1) - gap[:, t : t + 1], 0)
            waits[side, :, t] = left[:, 0]
    return waits[0, :, WARM:], waits[1, :, WARM:], np.cumsum(gap, axis=1)[:, WARM:]


QUEUES = {"one server": one_server, "bursts at four servers (nothing tuned)": bursts_at_four_servers}


TABLES = {  # and the share of the runs that a row of it gets
    "apart": (separate_windows, 1),
    "limits": (limits, 1),
    "new": (windows_apart, 1),
    "rare": (queues_seen, 1),
    "overlap": (overlapping_windows, 6),
    "queue": (jobs_of_one_queue, 6),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--only", default=",".join(TABLES), help="tables, with commas")
    given = parser.parse_args()
    for name in given.only.split(","):
        print_table, part = TABLES[name]
        print_table(max(given.trials // part, 2))


if __name__ == "__main__":
    main()
