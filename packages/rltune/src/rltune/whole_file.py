"""Files that are whole or not there: whatever happens in between, the old one stays until the new one is on disk."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write beside the file, then rename; an OSError leaves what was there."""
    beside = Path(path).with_name(f"{Path(path).name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
