"""Where a training stands, in one file that is whole or not there, whenever the machine dies."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import torch

from rltune.errors import InputError
from rltune.learn.same_training import none_to_resume
from rltune.whole_file import write_whole

VERSION = 2  # raised, too, when the same settings come to give other weights


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
        raise none_to_resume(path) from None
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        first = str(error).strip().partition("\n")[0]
        raise InputError(f"checkpoint {path} cannot be read: {first}") from error
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise InputError(f"{path} is no checkpoint that this version can resume; start without --resume")
    return state
