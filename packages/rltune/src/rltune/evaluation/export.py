"""A comparison as JSON and as a table of all jobs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltune.evaluation.comparison_tables import comparison_notes
from rltune.metrics.formats import plain
from rltune.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from rltune.evaluation.comparison import Comparison, Run


def to_json(comparison: Comparison, path: str | Path | None = None) -> str:
    """Write standings, windows, summaries of all runs and notes; what cannot be told is null."""
    text = json.dumps(plain(_content(comparison)), indent=1, allow_nan=False)
    if path is not None:
        write_whole(path, text + "\n")
    return text


def jobs_table(comparison: Comparison, waited_for: Callable[[Run], Sequence[str | None]] | None = None) -> pl.DataFrame:
    """Join the jobs of all runs: who, what, when, where, why they waited, and under which contender and window."""
    import polars as pl

    tables = [_jobs_of(comparison, run) for run in comparison.runs]
    if waited_for is not None:
        told = [pl.Series("waited_for", waited_for(run), dtype=pl.String) for run in comparison.runs]
        tables = [table.with_columns(why) for table, why in zip(tables, told, strict=True)]
    return pl.concat(tables)


def _content(comparison: Comparison) -> dict[str, Any]:
    return {
        "about": comparison.about,
        "complete": comparison.complete,
        "runs_made": len(comparison.runs),
        "runs_planned": comparison.planned,
        "baseline": comparison.contenders[comparison.baseline].label,
        "metric": comparison.metric,
        "confidence": comparison.confidence,
        "seed": comparison.seed,
        "notes": comparison_notes(comparison),
        "standings": [asdict(s) for s in comparison.standings],
        "windows": [asdict(w) for w in comparison.windows],
        "runs": [
            {"pipeline": comparison.contenders[r.contender].label, "window": r.window, **r.summary.to_dict()}
            for r in comparison.runs
        ],
    }


def _jobs_of(comparison: Comparison, run: Run) -> pl.DataFrame:
    import polars as pl

    jobs = run.schedule.to_polars()
    return jobs.select(
        pl.lit(comparison.contenders[run.contender].label).alias("pipeline"),
        pl.lit(run.window, dtype=pl.Int32).alias("window"),
        pl.col("id").cast(pl.String),
        pl.exclude("id", "rejected", "reject_reason", "nodes", "node_gpus"),
        pl.col("reject_reason").alias("rejected"),
        pl.col("nodes"),
    )
