"""The TRACE of a command: a file, or a synthetic trace such as `synth:philly,jobs=5000,load=0.9`."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rltune.cli.compile_notice import compile_core
from rltune.cli.console import count
from rltune.cli.parsing import SYNTH
from rltune.cli.terminal_progress import spinner
from rltune.errors import InputError, TooManyRefusedError, unknown
from rltune.text import seconds

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.jobs import Jobs
    from rltune.trace import Trace
    from rltune.trials.refused_jobs import Refused

LOAD = 0.9  # of a synthetic trace on the command's cluster, unless told
MOST_JOBS = 100_000_000
LOST_SHARE = 0.01  # of the records: fewer that could not be read are not worth a word in every result
MACHINE_SLACK = 0.01  # of the processors that a log's header tells: who differs by less is the same machine
_PARAMETERS: dict[str, Callable[[str], float]] = {"jobs": int, "seed": int, "load": float, "days": float}


@dataclass(frozen=True)
class Workload:
    """Jobs, what to call them, and what a reader of their results must know."""

    jobs: "Jobs"
    name: str
    notes: tuple[str, ...] = ()
    origin_s: float | None = None  # the history's own clock at its time 0, in seconds since 1970


def load_workload(
    spec: str,
    format_name: str | None,
    cluster: "Cluster | None" = None,
    *,
    allow_rejected: bool = False,
    as_submitted: bool = False,
) -> Workload:
    """Read a trace, or make one to the measure of the cluster.

    If the cluster can never run more than 1 % of the jobs, that is refused unless it is allowed: what is left would be
    another workload. Fewer are said in the name and in a note, so that they are in the headline of every result.
    On a cluster, jobs that something held come when they could first start, unless they are wanted as submitted.
    """
    if spec.startswith(SYNTH):
        return _synthetic(spec, cluster)
    from rltune.trace.fits_cluster import require_no_cycle

    trace = read(spec, format_name)
    told = [trace.quality.format, count(len(trace.jobs), "jobs")]
    notes = notes_on(trace)
    if cluster is not None:
        notes = (*_another_machine(trace, cluster), *notes)
        require_no_cycle(trace)
        _require_same_clock(trace, cluster)
        refused = _refused(trace.jobs, cluster, allow_rejected=allow_rejected)
        if refused.jobs:
            told.append(f"{refused.jobs:,} of them rejected")
            notes = (f"{refused}.", *notes)
    jobs = trace.jobs
    if cluster is not None and not as_submitted:
        jobs = jobs.from_when_ready().sorted()
        notes = (*notes, *_held(trace.jobs))
    return Workload(jobs, f"{spec} ({', '.join(told)})", notes, trace.origin_s)


def _require_same_clock(trace: "Trace", cluster: "Cluster") -> None:
    """Refuse maintenance and outages that were told by the clock of another history: they would fall anywhere."""
    ours, theirs = trace.origin_s, cluster.clock_s
    if not (cluster.maintenance or cluster.outages) or ours is None or theirs is None or abs(ours - theirs) < 1:
        return
    when = f"begins {seconds(abs(ours - theirs))} {'later' if ours > theirs else 'earlier'}"
    what = "maintenance and outages of the cluster's file are of another history than this one, which"
    raise InputError(f"{what} {when}: leave out those lines; rltune calibrate finds those of this history")


def _another_machine(trace: "Trace", cluster: "Cluster") -> list[str]:
    """Warn where the history tells of another number of processors than the cluster has."""
    told = trace.machine
    if told is None or abs(told.processors - cluster.gpu_count) <= MACHINE_SLACK * told.processors:
        return []
    theirs = f"The log's header tells of {told.processors:,} processors, and this cluster has {cluster.gpu_count:,}"
    return [f"{theirs} GPUs: waits will not be the site's. `rltune cluster import` writes the header's machine."]


def _held(jobs: "Jobs") -> list[str]:
    from rltune.metrics.recorded import recorded_wait

    return recorded_wait(jobs).held_lines()


def also_on(work: Workload, cluster: "Cluster", name: str, *, allow_rejected: bool) -> Workload:
    """Ask of a further cluster, too, how many of the jobs it can never run."""
    refused = _refused(work.jobs, cluster, allow_rejected=allow_rejected, name=name)
    if not refused.jobs:
        return work
    return replace(work, name=f"{work.name}, {refused.jobs:,} rejected by {name},", notes=(f"{refused}.", *work.notes))


def _refused(jobs: "Jobs", cluster: "Cluster", *, allow_rejected: bool, name: str = "") -> "Refused":
    from rltune.trials.refused_jobs import Refused

    compile_core()
    with spinner("asking which jobs the cluster can run"):
        refused = Refused.of_history(jobs, cluster, name)
    if refused.is_too_many and not allow_rejected:
        raise TooManyRefusedError(f"{refused}. Mend the cluster's TOML, or leave these jobs out by --allow-rejected")
    return refused


def read(path: str, format_name: str | None, *, dedupe: bool = False) -> "Trace":
    """Read a trace from a file, with a sign of life."""
    with spinner(f"reading {path}"):
        from rltune import trace

        return trace.load(path, format_name, dedupe=dedupe)


def notes_on(trace: "Trace") -> tuple[str, ...]:
    """Return what was done to the trace, or is not in it, that changes every result."""
    from rltune.trace.quality import MISSING_COLUMNS

    told = []
    if rounded := trace.quality["gpu-share-rounded-up"]:
        given = f"{rounded:,} of {len(trace.jobs):,} jobs asked a share of a GPU and were given whole GPUs"
        told.append(f"{given}, so the load is higher than it was.")
    told += [f"{f.meaning[:1].upper()}{f.meaning[1:]}." for f in trace.quality.findings if f.rule in MISSING_COLUMNS]
    told += _lost(trace)
    return tuple(told)


def _lost(trace: "Trace") -> list[str]:
    """Return how many records may be of jobs that ran and are not replayed, and why, where they are more than a few."""
    from rltune.trace.quality import MAY_HAVE_RUN

    gone = sorted((f for f in trace.quality.findings if f.rule in MAY_HAVE_RUN), key=lambda f: -f.count)
    records = sum(f.count for f in gone)
    if records <= LOST_SHARE * trace.quality.rows:
        return []
    why = ", ".join(f"{f.rule} {f.count:,}" for f in gone)
    told = f"{records:,} of {trace.quality.rows:,} records are in no result ({why})"
    return [f"{told}, so the load is lower than it was; `rltune trace check` tells more."]


def _synthetic(spec: str, cluster: "Cluster | None") -> Workload:
    from rltune.trace import synthesise

    kind, given = parse_synthetic(spec)
    if cluster is not None and not given.keys() & {"load", "days"}:
        given["load"] = LOAD
    jobs = synthesise(kind, cluster=cluster, **given)
    told = ", ".join(f"{key} {value:g}" for key, value in given.items() if key != "jobs")
    return Workload(jobs, f"synthetic {kind}, {len(jobs):,} jobs{', ' if told else ''}{told}")


def parse_synthetic(spec: str) -> tuple[str, dict[str, Any]]:
    """Take `synth:KIND` apart; parameters follow after `?` and `&`, or after commas, which a shell leaves alone."""
    kind, *parts = re.split(r"[?&,]", spec.removeprefix(SYNTH))
    given: dict[str, Any] = {}
    for part in filter(None, parts):
        key, _, text = part.partition("=")
        if key not in _PARAMETERS:
            raise unknown("parameter of a synthetic trace", key, _PARAMETERS)
        try:
            given[key] = _PARAMETERS[key](text)
        except ValueError:
            raise InputError(f"{spec}: {key} should be a number, not {text!r}") from None
    if given.get("seed", 0) < 0:
        raise InputError(f"{spec}: seed should be 0 or more")
    if given.get("jobs", 0) > MOST_JOBS:
        raise InputError(f"{spec}: at most {MOST_JOBS:,} jobs can be made")
    return kind, given
