"""Templates and the files that pages are made with: all of them in the package, none from elsewhere."""

from __future__ import annotations

import datetime as dt
import math
import re
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from rltune.text import elapsed, seconds

NOTHING = "-"
_CODE = re.compile(r"`([^`\n]+)`")
_OF = {
    "report.css": "rltune.report",
    "tables.js": "rltune.report",
    "serve.css": "rltune.serve",
    "serve.js": "rltune.serve",
}


@cache
def _templates() -> Environment:
    made = Environment(
        loader=ChoiceLoader([PackageLoader("rltune.serve", "assets"), PackageLoader("rltune.report", "assets")]),
        autoescape=True,  # every name in these pages is somebody's text
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"span": span, "clock": clock, "hour": hour, "percent": percent, "count": count}
    made.filters |= {"sentence": sentence, "prose": prose, "day_or_hour": day_or_hour}
    made.filters["elapsed"] = lambda value: NOTHING if value is None else elapsed(value)
    made.tests["finite"] = math.isfinite
    return made


def render(template: str, **values: Any) -> str:
    """Render a template."""
    return _templates().get_template(template).render(**values)


@cache
def asset(name: str) -> bytes | None:
    """Return a file of the pages; None if there is no such."""
    package = _OF.get(name)
    return None if package is None else (resources.files(package) / "assets" / name).read_bytes()


def span(value: float | None, like: float | None = None) -> str:
    """Write a time span, in the unit of `like` if that is given."""
    return NOTHING if value is None else seconds(value, like)


def clock(value: float | None) -> str:
    """Write a moment, in UTC."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return dt.datetime.fromtimestamp(value, dt.UTC).strftime("%Y-%m-%d %H:%M")


def hour(value: float) -> str:
    """Write a time of day, in UTC."""
    return dt.datetime.fromtimestamp(value, dt.UTC).strftime("%H:%M")


def day_or_hour(value: float) -> str:
    """Write a time of an axis, in UTC: midnight as its day."""
    at = dt.datetime.fromtimestamp(value, dt.UTC)
    return f"{at.day} {at:%b}" if (at.hour, at.minute) == (0, 0) else f"{at:%H:%M}"


def count(value: float) -> str:
    """Write a number as a mark of an axis."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


def sentence(text: str) -> Markup:
    """Write what was said as a sentence of its own."""
    return prose(f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}")


def prose(value: object) -> Markup:
    """Write words in backticks as code; all else is text, whatever it looks like."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(value))))  # noqa: S704  escaped before


def percent(part: float, whole: float) -> str:
    """Write a share."""
    return f"{100 * part / whole:.0f} %" if whole else NOTHING
