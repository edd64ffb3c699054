"""What has ended, as policies and estimators of a moment know it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rltune.engine.pipeline import Pipeline, learns
from rltune.estimate.estimators import Given
from rltune.jobs import Jobs

_LONG_AGO_S = 1e10  # history is shifted by so much: policies ask what had ended before the first job of the table


def taught(pipeline: Pipeline, history: Jobs | None) -> Pipeline:
    """Let a policy that learns know all history that there is."""
    if history is None or not len(history) or not learns(pipeline.policy):
        return pipeline
    return replace(pipeline, policy=pipeline.policy.after(long_ago(history)))  # type: ignore[attr-defined]


def long_ago(history: Jobs) -> Jobs:
    """Return history as of long before the jobs that are decided on, so that all of it had ended by then."""
    return history.with_columns(
        submit_s=history.submit_s - _LONG_AGO_S, recorded_start_s=history.recorded_start_s - _LONG_AGO_S
    )


@dataclass(frozen=True)
class GivenAfter(Given):
    """Estimates that were made elsewhere, and the history that tells what running jobs have left."""

    before: Jobs | None = None
