"""Moments of a history as a reader knows them: dates, where the history tells its clock."""

from __future__ import annotations

import datetime as dt

DAY_S = 86_400.0


def from_to(begin_s: float, end_s: float, origin_s: float | None) -> str:
    """Write from when to when, by the clock of the export; in days of the history if that is not known."""
    if origin_s is None:
        return f"from day {begin_s / DAY_S:.1f} to day {end_s / DAY_S:.1f} of the history"
    begin, end = (dt.datetime.fromtimestamp(round(origin_s + t), dt.UTC) for t in (begin_s, end_s))
    return f"from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
