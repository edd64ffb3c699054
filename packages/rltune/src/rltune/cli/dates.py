"""Dates and durations as users write them."""

import re
from datetime import datetime

from rltune.errors import InputError

NOW = "now"
_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def moment(text: str) -> int:
    """Read a day or a time in the zone of whoever runs the command, as seconds since 1970."""
    if text == NOW:
        return int(datetime.now().astimezone().timestamp())
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp())
    except (ValueError, OverflowError, OSError):
        raise InputError(f"{text!r} should be a date such as 2026-01-31 or 2026-01-31T12:00, or {NOW}") from None


def duration(text: str) -> int:
    """Read 1d, 6h or 30m as seconds."""
    match = re.fullmatch(r"(\d+)([mhdw])", text)
    if match is None:
        raise InputError(f"{text!r} should be a number with m, h, d or w, such as 6h")
    return int(match[1]) * _UNITS[match[2]]
