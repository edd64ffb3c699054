"""How long predictions take: features and trees for a million jobs of a made-up site, and one refit, in CPU seconds."""

import argparse
from time import process_time

import numpy as np

from rltune.cluster import Cluster
from rltune.estimate.predicted import NEWEST, EndedJobs, PredictionCourse, fit_rows
from rltune.trace import synthesise

MILLION = 1_000_000


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=50_000, help="that are made; predictions are repeated to a million")
    parser.add_argument("--plain", action="store_true", help="without LightGBM")
    given = parser.parse_args()
    jobs = synthesise("habits", given.jobs, 1, 1.0, Cluster.load("philly-slice"))
    begin = process_time()
    course = PredictionCourse(jobs, known=len(jobs), plain=given.plain)
    table = course.table()
    told = process_time()
    rows = np.arange(len(jobs))[-NEWEST:]
    long_ago = np.full(len(rows), np.inf)
    fit = fit_rows(course, EndedJobs(rows, table[rows], course.run_s[rows], long_ago), long_ago)
    fitted, rows_of_all = process_time(), np.arange(len(jobs))
    for _ in range(-(-MILLION // len(jobs))):
        fit.spread.mean_s(fit.log_s(table, course.usual_log_s(rows_of_all, table)))
    predicted = process_time()
    share = MILLION / len(jobs)
    print(f"features of a million jobs {share * (told - begin):.1f} s, one refit {fitted - told:.1f} s, ", end="")
    print(f"a million predictions {predicted - fitted:.1f} s ({table.shape[1]} features)")


if __name__ == "__main__":
    main()
