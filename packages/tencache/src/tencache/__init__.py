"""Trains models larger than the device by planning every tensor's place ahead of time."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tencache.errors import CopyError, CorruptedError, Notice, PeerError, RefusedError, UpdateError

if TYPE_CHECKING:
    from tencache.plan.step_plan import StepPlan as Plan
    from tencache.plan.step_trace import StepTrace as Trace
    from tencache.runtime.attach import Cached
    from tencache.runtime.stats import Stats
    from tencache.runtime.wrapping import wrap

__all__ = [
    "Cached",
    "CopyError",
    "CorruptedError",
    "Notice",
    "PeerError",
    "Plan",
    "RefusedError",
    "Stats",
    "Trace",
    "UpdateError",
    "wrap",
]

# Imported on first use: `tencache plan` and everything in tencache.plan work without torch, and start at once.
_HOMES = {
    "Cached": ("tencache.runtime.attach", "Cached"),
    "Plan": ("tencache.plan.step_plan", "StepPlan"),
    "Stats": ("tencache.runtime.stats", "Stats"),
    "Trace": ("tencache.plan.step_trace", "StepTrace"),
    "wrap": ("tencache.runtime.wrapping", "wrap"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
