"""How long an explanation takes: 10,000 waiting jobs on 2,000 nodes.

python benchmarks/rltune/explain.py
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np
from forecast import crowded

from rltune.explain import Explainer


def main() -> None:
    """Time the pass, the reasons and the changes that are tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--reasons", type=int, default=300)
    parser.add_argument("--changes", type=int, default=10)
    given = parser.parse_args()
    small = crowded(200, 20)
    Explainer(small).explain(small.waiting_names[0])  # compiles
    present = crowded(given.waiting, given.nodes)
    begin = perf_counter()
    explainer = Explainer(present)
    print(f"{present.source}: one pass and its tables in {1000 * (perf_counter() - begin):.0f} ms")
    rng = np.random.default_rng(0)
    for changes, count in ((False, given.reasons), (True, given.changes)):
        took = []
        for name in rng.choice(present.waiting_names, count, replace=False):
            begin = perf_counter()
            explainer.explain(str(name), changes=changes)
            took.append(perf_counter() - begin)
        p50, p99 = np.quantile(took, (0.5, 0.99))
        what = "reasons and verified changes" if changes else "reasons"
        print(f"{what}: p50 {1000 * p50:.0f} ms, p99 {1000 * p99:.0f} ms over {count} jobs", flush=True)


if __name__ == "__main__":
    main()
