"""What a decision was made by: the version, the core's source, the model or the policy's file."""

from __future__ import annotations

import hashlib
from pathlib import Path

from rltune.engine.pipeline import Pipeline, split_around
from rltune.kernel.state.handles import SOURCE_HASH
from rltune.live.control_settings import ControlSettings
from rltune.live.journal.store import Run
from rltune.policy.learned import Learned
from rltune.version import __version__


def run_of(settings: ControlSettings, pipeline: Pipeline, at_s: float) -> Run:
    """Describe a start of the controller."""
    return Run(
        at_s, __version__, SOURCE_HASH, policy_hash(settings.pipeline.policy, pipeline), settings.model_dump_json()
    )


def policy_hash(spec: str, pipeline: Pipeline) -> str:
    """Return the hash of a model, or of the file that a policy is read from; "" if it is built in."""
    spec, _ = split_around(spec)
    if isinstance(pipeline.policy, Learned):
        return pipeline.policy.model.sha256
    for candidate in (spec.rpartition(":")[0], spec.partition(":")[2]):
        if candidate and Path(candidate).is_file():
            return hashlib.sha256(Path(candidate).read_bytes()).hexdigest()
    return ""
