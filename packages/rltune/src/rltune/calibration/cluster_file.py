"""Lines of TOML taken over into a cluster, as a value and as a file."""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rltune.calibration.finding import SiteFact
from rltune.cluster import Cluster, Limit, Maintenance, Outage, Scheduler

_CLOCK = re.compile(r"""^[ \t]*["']?clock_s["']?[ \t]*=.*\n?""", re.MULTILINE)
_VERDICT = re.compile(r"""^[ \t]*["']?usable_for["']?[ \t]*=.*\n?""", re.MULTILINE)
_MOSTLY = 0.5  # of a time, and of the nodes of a group
_FOREVER_S = 1e12  # stands for a node that never comes back
_NAME = re.compile(r"[\w.]+")
_MOMENT = re.compile(r"(?:start_s|end_s|down_s|up_s) = ([\d.]+)")


def taken_over(cluster: Cluster, findings: Sequence[SiteFact]) -> Cluster:
    """Return the cluster with all that was found."""
    new = tomllib.loads(lines_of(findings))
    return replace(
        cluster,
        limits=(*cluster.limits, *(Limit(**one) for one in new.get("limit", ()))),
        maintenance=(*cluster.maintenance, *(Maintenance(**one) for one in new.get("maintenance", ()))),
        outages=(*cluster.outages, *(Outage(**one) for one in new.get("outage", ()))),
        scheduler=Scheduler(**new["scheduler"]) if "scheduler" in new else cluster.scheduler,
        calibrated=True,
    )


def not_told_twice(fact: SiteFact, cluster: Cluster) -> SiteFact:
    """Return a finding without the lines that the cluster's file says already."""
    tables = tables_of(fact.toml)
    new = [lines for lines in tables if not _told(lines, cluster)]
    if len(new) == len(tables):
        return fact
    has = "some of it" if new else "it"
    toml = tuple(line for lines in new for line in lines)
    return replace(fact, evidence=f"{fact.evidence} (the cluster's file has {has})", toml=toml)


def tables_of(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of each table."""
    tables: list[list[str]] = []
    for line in lines:
        if line.startswith("[") or not tables:
            tables.append([])
        tables[-1].append(line)
    return tables


def _told(table: Sequence[str], cluster: Cluster) -> bool:
    """Return whether the cluster's file has a limit, or has nodes down for most of a time, by whatever lines."""
    new = tomllib.loads("\n".join(table))
    limits = [Limit(**one) for one in new.get("limit", ())]
    windows = [Maintenance(**one) for one in new.get("maintenance", ())]
    outages = [Outage(**one) for one in new.get("outage", ())]
    told = [
        *(one in cluster.limits for one in limits),
        *(one in cluster.maintenance or _closed(cluster, one) for one in windows),
        *(_down(cluster, one.node, one.down_s, one.up_s) for one in outages),
    ]
    return bool(told) and all(told)


def _closed(cluster: Cluster, window: Maintenance) -> bool:
    """Return whether most nodes of each group are down for most of the time: some that were in use stay open."""
    groups = window.groups or range(len(cluster.groups))
    first = [sum(group.count for group in cluster.groups[:g]) for g in range(len(cluster.groups))]
    nodes = [range(first[g], first[g] + cluster.groups[g].count) for g in groups]
    return all(sum(_down(cluster, n, window.start_s, window.end_s) for n in of) > _MOSTLY * len(of) for of in nodes)


def _down(cluster: Cluster, node: int, low_s: float, high_s: float) -> bool:
    """Return whether a node is down for most of a time by the cluster's file."""
    low, high = low_s, min(high_s, _FOREVER_S)
    group = int(np.searchsorted(np.cumsum([one.count for one in cluster.groups]), node, "right"))
    windows = [(one.start_s, one.end_s) for one in cluster.maintenance if not one.groups or group in one.groups]
    outages = [(one.down_s, min(one.up_s, _FOREVER_S)) for one in cluster.outages if one.node == node]
    inside, until = 0.0, low
    for begin, end in sorted([*windows, *outages]):
        inside += max(0.0, min(end, high) - max(begin, until))
        until = max(until, end)
    return inside > _MOSTLY * (high - low)


def dated(fact: SiteFact, clock_s: float | None) -> SiteFact:
    """Return a finding with the date and time of each moment beside it, on the history's own clock if that is told."""
    if clock_s is None:
        return fact
    return replace(fact, toml=tuple(_dated_line(line, clock_s) for line in fact.toml))


def _dated_line(line: str, clock_s: float) -> str:
    moment = _MOMENT.fullmatch(line)
    if moment is None:
        return line
    when = dt.datetime.fromtimestamp(round(clock_s + float(moment[1])), dt.UTC)
    return f"{line}  # {when:%Y-%m-%d %H:%M:%S}"


def lines_of(findings: Sequence[SiteFact]) -> str:
    """Write the lines of all findings, each under what it was found by."""
    parts = [f"# {one.cause}: {one.evidence}\n" + "\n".join(one.toml) + "\n" for one in findings if one.toml]
    return "\n".join(parts)


def some_lines(findings: Sequence[SiteFact], most: int) -> tuple[list[str], Counter[str]]:
    """Return the first lines, whole tables alone, and which tables are left out; times, which are many, come last."""
    last = ("[[maintenance]]", "[[outage]]")
    facts = sorted((one for one in findings if one.toml), key=lambda one: one.toml[0].startswith(last))
    shown: list[str] = []
    left: Counter[str] = Counter()
    for fact in facts:
        head = ["", f"# {fact.cause}: {fact.evidence}"][not shown :]
        for table in tables_of(fact.toml):
            if shown and (left or len(shown) + len(head) + len(table) > most):
                left[_NAME.findall(table[0])[0]] += 1
                continue
            shown += [*head, *table]
            head = []
    return shown, left


def file_with(text: str, findings: Sequence[SiteFact], clock_s: float | None = None, verdict: str = "") -> str:
    """Put the lines behind those of a cluster's file, and mark it, so that results do not send to calibrate again.

    `verdict` is what replays with the new file are good for. `clock_s` is the history's clock at its time 0:
    maintenance and outages of one history are not those of another. A clock that the file has from before stays only
    with maintenance or outages that were told by it.
    """
    text = _VERDICT.sub("", text, count=1)
    known = tomllib.loads(text)
    if not known.keys() & {"maintenance", "outage"}:
        text = _CLOCK.sub("", text, count=1) if "clock_s" in known else text
        known.pop("clock_s", None)
    inferred = lines_of(findings)
    told = "the last lines are of `rltune calibrate`" if inferred else "`rltune calibrate` found nothing to add"
    mark = "" if "calibrated" in known else f"calibrated = true  # {told}\n"
    mark += f'usable_for = "{verdict}"  # what its replays are good for, by that history\n' if verdict else ""
    if not inferred:
        return f"{mark}{text.rstrip()}\n"
    if clock_s is not None and "clock_s" not in known:
        mark += f"clock_s = {clock_s:.1f}  # seconds since 1970 at time 0 of maintenance and outages\n"
    return f"{mark}{text.rstrip()}\n\n# Inferred by rltune calibrate.\n\n{inferred}"
