"""Where a training stands, in one file that is whole or not there, whenever the machine dies."""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.whole_file import write_whole

VERSION = 2  # raised, too, when the same settings come to give other weights
SUFFIX = ".checkpoint"


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a state of tensors and plain values; what was there before stays until the new one is on disk."""
    buffer = io.BytesIO()
    torch.save({"version": VERSION, **state}, buffer)
    write_whole(path, buffer.getvalue())


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a state; nothing in the file is run."""
    try:
        state = torch.load(path, weights_only=True)
    except FileNotFoundError:
        raise InputError(f"there is no checkpoint {path} to resume from; start without --resume") from None
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        first = str(error).strip().partition("\n")[0]
        raise InputError(f"checkpoint {path} cannot be read: {first}") from error
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise InputError(f"{path} is no checkpoint that this version can resume; start without --resume")
    return state


def trace_hash(jobs: Jobs) -> str:
    """Return a hash of all that a training takes from a trace, job by job in their order."""
    made = hashlib.sha256()
    said = (jobs.preemptible, jobs.checkpoint_s, jobs.restart_s) if jobs.tells_preemption else ()
    for column in (jobs.submit_s, jobs.duration_s, jobs.gpus, jobs.vc.codes, jobs.user.codes, *said):
        made.update(np.ascontiguousarray(column).tobytes())
    return made.hexdigest()


def require_same(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse to go on with other settings or another trace: the result would be neither training."""
    for name, value in wanted.items():
        if found.get(name) != value:
            raise InputError(
                f"checkpoint {path} was made with {name} = {found.get(name)!r}, not {value!r}; "
                "give the same or start without --resume"
            )
