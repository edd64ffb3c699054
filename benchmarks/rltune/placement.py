"""Where a job runs: what a decision of the solver costs, what skipping it loses, and what its schedules are worth.

python benchmarks/rltune/placement.py --philly philly_jobs.csv.gz --helios venus_gpu_jobs.csv.gz --pai pai.csv.gz
python benchmarks/rltune/placement.py latency --nodes 36 128
python benchmarks/rltune/placement.py docs                  # write the tables of the last run into the docs

Without a part all tables are made in one run, and written to out/placement.json row by row. With one only the rows that
it makes are renewed, so a part may be made trace by trace: --synthetic philly, --synthetic --pai pai.csv.gz.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from placement_cost import latency, skipping
from placement_docs import renew
from placement_schedules import in_racks, schedules, slower

import rltune

TRACES = ("philly", "helios", "pai")
NODES = (36, 128, 1000, 10_000)
OUT = Path("out/placement.json")
SLOW = (1.2, 1.5)  # what a node more may cost in the part about that
RACKS = (4, 1.2)  # nodes in a rack and what a rack more costs in the part about that
PARTS = ("latency", "skipping", "train", "held-out", "slow", "racks")
NAMES_A_ROW = ("trace", "extra_node", "extra_rack", "estimator", "policy", "backfill", "nodes", "k")


def main() -> None:
    args = arguments()
    if args.part == "docs":
        renew(json.loads(OUT.read_text()))
        return
    parts = [args.part] if args.part else PARTS
    told: dict[str, Any] = json.loads(OUT.read_text()) if args.part and OUT.exists() else {}
    OUT.parent.mkdir(exist_ok=True)
    for part in parts:
        rows = {name_of(row): row for row in told.get(part, {}).get("rows", [])}
        for row in make(part, args):
            rows[name_of(row)] = row
            told[part] = {"version": rltune.__version__, "one_run": args.part is None, "rows": list(rows.values())}
            OUT.write_text(json.dumps(told, indent=1))
    print(f"\nwritten to {OUT}")


def name_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in NAMES_A_ROW)


def make(part: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    traces = (args.synthetic, {kind: path for kind in TRACES if (path := getattr(args, kind))})
    if part == "latency":
        yield from latency(args.nodes, args.solves, args.others, not args.no_cvxpy, args.extra_rack)
    elif part == "skipping":
        yield from skipping(args.jobs, args.seeds, args.checked)
    elif part == "train":
        yield from schedules(part, *traces, args.estimators, ["milp:8"], args.windows, args.size // 2, args.workers)
    elif part == "held-out":
        rivals = ["milp:8", "first-fit", "hierarchical"]
        yield from schedules(part, *traces, args.estimators, rivals, args.windows, args.size, args.workers)
    elif part == "racks":
        few = (args.windows, args.size, args.workers)
        yield from schedules("held-out", *traces, ["history"], ["milp:8", "hierarchical"], *few, in_racks(*RACKS))
    else:
        few = (args.windows, args.size // 2, args.workers)
        for slow in SLOW:
            yield from schedules("train", *traces, ["history"], ["milp:8"], *few, slower(slow))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=(*PARTS, "docs"))
    parser.add_argument("--nodes", type=int, nargs="*", default=list(NODES))
    parser.add_argument("--solves", type=int, default=150)
    parser.add_argument("--others", type=int, default=15, help="solves that are also made apart and by cvxpy")
    parser.add_argument("--no-cvxpy", action="store_true")
    parser.add_argument(
        "--extra-rack", type=float, default=1.0, help="what a rack more costs in the part about latency"
    )
    parser.add_argument("--jobs", type=int, default=2000, help="of a run of the part about skipping")
    parser.add_argument("--seeds", type=int, default=12, help="of the part about skipping")
    parser.add_argument(
        "--checked", type=int, default=4, help="seeds that are also run without skipping, to the second"
    )
    parser.add_argument("--windows", type=int, default=10)
    parser.add_argument("--size", type=int, default=1024, help="jobs of a window; half of it for training")
    parser.add_argument("--estimators", nargs="*", default=["history", "noisy", "oracle"])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--synthetic", nargs="*", choices=TRACES, default=list(TRACES), help="traces to make up")
    parser.add_argument("--philly", type=Path, help="the real Philly trace")
    parser.add_argument("--helios", type=Path, help="the real trace of Helios' Venus")
    parser.add_argument("--pai", type=Path, help="the real PAI trace")
    return parser.parse_args()


if __name__ == "__main__":
    main()
