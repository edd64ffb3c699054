"""A spell: the time from a start of a job to the end of it, if that is not the job's own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spell:
    """A spell that ended before its job did. Its end is when it was first seen to be over, at most a cycle late."""

    job: int
    submit_s: float
    start_s: float
    end_s: float
    restarts: int
    displaced: bool  # by the controller; or by somebody else, or a failing node
