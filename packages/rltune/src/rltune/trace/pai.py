"""Alibaba PAI: the job, task and instance tables of cluster-trace-gpu-v2020 (Weng et al., NSDI'22).

The tables have no header line (`.header` files lie beside them in the published set). The task table holds the
resources and is always needed; the job table beside it gives users and submit times; the instance table is large
and is read only if it is the file named.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.trace.columns import Columns
from rltune.trace.quality import Ledger
from rltune.trace.read_result import Trace, build, note_run_times
from rltune.trace.trace_file import Source, read_source

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl
    from numpy.typing import NDArray

TABLES: dict[str, tuple[str, ...]] = {
    "job": ("job_name", "inst_id", "user", "status", "start_time", "end_time"),
    "task": (
        "job_name",
        "task_name",
        "inst_num",
        "status",
        "start_time",
        "end_time",
        "plan_cpu",
        "plan_mem",
        "plan_gpu",
        "gpu_type",
    ),
    "instance": (
        "job_name",
        "task_name",
        "inst_name",
        "worker_name",
        "inst_id",
        "status",
        "start_time",
        "end_time",
        "machine",
    ),
}
STATUSES = ("Terminated", "Failed", "Running", "Waiting")
_FIRST_STATUSES = (*STATUSES, "Interrupted", "Ready")  # instances have more


def table_of(first_line: str) -> str | None:
    """Name the table that a line is from, be it a header or a record."""
    fields = tuple(field.strip() for field in first_line.split(","))
    for table, names in TABLES.items():
        header = fields[0] == "job_name" and len(set(fields) & set(names)) >= len(names) - 1
        if header or (len(fields) == len(names) and fields[names.index("status")] in _FIRST_STATUSES):
            return table
    return None


def looks_like(head: list[str]) -> bool:
    """Return whether the file is one of the tables."""
    return table_of(head[0]) is not None


def read(source: Source) -> Trace:
    """Read PAI as one row a job: its tasks are added up, from the first start to the last end."""
    named = table_of(source.head(1)[0]) or "task"
    tasks = source if named == "task" else _beside(source, named, "task", needed=True)
    assert tasks is not None
    columns = _columns(tasks, "task")
    jobs = _jobs_of(columns)
    jobs = _with_users(jobs, source if named == "job" else _beside(source, named, "job"))
    if named == "instance":
        jobs = _with_instances(jobs, source)
    return _trace(columns, jobs)


def _columns(source: Source, table: str) -> Columns:
    names = TABLES[table]
    headed = source.head(1)[0].split(",")[0].strip() == "job_name"
    columns = Columns.read(source, names=None if headed else names)
    columns.require(*names)
    return columns


def _beside(source: Source, named: str, wanted: str, *, needed: bool = False) -> Source | None:
    """Find another table of the same set in the same folder."""
    path = Path(source.path)
    name = path.name.replace(f"pai_{named}_table", f"pai_{wanted}_table")
    stem = name.split(".")[0]
    if name != path.name:
        for other in (name, f"{stem}.csv", f"{stem}.csv.gz", f"{stem}.tar.gz"):
            if path.with_name(other).is_file():
                return read_source(path.with_name(other))
    if needed:
        problem = f"is PAI's {named} table, which holds no resources; lay pai_{wanted}_table.csv beside it"
        raise source.error(problem)
    return None


def _jobs_of(columns: Columns) -> pl.DataFrame:
    """Add the tasks of each job up; one row a job, in order of first appearance."""
    import polars as pl

    instances = columns.count("inst_num", empty=np.nan)
    plan_gpu = columns.number("plan_gpu", empty=0.0) / 100
    each = np.where(np.isnan(instances), 1.0, instances)
    types = columns.text("gpu_type")
    tasks = pl.DataFrame(
        {
            "job": columns.text("job_name"),
            "row": np.arange(len(columns)),
            "gpus": each * np.ceil(plan_gpu),
            "cpus": each * columns.number("plan_cpu", empty=0.0) / 100,
            "mem": each * columns.number("plan_mem", empty=0.0),
            "start": columns.number("start_time", empty=np.nan),
            "end": columns.number("end_time", empty=np.nan),
            "status": columns.text("status"),
            "type": types.set((types == "CPU").fill_null(value=False), None),
            "share": plan_gpu != np.ceil(plan_gpu),
            "no_count": np.isnan(instances),
        }
    )
    return tasks.group_by("job", maintain_order=True).agg(
        pl.col("row").first(),
        pl.col("gpus", "cpus", "mem").sum(),
        pl.col("start").min(),
        pl.col("end").max(),
        pl.col("start", "end").is_nan().any().name.suffix("_missing"),
        *((pl.col("status") == status).any().alias(status) for status in STATUSES),
        pl.col("type").drop_nulls().unique().sort().str.join("|").alias("types"),
        pl.col("type").drop_nulls().n_unique().alias("type_count"),
        pl.col("share", "no_count").any(),
    )


def _with_users(jobs: pl.DataFrame, table: Source | None) -> pl.DataFrame:
    import polars as pl

    if table is None:
        return jobs.with_columns(user=pl.lit(None, pl.String), submit=pl.lit(None, pl.Float64))
    columns = _columns(table, "job")
    users = pl.DataFrame(
        {
            "job": columns.text("job_name"),
            "user": columns.text("user"),
            "submit": pl.Series(columns.number("start_time", empty=np.nan), nan_to_null=True),
        }
    )
    return jobs.join(users.unique("job", keep="first"), on="job", how="left", maintain_order="left")


def _with_instances(jobs: pl.DataFrame, table: Source) -> pl.DataFrame:
    """Take start and end from the instances where they have both."""
    import polars as pl

    columns = _columns(table, "instance")
    spans = pl.DataFrame(
        {
            "job": columns.text("job_name"),
            "machine": columns.text("machine"),
            "first": pl.Series(columns.number("start_time", empty=np.nan), nan_to_null=True),
            "last": pl.Series(columns.number("end_time", empty=np.nan), nan_to_null=True),
        }
    )
    machines = pl.col("machine").drop_nulls().unique().sort().str.join(",").alias("machines")
    spans = spans.group_by("job").agg(pl.col("first").min(), pl.col("last").max(), machines)
    spans = spans.drop_nulls(["first", "last"])
    joined = jobs.join(spans, on="job", how="left", maintain_order="left")
    told = pl.col("first").is_not_null()
    return joined.with_columns(
        start=pl.coalesce("first", "start"),
        end=pl.coalesce("last", "end"),
        start_missing=pl.col("start_missing") & ~told,
        end_missing=pl.col("end_missing") & ~told,
    )


def _trace(columns: Columns, jobs: pl.DataFrame) -> Trace:
    ledger = Ledger(columns.source, columns.lines)
    first = jobs["row"].to_numpy()

    def spread(values: Iterable[Any], fill: Any) -> NDArray[Any]:
        """Put a job's value on the row of its first task."""
        rows = np.full(len(columns), fill)
        rows[first] = np.asarray(values)
        return rows

    ledger.drop("several-tasks", ~spread(np.ones(len(first), dtype=np.bool_), fill=False))
    start, end = (spread(jobs[name], np.nan) for name in ("start", "end"))
    gpus, cpus, mem = (spread(jobs[name], 0.0) for name in ("gpus", "cpus", "mem"))
    submit = spread(jobs["submit"].fill_null(np.nan), np.nan)
    ledger.drop("still-running", spread(jobs["Running"].fill_null(value=False), fill=False))
    ledger.drop("never-started", spread(jobs["Waiting"].fill_null(value=False), fill=False))
    ledger.drop("no-run-time", spread(jobs["start_missing"] | jobs["end_missing"], fill=False))
    ledger.drop("end-before-start", end < start)
    ledger.drop("no-gpu-no-cpu", (gpus == 0) & (cpus == 0))
    for rule, name in (("gpu-share-rounded-up", "share"), ("instances-not-told", "no_count")):
        ledger.mark(rule, spread(jobs[name], fill=False))
    ledger.mark("mixed-gpu-types", spread(jobs["type_count"] > 1, fill=False))
    ledger.mark("submit-is-start", np.isnan(submit))
    early = start < submit
    ledger.mark("submit-after-start", early)
    note_run_times(ledger, end - start)
    return build(
        ledger,
        "pai",
        id=columns.frame["job_name"].fill_null("").to_numpy().astype(np.str_),
        submit_s=np.where(np.isnan(submit), start, submit),
        duration_s=end - start,
        gpus=gpus,
        cpus=np.where(cpus > 0, cpus, np.nan),
        mem_gib=np.where(mem > 0, mem, np.nan),
        user=spread(jobs["user"], None).tolist(),
        gpu_types=spread(jobs["types"], None).tolist(),
        state=spread(np.where(jobs["Failed"].to_numpy(), "failed", "completed"), "completed").tolist(),
        recorded_start_s=np.where(early, np.nan, start),
        recorded_nodes=spread(jobs["machines"], None).tolist() if "machines" in jobs.columns else None,
    )
