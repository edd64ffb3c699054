"""The tables of docs/results/placement.md, from what a run of the benchmark has written."""

import re
from pathlib import Path
from typing import Any

from placement_schedules import BASE, percent

PAGE = Path("docs/results/placement.md")
SHOWN = {("fcfs", "none"), ("fcfs", "easy"), ("saf", "none"), ("saf", "easy")}  # beside the mean wait of all
Rows = list[dict[str, Any]]


def renew(told: dict[str, Any]) -> None:
    """Put every table that there are results for between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    for name, (part, write) in TABLES.items():
        if part in told:
            table = "\n".join(write(told[part]["rows"]))
            text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)", rf"\g<1>{table}\n\g<2>", text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _latency(rows: Rows) -> list[str]:
    head = ["nodes", "K", "p50", "p99", "by the clock", "sample: ours", "each node apart", "cvxpy"]
    cells = [
        [
            f"{r['nodes']:,}" + (", racks cost" if r["extra_rack"] > 1 else ""),
            str(r["k"]),
            f"{r['p50']:.1f}",
            f"{r['p99']:.1f}",
            f"{r['clock_p50']:.1f} / {r['clock_p99']:.1f}",
            *(" / ".join(f"{x:.1f}" for x in r[who]) or "-" for who in ("ours", "apart", "cvxpy")),
        ]
        for r in rows
    ]
    return _table(head, cells)


def _skipping(rows: Rows) -> list[str]:
    head = ["policy", "backfill", "runs", "passes", "skipped", "pass p50 / p99", "mean wait, s"]
    head += ["jobs that differ (solves, never skipping)", "against using every answer"]
    cells = [
        [
            r["policy"],
            r["backfill"],
            str(r["seeds"]),
            f"{r['passes']:,}",
            f"{r['skip_rate']:.1%}",
            " / ".join(f"{x:.3f}" for x in r["pass_ms"]),
            f"{r['mean_wait_s']:,.0f}",
            f"{r['jobs_that_differ']} ({r['solves'][0]:,}, {r['solves'][1]:,})",
            percent(r["loss"]),
        ]
        for r in rows
    ]
    return _table(head, cells)


def _schedules(rows: Rows) -> list[str]:
    """One line for each trace and pipeline: the solver's change of the mean wait under each estimator."""
    estimators = list(dict.fromkeys(r["estimator"] for r in rows))
    lines: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for r in rows:
        lines.setdefault((r["trace"], r["policy"], r["backfill"]), {})[r["estimator"]] = r
    cells = []
    for (trace, policy, backfill), by in lines.items():
        waits = [percent(by[e]["placements"]["milp:8"]["wait"]["change"]) if e in by else "-" for e in estimators]
        some = next(iter(by.values()))
        cells.append([trace, policy, backfill, *waits, f"{some['windows']} ({some['disjoint']})", some["auto"]])
    return _table(["trace", "policy", "backfill", *estimators, "windows (disjoint)", "auto takes"], cells)


def _others(rows: Rows) -> list[str]:
    """Return what else the solver changes, and what other placers do to the mean wait, for some pipelines."""
    shown = [r for r in rows if r["estimator"] == "history" and (r["policy"], r["backfill"]) in SHOWN]
    head = ["large jobs' wait", "utilisation", "fragmentation", "first-fit: wait", "hierarchical: wait"]
    whats = [("milp:8", "large-wait"), ("milp:8", "utilisation"), ("milp:8", "fragmentation")]
    whats += [("first-fit", "wait"), ("hierarchical", "wait")]
    cells = [[percent(r["placements"][who][metric]["change"]) for who, metric in whats] for r in shown]
    names = [[r["trace"], r["policy"], r["backfill"]] for r in shown]
    return _table(["trace", "policy", "backfill", *head], [a + b for a, b in zip(names, cells, strict=True)])


def _slow(rows: Rows) -> list[str]:
    costs = sorted({r["extra_node"] for r in rows})
    lines: dict[tuple[str, str, str], dict[float, str]] = {}
    for r in rows:
        change = percent(r["placements"]["milp:8"]["wait"]["change"])
        lines.setdefault((r["trace"], r["policy"], r["backfill"]), {})[r["extra_node"]] = change
    head = ["trace", "policy", "backfill", *(f"{cost - 1:.0%} slower" for cost in costs)]
    return _table(head, [[*key, *(by.get(cost, "-") for cost in costs)] for key, by in lines.items()])


def _racks(rows: Rows) -> list[str]:
    """Return the change of the mean wait by each placer that knows racks."""
    names = [name for name in rows[0]["placements"] if name != BASE]
    cells = [
        [r["trace"], r["policy"], r["backfill"], *(percent(r["placements"][n]["wait"]["change"]) for n in names)]
        for r in rows
    ]
    return _table(["trace", "policy", "backfill", *names], cells)


TABLES = {
    "latency": ("latency", _latency),
    "skipping": ("skipping", _skipping),
    "train": ("train", _schedules),
    "held-out": ("held-out", _schedules),
    "others": ("held-out", _others),
    "slow": ("slow", _slow),
    "racks": ("racks", _racks),
}
