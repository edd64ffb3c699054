"""How Slurm's own backfilling is taken to plan."""

from __future__ import annotations

MOST_PLANNED = 300  # waiting jobs, up to which it is taken to plan for everybody, in whole nodes (ADR 0032)


def slurms_backfill(waiting: int) -> str:
    """Return the rule that is nearest to Slurm's where so many jobs wait."""
    return "whole-nodes" if waiting <= MOST_PLANNED else "easy"
