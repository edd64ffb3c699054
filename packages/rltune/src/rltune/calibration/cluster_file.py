"""Lines of TOML taken over into a cluster, as a value and as a file."""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace

from rltune.calibration.finding import SiteFact
from rltune.cluster import Cluster, Limit, Maintenance, Outage, Scheduler

_CLOCK = re.compile(r"""^[ \t]*["']?clock_s["']?[ \t]*=.*\n?""", re.MULTILINE)
_VERDICT = re.compile(r"""^[ \t]*["']?usable_for["']?[ \t]*=.*\n?""", re.MULTILINE)
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
    """Return a finding without its lines if the cluster's file says all of it already."""
    new = tomllib.loads("\n".join(fact.toml))
    limits = [Limit(**one) for one in new.get("limit", ())]
    windows = [Maintenance(**one) for one in new.get("maintenance", ())]
    known = all(one in cluster.limits for one in limits) and all(one in cluster.maintenance for one in windows)
    if not (limits or windows) or not known:
        return fact
    return replace(fact, evidence=f"{fact.evidence} (the cluster's file has it)", toml=())


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
