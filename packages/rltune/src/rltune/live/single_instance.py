"""One controller at a time: a lock that the kernel gives back when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rltune.errors import InputError


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the lock while inside; refuse to enter while another process does."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(f"{path}: the lock cannot be taken: {error.strerror}") from None
    try:
        _take(descriptor, path)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 20).decode(errors="replace").strip()
        who = f" (process {holder})" if holder else ""
        raise InputError(f"{path}: another controller{who} is at work; one at a time") from None
