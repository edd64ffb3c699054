"""A comparison as JSON and as a table of all jobs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.evaluation.comparison_tables import honesty
from rltune.metrics.formats import plain

if TYPE_CHECKING:
    import polars as pl

    from rltune.evaluation.comparison import Comparison, Run


def to_json(comparison: Comparison, path: str | Path | None = None) -> str:
    """Write standings, windows, summaries of all runs and notes; what cannot be told is null."""
    text = json.dumps(plain(_content(comparison)), indent=1, allow_nan=False)
    if path is not None:
        Path(path).write_text(text + "\n", encoding="utf-8")
    return text


def jobs_table(comparison: Comparison) -> pl.DataFrame:
    """Join the jobs of all runs: who, what, when, where, and under which contender and window."""
    import polars as pl

    return pl.concat([_jobs_of(comparison, run) for run in comparison.runs])


def _content(comparison: Comparison) -> dict[str, Any]:
    return {
        "about": comparison.about,
        "complete": comparison.complete,
        "runs_made": len(comparison.runs),
        "runs_planned": comparison.planned,
        "baseline": comparison.contenders[comparison.baseline].label,
        "metric": comparison.metric,
        "confidence": comparison.confidence,
        "resamples": comparison.resamples,
        "seed": comparison.seed,
        "notes": honesty(comparison),
        "standings": [asdict(s) for s in comparison.standings],
        "windows": [asdict(w) for w in comparison.windows],
        "runs": [
            {"pipeline": comparison.contenders[r.contender].label, "window": r.window, **r.summary.to_dict()}
            for r in comparison.runs
        ],
    }


def _jobs_of(comparison: Comparison, run: Run) -> pl.DataFrame:
    import polars as pl

    schedule, jobs = run.schedule, run.schedule.jobs
    return pl.DataFrame(
        {
            "pipeline": pl.repeat(comparison.contenders[run.contender].label, len(jobs), eager=True),
            "window": pl.repeat(run.window, len(jobs), dtype=pl.Int32, eager=True),
            "id": pl.Series(jobs.id.astype(np.str_).tolist(), dtype=pl.String),
            "user": pl.Series(jobs.user.to_list(), dtype=pl.String),
            "vc": pl.Series(jobs.vc.to_list(), dtype=pl.String),
            "gpus": jobs.gpus,
            "submit_s": jobs.submit_s,
            "start_s": pl.Series(schedule.start_s, nan_to_null=True),
            "end_s": pl.Series(schedule.end_s, nan_to_null=True),
            "estimate_s": schedule.estimate_s,
            "wait_s": pl.Series(schedule.wait_s, nan_to_null=True),
            "jct_s": pl.Series(schedule.jct_s, nan_to_null=True),
            "bounded_slowdown": pl.Series(schedule.bounded_slowdown, nan_to_null=True),
            "requeues": schedule.requeues,
            "rejected": pl.Series(schedule.reject_reason.to_list(), dtype=pl.String),
            "nodes": _nodes(run),
        }
    )


def _nodes(run: Run) -> pl.Series:
    """List per job the nodes of its last attempt."""
    import polars as pl

    placed = run.schedule.placements
    count = np.diff(placed.ptr)
    listed = pl.DataFrame({"job": np.repeat(np.arange(len(count)), count), "node": placed.node})
    by_job = listed.group_by("job", maintain_order=True).agg("node")
    every = pl.DataFrame({"job": np.arange(len(count))}).join(by_job, on="job", how="left", maintain_order="left")
    return every["node"].alias("nodes")
