"""A comparison as the tables of a page: the static report's own."""

from __future__ import annotations

from dataclasses import dataclass

from rltune.evaluation import Comparison
from rltune.evaluation.verdict import verdict
from rltune.report.page_tables import Table, by_size, page_notes, result_table, spreads


@dataclass(frozen=True)
class PolicyTables:
    """What the page of policies shows."""

    lead: str
    headline: Table
    spreads: tuple[tuple[str, Table], ...]
    by_size: Table
    notes: tuple[str, ...]


def policy_tables(comparison: Comparison) -> PolicyTables:
    """Return the tables of a comparison."""
    return PolicyTables(
        lead=verdict(comparison),
        headline=result_table(comparison),
        spreads=tuple(spreads(comparison)[:1]),
        by_size=by_size(comparison),
        notes=tuple(page_notes(comparison)),
    )
