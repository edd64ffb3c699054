"""Limits that nobody wrote down: reached often, never exceeded, though there was room.

A user who had room on the machine and did not start a job, again and again at the same number of GPUs or jobs and never
above, is limited there. At the most that somebody ever had, nobody starts by definition. So what counts is how often
the question arose (in different hours, with room on the machine), and how often a job of the same user started at once
when it had room and would not have gone above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.calibration.finding import SiteFact
from rltune.calibration.history import Happened, Steps
from rltune.labels import Labels

FEWEST_HOURS = 10  # in which a job waited at the limit with room on the machine
STARTS_OTHERWISE = 0.5  # of the jobs that had room and stayed below: they started at once
AT_ONCE_S = 120.0
FEWEST_NAMES = 2  # with one and the same limit, for it to be everybody's
SCOPES = ("user", "account", "qos")
RESOURCES = ("max_gpus", "max_running")


@dataclass(frozen=True)
class SeenLimit:
    """A limit of one user, account or QOS."""

    scope: str
    name: str
    resource: str
    most: int
    hours: int  # in which a job waited at it with room on the machine


def find_limits(history: Happened, gpus: int) -> tuple[list[SiteFact], NDArray[np.bool_]]:
    """Find limits of users, accounts and QOS, and say whom they held; one that several share is everybody's."""
    room = np.minimum(gpus, max(history.peak, 1)) - history.use.before(history.ready_s)
    found = []
    for scope in SCOPES:
        labels: Labels = getattr(history.jobs, scope)
        best = max(
            (_of_scope(history, labels, scope, r, room) for r in RESOURCES), key=lambda s: sum(x.hours for x in s)
        )
        found += [_finding(limit, names) for limit, names in _shared(best, history, labels)]
        if found:  # a user's limit would show in the accounts as well
            return found, _held(history, labels, best)
    return [], np.zeros(len(history), dtype=np.bool_)


def _held(history: Happened, labels: Labels, limits: list[SeenLimit]) -> NDArray[np.bool_]:
    """Return which jobs would have gone above a limit at one of some moments of their wait."""
    held = np.zeros(len(history), dtype=np.bool_)
    of_name = {limit.name: limit for limit in limits}
    for code, rows in _rows_by_code(labels):
        limit = of_name.get(labels.names[code])
        if limit is not None:
            amount = _amount(history, rows, limit.resource)
            start, ready = history.start_s[rows], history.ready_s[rows]
            had = Steps.of(start, history.end_s[rows], amount)
            moments = [ready + part * (start - ready) for part in np.linspace(0, 1, 9)]
            held[rows] = np.any([had.before(moment) + amount > limit.most for moment in moments], axis=0)
    return held


def _amount(history: Happened, rows: NDArray[np.intp], resource: str) -> NDArray[np.int64]:
    return history.size[rows] if resource == "max_gpus" else np.ones(len(rows), dtype=np.int64)


def seen_limit(
    history: Happened, rows: NDArray[np.intp], resource: str, room: NDArray[np.int64]
) -> tuple[int, int, float]:
    """Return the most these jobs ever had at once, the hours in which more was asked in vain, and who else started.

    That is the share, of the jobs with room that would not have gone above, of those that started at once.
    """
    amount = _amount(history, rows, resource)
    start, ready = history.start_s[rows], history.ready_s[rows]
    held = Steps.of(start, history.end_s[rows], amount)
    most = int(held.value.max(initial=0))
    fits = room[rows] >= history.size[rows]
    above = held.before(ready) + amount > most
    late = start - ready > AT_ONCE_S
    hours = len(np.unique(ready[above & fits & late] // 3600))
    below = ~above & fits
    return most, hours, float((~late[below]).mean()) if below.any() else 0.0


def _of_scope(history: Happened, labels: Labels, scope: str, resource: str, room: NDArray[np.int64]) -> list[SeenLimit]:
    found = []
    for code, rows in _rows_by_code(labels):
        if len(rows) < FEWEST_HOURS:
            continue
        most, hours, otherwise = seen_limit(history, rows, resource, room)
        if hours >= FEWEST_HOURS and otherwise >= STARTS_OTHERWISE:
            found.append(SeenLimit(scope, labels.names[code], resource, most, hours))
    return found


def _rows_by_code(labels: Labels) -> Iterator[tuple[int, NDArray[np.intp]]]:
    order = np.argsort(labels.codes, kind="stable")
    codes, first = np.unique(labels.codes[order], return_index=True)
    for code, rows in zip(codes.tolist(), np.split(order, first[1:]), strict=True):
        if code >= 0:
            yield code, rows


def _shared(found: list[SeenLimit], history: Happened, labels: Labels) -> Iterator[tuple[SeenLimit, int]]:
    """Join limits of the same size; each with the number of names that it was seen at."""
    for most, names in Counter(limit.most for limit in found).most_common():
        own = [limit for limit in found if limit.most == most]
        if names >= FEWEST_NAMES and _highest(history, labels, own[0].resource) <= most:
            yield SeenLimit(own[0].scope, "*", own[0].resource, most, sum(x.hours for x in own)), names
        else:
            yield from ((limit, 1) for limit in own)


def _highest(history: Happened, labels: Labels, resource: str) -> int:
    nobody = np.zeros(len(history), dtype=np.int64)
    return max(seen_limit(history, rows, resource, nobody)[0] for _, rows in _rows_by_code(labels))


def _finding(limit: SeenLimit, names: int) -> SiteFact:
    what = "GPUs" if limit.resource == "max_gpus" else "running jobs"
    who = f"each {limit.scope}" if limit.name == "*" else f"{limit.scope} {limit.name}"
    seen = f"{names} {limit.scope}s" if limit.name == "*" else "it"
    told = (
        f"{who} never had more than {limit.most} {what} at once; in {limit.hours} different hours jobs of {seen} "
        "waited at that number although the machine had room"
    )
    name = "" if limit.name == "*" else limit.name.replace("\\", "\\\\").replace('"', '\\"')
    lines = ("[[limit]]", f'scope = "{limit.scope}"', *([f'name = "{name}"'] if name else []))
    return SiteFact("limit", told, (*lines, f"{limit.resource} = {limit.most}"))
