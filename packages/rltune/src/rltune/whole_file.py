"""Files that are whole or not there: whatever happens in between, the old one stays until the new one is on disk.

Every file that rltune writes is written here; tests/test_house.py fails if a module opens one in another way.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rltune.errors import InputError


def write_whole(path: str | Path, content: str | bytes, *, private: bool = False) -> None:
    """Write beside the file, then rename; a full disk, a crash or Ctrl-C leaves what was there, and nothing else.

    Raises InputError if the file cannot be written. A link stays a link, and a file that is replaced hands on who may
    read it. What is no file (a device, a pipe) has nothing to lose and cannot be renamed: it is written as it is.
    A private file is for its owner alone.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        target = Path(path).resolve()
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _write_beside(target, data, 0o600 if private else 0o666)
    except OSError as error:
        raise cannot_write(path, error) from None


def cannot_write(path: str | Path, error: OSError) -> InputError:
    """Make the sentence for a file that the system does not let be written."""
    return InputError(f"{path}: cannot be written: {error.strerror or error}")


def _write_beside(target: Path, data: bytes, mode: int) -> None:
    beside = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:  # noqa: PTH123  by its number
            if target.exists():
                shutil.copymode(target, beside)  # before anything stands in it
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)  # there only if something went wrong, Ctrl-C included
