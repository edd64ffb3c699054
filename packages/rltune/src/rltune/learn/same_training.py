"""What a training must share with a checkpoint to go on from it; without torch, for evolution has none."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from rltune.cluster import Cluster
    from rltune.jobs import Jobs

SUFFIX = ".checkpoint"  # behind the name of the model


def trace_hash(jobs: Jobs) -> str:
    """Return a hash of all that a training takes from a trace, job by job in their order."""
    made = hashlib.sha256()
    said = (jobs.preemptible, jobs.checkpoint_s, jobs.restart_s) if jobs.tells_preemption else ()
    for column in (jobs.submit_s, jobs.duration_s, jobs.gpus, jobs.vc.codes, jobs.user.codes, *said):
        made.update(np.ascontiguousarray(column).tobytes())
    return made.hexdigest()


def spelled_out(cluster: Cluster) -> str:
    """Write every field: what a cluster prints of itself leaves some out."""
    told = {
        name: value for name, value in vars(cluster).items() if name != "preemption" or value
    }  # new, and often none
    return f"Cluster({', '.join(f'{name}={value!r}' for name, value in told.items())})"


def require_same(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse to go on with other settings or another trace: the result would be neither training."""
    for name, value in wanted.items():
        if found.get(name) != value:
            raise InputError(
                f"checkpoint {path} was made with {name} = {found.get(name)!r}, not {value!r}; "
                "give the same or start without --resume"
            )


def none_to_resume(path: Path) -> InputError:
    """Make the sentence for a checkpoint that is not there."""
    return InputError(f"there is no checkpoint {path} to resume from; start without --resume")
