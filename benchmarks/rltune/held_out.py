"""The held-out table of docs/results/learned.md: frozen pipelines over the rule chosen before, and over the best since.

    python benchmarks/rltune/held_out.py --traces DIR              # all rows
    python benchmarks/rltune/held_out.py --traces DIR helios pai   # some

What was chosen on the validation part stands below, as `rltune evaluate --select` chose it. Here it runs on the test
part with every rule under every backfilling, so that the best rule in hindsight is known, too.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from rltune import Cluster, read_trace
from rltune.evaluation import evaluate
from rltune.evaluation.comparison_tables import interval, write_ratio

RULES = ("fcfs", "sjf", "saf", "f1", "unicep", "srf", "qssf", "wfp3")
BACKFILLS = ("none", "fit-first", "easy")
PHILLY = ("philly/philly_jobs.csv.gz", "philly-slice")
WINDOWS = "1024:every=256:contended=600"


@dataclass(frozen=True)
class Frozen:
    """What was chosen on the validation part: a network by itself and a rule, then complete pipeline and rule."""

    file: str
    cluster: str
    estimator: str
    network: tuple[str, str]
    complete: tuple[str, str]


ROWS = {
    "philly-oracle": Frozen(*PHILLY, "oracle", ("learned:philly", "saf"), ("saf + easy, milp:8", "saf + easy")),
    "philly-noisy": Frozen(
        *PHILLY, "noisy:1.2", ("learned:philly-noisy", "unicep"), ("learned:philly-noisy, milp:8", "sjf + easy")
    ),
    "philly-history": Frozen(
        *PHILLY,
        "history",
        ("learned:philly", "f1"),
        ("learned:philly-fit + fit-first, milp:8", "qssf + fit-first"),
    ),
    "helios": Frozen(
        "helios/venus_gpu_jobs.csv.gz",
        "helios-slice",
        "history",
        ("learned:helios", "f1"),
        ("learned:helios-easy + easy", "f1"),
    ),
    "pai": Frozen(
        "alibaba_pai_2020/pai_tasks_sample.csv.gz",
        "pai-slice",
        "history",
        ("learned:pai", "f1"),
        ("learned:pai + fit-first", "sjf + fit-first"),
    ),
}


def row(name, traces):
    """Return the cells of one row."""
    what = ROWS[name]
    jobs, cluster = read_trace(traces / what.file), Cluster.load(what.cluster)
    ours = (what.network[0], what.complete[0])
    made = evaluate(jobs, cluster, RULES, BACKFILLS, estimator=what.estimator, pipelines=ours, windows=WINDOWS)
    test = made.test
    labels = list(made.labels)
    waits = test.means("wait")
    cells = []
    for (one, rule), plain in ((what.network, True), (what.complete, False)):
        rules = [i for i, p in enumerate(test.pipelines) if p.label not in ours and (p.backfill == "none" or not plain)]
        best = min(rules, key=lambda i: waits[i])
        mine, theirs = labels.index(one), labels.index(rule)
        cells += [f"{interval(test.ratio(mine, o), write_ratio)} of {labels[o]}" for o in (theirs, best)]
    return f"| {name} | {test.disjoint} | " + " | ".join(cells) + " |"


def main():
    """Print the table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("rows", nargs="*", choices=[*ROWS, []], default=[])
    asked.add_argument("--traces", type=Path, required=True)
    given = asked.parse_args()
    head = ("row", "disjoint windows", "network, rule chosen", "best in hindsight", "complete, chosen", "in hindsight")
    sys.stdout.write(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}\n")
    for name in given.rows or ROWS:
        sys.stdout.write(f"{row(name, given.traces)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
