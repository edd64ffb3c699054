"""Trains models larger than the device by planning every tensor's place ahead of time."""

from tencache.access import Trace
from tencache.attach import Cached, wrap
from tencache.errors import CopyError, CorruptedError, Notice, RefusedError
from tencache.plan import Plan
from tencache.stats import Stats

__all__ = ["Cached", "CopyError", "CorruptedError", "Notice", "Plan", "RefusedError", "Stats", "Trace", "wrap"]
