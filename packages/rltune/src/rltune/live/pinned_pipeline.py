"""The pipeline of a controller, read once when it starts: files are looked at here, and nowhere in a cycle."""

from __future__ import annotations

from dataclasses import replace

from rltune.engine.guard import Guard, get_guard
from rltune.engine.pipeline import Pipeline
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.kernel.score.rules import INSPECTED
from rltune.live.control_settings import ControlSettings, PipelineSettings


def pin_pipeline(settings: PipelineSettings, guard: str | Guard | None = None) -> Pipeline:
    """Read the policy, guarded if it has no guard of its own."""
    parsed = Pipeline.parse(
        settings.policy,
        settings.backfill,
        settings.placement,
        head=settings.head,
        view=settings.view,
        seed=settings.seed,
    )
    if parsed.policy.code == INSPECTED:
        spec = settings.policy
        raise InputError(f"policy {spec!r} judges choices one by one as they are made, and gives a queue no order")
    return parsed if parsed.guard else replace(parsed, guard=get_guard(guard))


def require_understood(settings: ControlSettings) -> None:
    """Refuse settings that name what does not exist, before anything is done by them."""
    get_estimator(settings.pipeline.estimator)
    pin_pipeline(settings.pipeline, settings.safety.guard)
