"""Tells users in AdminComment why their jobs wait and when they will start, as the controller's notices are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rltune.explain.explanation import Reason
from rltune.forecast.start_forecast import Forecast
from rltune.live.decide.ranking import by_slurm, tier_of
from rltune.live.holder import this_process
from rltune.live.see.admin_comment import JobNotice, is_ours
from rltune.live.see.backend import Backend, Change, ChangeKind
from rltune.live.see.snapshot import LiveJob, Snapshot
from rltune.present.present import told_times

LONGEST = 160  # characters of a reason


@dataclass(frozen=True)
class CommentsWritten:
    """What became of the comments."""

    written: int
    refused: int
    error: str = ""  # of the first that was refused

    def __str__(self) -> str:
        if not self.refused:
            return f"AdminComment was written for {self.written} waiting jobs"
        why = f"{self.error}; AdminComment needs AdminLevel=Administrator"
        return f"AdminComment was written for {self.written} waiting jobs and refused for {self.refused}: {why}"


def tell_waiting(
    backend: Backend, snapshot: Snapshot, reasons: Mapping[str, Reason], forecast: Forecast, by: str
) -> CommentsWritten:
    """Write for every waiting job why it waits and when it starts; an administrator's own comment is left alone."""
    changes = comments(snapshot, reasons, forecast, by)
    outcomes = backend.apply(changes) if changes else ()
    refused = [outcome.error for outcome in outcomes if not outcome.done]
    return CommentsWritten(len(outcomes) - len(refused), len(refused), refused[0] if refused else "")


def comments(snapshot: Snapshot, reasons: Mapping[str, Reason], forecast: Forecast, by: str) -> list[Change]:
    """Return the comments to write."""
    ordered = sorted(snapshot.pending, key=lambda job: (-tier_of(job, snapshot), *by_slurm(job)))
    who = this_process().host
    told = []
    for place, job in enumerate(ordered, 1):
        reason = reasons.get(job.command_name)
        if reason is None or (job.admin_comment and not is_ours(job.admin_comment)):
            continue
        why = ", ".join(filter(None, (str(reason)[:LONGEST], _start(job, forecast))))
        notice = JobNotice(place, len(ordered), place, why, by, 0, who)
        told.append(Change(job.id, ChangeKind.ADMIN_COMMENT, text=str(notice), ref=job.ref))
    return told


def _start(job: LiveJob, forecast: Forecast) -> str:
    """Write when a job will start, with the interval that holds it eight times in ten."""
    made = forecast.by_job.get(job.command_name)
    if made is None:
        return ""
    low, middle, high = told_times((made.p10_s, made.p50_s, made.p90_s), forecast.now_s, "not seen to start")
    return f"start about {middle} ({low} to {high})"
