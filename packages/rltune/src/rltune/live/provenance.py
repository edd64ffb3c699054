"""What decisions are made by, as the journal keeps it: the version, the core's source, the policy, the settings."""

from __future__ import annotations

from rltune import __version__
from rltune.kernel.jit import SOURCE_HASH
from rltune.live.control_settings import ControlSettings
from rltune.live.decide.pinned import Pinned
from rltune.live.journal.store import ControllerRun


def run_of(settings: ControlSettings, pinned: Pinned, at_s: float) -> ControllerRun:
    """Describe a start or a reload of the controller."""
    return ControllerRun(at_s, __version__, SOURCE_HASH, pinned.sha256, settings.model_dump_json())
