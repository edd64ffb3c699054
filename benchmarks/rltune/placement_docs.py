"""The tables of docs/explanation/placement.md, from what a run of the benchmark has written."""

import re
from pathlib import Path
from typing import Any

from placement_schedules import percent

PAGE = Path("docs/explanation/placement.md")
Rows = list[dict[str, Any]]


def renew(told: dict[str, Any]) -> None:
    """Put every table that there are results for between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    for name, write in TABLES.items():
        if name in told:
            table = "\n".join(write(told[name]["rows"]))
            text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)", rf"\g<1>{table}\n\g<2>", text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _latency(rows: Rows) -> list[str]:
    head = ["nodes", "K", "p50", "p99", "by the clock", "sample: ours", "each node apart", "cvxpy"]
    cells = [
        [
            f"{r['nodes']:,}",
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
    head = ["policy", "backfill", "passes", "skipped", "pass p50 / p99", "mean wait, s", "jobs that differ", "loss"]
    cells = [
        [
            r["policy"],
            r["backfill"],
            f"{r['passes']:,}",
            f"{r['skip_rate']:.1%}",
            " / ".join(f"{x:.3f}" for x in r["pass_ms"]),
            f"{r['mean_wait_s']:,.0f}",
            str(r["jobs_that_differ"]),
            f"{r['loss']:.2%}",
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


def _slow(rows: Rows) -> list[str]:
    costs = sorted({r["extra_node"] for r in rows})
    lines: dict[tuple[str, str, str], dict[float, str]] = {}
    for r in rows:
        change = percent(r["placements"]["milp:8"]["wait"]["change"])
        lines.setdefault((r["trace"], r["policy"], r["backfill"]), {})[r["extra_node"]] = change
    head = ["trace", "policy", "backfill", *(f"{cost - 1:.0%} slower" for cost in costs)]
    return _table(head, [[*key, *(by.get(cost, "-") for cost in costs)] for key, by in lines.items()])


TABLES = {
    "latency": _latency,
    "skipping": _skipping,
    "train": _schedules,
    "held-out": _schedules,
    "slow": _slow,
}
