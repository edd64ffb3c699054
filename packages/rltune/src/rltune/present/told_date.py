"""How a date looks to a reader."""

from datetime import UTC, datetime


def date_and_time(since_1970_s: float) -> str:
    """Write a date with its time of day; seconds beyond the calendar as they are."""
    try:
        return f"{datetime.fromtimestamp(since_1970_s, UTC):%Y-%m-%dT%H:%M}"
    except (OverflowError, OSError, ValueError):
        return f"{since_1970_s:g} s"
