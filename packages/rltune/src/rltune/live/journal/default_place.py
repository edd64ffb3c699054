"""Where the journal is if nobody says: one absolute place, whatever folder a command is started in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SERVICE = Path("/var/lib/rltune")  # the service's own folder


def default_journal(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the service's journal if this account can write there, else one of its own, as XDG has it."""
    if os.access(SERVICE if SERVICE.exists() else SERVICE.parent, os.W_OK):
        return SERVICE / "journal.db"
    state = environment.get("XDG_STATE_HOME", "")
    home = Path(state) if Path(state).is_absolute() else Path.home() / ".local/state"
    return home / "rltune/journal.db"
