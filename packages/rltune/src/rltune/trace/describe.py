"""What is in a trace, in a table: for `trace info`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.text import percent, seconds

if TYPE_CHECKING:
    from rich.table import Table

    from rltune.jobs import Jobs
    from rltune.labels import Labels

_SHOWN = 8


@dataclass(frozen=True)
class Description:
    """The figures by which traces are compared."""

    jobs: int
    gpu_jobs: int
    span_days: float
    mean_gpus: float  # of jobs with GPUs, as all that follows
    single_gpu_share: float
    largest_job: int
    mean_run_s: float
    run_quantiles_s: dict[str, float]
    mean_demand_gpus: float  # GPU-seconds over the span
    arrival_cv: float  # of the times between submits: 1 = Poisson
    with_limit: float  # share of jobs with a time limit
    sizes: dict[str, float]
    states: dict[str, float]
    vcs: dict[str, float]
    users: int
    names: int
    gpu_types: dict[str, float]
    preemptible: float  # share of all jobs
    checkpoint_s: dict[str, float]  # of those that are; shares
    restart_s: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, for JSON."""
        return asdict(self)

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table("", "", box=None, show_header=False, padding=(0, 2, 0, 0))
        for name, value in self.to_dict().items():
            title, write = _TITLES.get(name, (name.replace("_", " "), _spell))
            table.add_row(title, Text(write(value)))  # as it is: names may look like markup
        return table


def describe(jobs: Jobs) -> Description:
    """Sum a trace up."""
    with_gpus = jobs.gpus > 0
    gpus = jobs.gpus[with_gpus]
    run = jobs.duration_s[with_gpus] if with_gpus.any() else jobs.duration_s
    span = float(jobs.submit_s.max() - jobs.submit_s.min()) if len(jobs) else 0.0
    gaps = np.diff(np.sort(jobs.submit_s))
    points = {"p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return Description(
        jobs=len(jobs),
        gpu_jobs=int(with_gpus.sum()),
        span_days=span / 86_400,
        mean_gpus=_mean(gpus),
        single_gpu_share=_mean(gpus == 1),
        largest_job=int(gpus.max(initial=0)),
        mean_run_s=_mean(run),
        run_quantiles_s={k: float(np.quantile(run, p)) for k, p in points.items()} if len(run) else {},
        mean_demand_gpus=float(jobs.gpus @ jobs.duration_s) / span if span else 0.0,
        arrival_cv=float(gaps.std() / gaps.mean()) if span else 0.0,
        with_limit=_mean(~np.isnan(jobs.limit_s)),
        sizes=_shares(gpus.astype(np.str_)),
        states=_label_shares(jobs.state),
        vcs=_label_shares(jobs.vc),
        users=_used(jobs.user),
        names=_used(jobs.name),
        gpu_types=_label_shares(jobs.gpu_types),
        preemptible=_mean(jobs.preemptible),
        checkpoint_s=_number_shares(jobs.checkpoint_s[jobs.preemptible]),
        restart_s=_number_shares(jobs.restart_s[jobs.preemptible]),
    )


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _used(labels: Labels) -> int:
    return len(set(labels.codes.tolist()) - {-1})


def _label_shares(labels: Labels) -> dict[str, float]:
    names = np.array([*labels.names, "-"])  # -1 takes the last
    return _shares(names[labels.codes]) if _used(labels) else {}


def _number_shares(values: Any) -> dict[str, float]:
    return _shares(np.array([f"{value:g}" for value in values.tolist()])) if len(values) else {}


def _shares(values: Any) -> dict[str, float]:
    """Return the commonest values and their shares."""
    found, count = np.unique(values, return_counts=True)
    order = np.argsort(-count, kind="stable")
    shares = {str(found[i]): float(count[i] / len(values)) for i in order[:_SHOWN]}
    rest = float(count[order[_SHOWN:]].sum() / max(len(values), 1))
    return shares | ({"others": rest} if rest else {})


def _spell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{value:,}"


def _times(values: dict[str, float]) -> str:
    return "  ".join(f"{name} {seconds(value)}" for name, value in values.items()) or "-"


def _parts(shares: dict[str, float]) -> str:
    """Write what there is with its share: the value, a colon, per cent."""
    return "  ".join(f"{name}: {percent(share)}" for name, share in shares.items()) or "-"


_TITLES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "gpu_jobs": ("jobs with GPUs", _spell),
    "span_days": ("span", lambda days: f"{days:.1f} d"),
    "mean_gpus": ("mean GPUs a job", _spell),
    "single_gpu_share": ("jobs of one GPU", percent),
    "largest_job": ("largest job, GPUs", _spell),
    "mean_run_s": ("mean run time", seconds),
    "run_quantiles_s": ("run times", _times),
    "mean_demand_gpus": ("GPUs asked for, on average", _spell),
    "arrival_cv": ("burstiness of arrivals (1 = by chance)", _spell),
    "with_limit": ("jobs with a time limit", percent),
    "sizes": ("GPUs of jobs", _parts),
    "states": ("states", _parts),
    "vcs": ("partitions (VCs)", _parts),
    "gpu_types": ("GPU types asked for", _parts),
    "preemptible": ("jobs that may be preempted", percent),
    "checkpoint_s": ("checkpoints of those, every so many s", _parts),
    "restart_s": ("restarts of those, s", _parts),
}
