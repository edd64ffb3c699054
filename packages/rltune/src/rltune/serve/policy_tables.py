"""Orders compared on a cluster's own history, as the tables of a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rltune.live.decide.replayed_queue import SLURMS
from rltune.report.page_tables import NO_LINE, Row, Table
from rltune.serve.own_history import ComparedHistory, OrderTried
from rltune.shadow import ShadowReport, shadow_text
from rltune.text import seconds, told_change
from rltune.trials.intervals import Interval
from rltune.trials.shares import told_small_groups

_PARTS = ("mean", "p50", "p90", "p99", "max")


@dataclass(frozen=True)
class PolicyTables:
    """What the page of policies shows."""

    lead: str
    orders: Table
    by_size: Table
    too_few: str  # sizes of too few jobs for a row
    evidence: tuple[str, ...]


def policy_tables(compared: ComparedHistory, report: ShadowReport) -> PolicyTables:
    """Return the tables of a comparison; the first sentence is that of `rltune journal report`."""
    return PolicyTables(
        lead=shadow_text.sentence(report),
        orders=_orders(compared.orders, report),
        by_size=_by_size(report),
        too_few=told_small_groups([one for one in report.small if one.kind == "size"]),
        evidence=tuple(shadow_text.evidence(report)),
    )


def _orders(orders: Sequence[OrderTried], report: ShadowReport) -> Table:
    like = report.slurm.mean
    observed = Row("as observed", NO_LINE, 0, (*_waits(report.observed, like), ""))
    rows = [Row(_name(one), NO_LINE, 0, (*_waits(one.waits, like), told_ratio(one.ratio))) for one in orders]
    return Table((*_PARTS, f"mean wait, against {SLURMS}"), (observed, *rows), head="order")


def _name(one: OrderTried) -> str:
    return f"{one.name} (the controller's)" if one.ours else one.name


def _waits(of: object, like: float) -> tuple[str, ...]:
    """Write waits in one unit a table: that of the mean in Slurm's order."""
    return tuple(seconds(getattr(of, part), like=like) for part in _PARTS)


def told_ratio(made: Interval | None) -> str:
    """Write how much less is waited, with its interval; if no difference is shown, that comes first."""
    if made is None or not math.isfinite(made.estimate):
        return ""
    if made.estimate == made.low == made.high == 1:
        return "the same"
    told = told_change(1 - made.estimate)
    if not math.isfinite(made.low):
        return f"{told} (too few jobs for an interval)"
    shown = "" if made.high < 1 or made.low > 1 else "not shown to differ: "
    return f"{shown}{told} ({shadow_text.told_span(made)})"


def _by_size(report: ShadowReport) -> Table:
    shares = shadow_text.shares_of(report, "size")
    like = report.slurm.mean
    rows = [
        Row(
            one.name,
            NO_LINE,
            0,
            (
                f"{one.jobs:,}",
                seconds(one.now_s, like=like),
                seconds(one.then_s, like=like),
                shadow_text.change(one.then_s, one.now_s),
            ),
        )
        for one in shares
    ]
    return Table(("jobs", SLURMS, report.policy, "change"), tuple(rows), head="GPUs asked")
