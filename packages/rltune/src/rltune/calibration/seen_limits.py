"""Limits that nobody wrote down: reached often, as good as never exceeded, though there was room.

A user who had room on the machine and did not start a job, again and again at the same number of GPUs or jobs and never
above, is limited there. At the most that somebody ever had, nobody starts by definition. So what counts is how often
the question arose (in different hours, with room on the machine), and how often a job of the same user started at once
when it had room and would not have gone above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rltune.calibration.finding import SiteFact
from rltune.calibration.free_room import FreeRoom
from rltune.calibration.history import Happened, Steps
from rltune.labels import Labels

FEWEST_HOURS = 10  # in which a job waited at the limit with room on the machine
STARTS_OTHERWISE = 0.5  # of the jobs that had room and stayed below: they started at once
AT_ONCE_S = 120.0
RARELY = 0.03  # of the time with jobs: above a number for so little is not above it
STAYS = 5.0  # times as long at a limit as above it: who is held at a number stays there
IN_VAIN = 0.8  # of the jobs with room that would have gone above: they did not start at once
NO_ROOM = -1
MOST_LIMITS = 20
FEWEST_NAMES = 2  # with one and the same limit, for it to be everybody's
SCOPES = ("user", "account", "qos")
RESOURCES = ("max_gpus", "max_running")


@dataclass(frozen=True)
class SeenLimit:
    """A limit of one user, account or QOS; of several names it is everybody's."""

    scope: str
    names: tuple[str, ...]  # at which it was seen
    resource: str
    most: int
    hours: int  # in which a job waited at it with room on the machine


def find_limits(history: Happened, free: FreeRoom) -> tuple[list[SiteFact], NDArray[np.bool_]]:
    """Find limits of users, accounts and QOS, and say whom they held; one that several share is everybody's.

    A user's limit shows in the account as well, and an account's in its users. So the limit that most speaks for is
    taken first, and whom it held is no evidence of another.
    """
    room = free.before(history.ready_s)
    found: list[SiteFact] = []
    held = np.zeros(len(history), dtype=np.bool_)
    for _ in range(MOST_LIMITS):
        left = np.where(held, NO_ROOM, room)
        seen = [limit for scope in SCOPES for limit in _of_scope(history, scope, left)]
        if not seen:
            break
        best = max(seen, key=lambda limit: limit.hours)
        found.append(_finding(best))
        held |= _held(history, best)
    return found, held


def _held(history: Happened, limit: SeenLimit) -> NDArray[np.bool_]:
    """Return which jobs would have gone above a limit at one of some moments of their wait."""
    held = np.zeros(len(history), dtype=np.bool_)
    labels: Labels = getattr(history.jobs, limit.scope)
    for code, rows in _rows_by_code(labels):
        if labels.names[code] in limit.names:
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
    """Return the most these jobs usually had at once, the hours in which more was asked in vain, and who else started.

    That is the share, of the jobs with room that would not have gone above and had none of their own before them, of
    those that started at once. If more was not nearly always asked in vain, it is no limit: then the most ever is told.
    """
    amount = _amount(history, rows, resource)
    start, ready = history.start_s[rows], history.ready_s[rows]
    held = Steps.of(start, history.end_s[rows], amount)
    fits = room[rows] >= history.size[rows]
    late = start - ready > AT_ONCE_S
    wanted = held.before(ready) + amount
    most = _usual_most(held)
    asked = fits & (wanted > most)
    if asked.any() and float(late[asked].mean()) < IN_VAIN:
        most = int(held.value.max(initial=0))
        asked = fits & (wanted > most)
    first = Steps.of(ready, start, np.ones(len(rows), dtype=np.int64)).before(ready) == 0  # who waits behind its own?
    below = fits & (wanted <= most) & first
    hours = len(np.unique(ready[asked & late] // 3600))
    return most, hours, float((~late[below]).mean()) if below.any() else 0.0


def _usual_most(held: Steps) -> int:
    """Return the most that was had at once, without moments that requeued jobs and clocks make up.

    The run time of a requeued job is told as a whole, from its first start, and a change of clocks moves an hour.
    """
    lasting = np.diff(held.time_s, append=held.time_s[-1:])
    order = np.argsort(-held.value, kind="stable")
    busy = float(lasting[held.value > 0].sum())
    enough = int(np.searchsorted(np.cumsum(lasting[order]), RARELY * busy, "right"))
    most = int(held.value[order][min(enough, len(order) - 1)])
    above, there = (float(lasting[which].sum()) for which in (held.value > most, held.value == most))
    return most if there >= STAYS * above else int(held.value.max(initial=0))


def _of_scope(history: Happened, scope: str, room: NDArray[np.int64]) -> Iterator[SeenLimit]:
    """Yield the limits that some of a scope show, by GPUs or by jobs, whichever more speaks for."""
    labels: Labels = getattr(history.jobs, scope)
    both = [list(_of_resource(history, labels, scope, resource, room)) for resource in RESOURCES]
    yield from _shared(max(both, key=lambda s: sum(limit.hours for limit in s)), history, labels)


def _of_resource(
    history: Happened, labels: Labels, scope: str, resource: str, room: NDArray[np.int64]
) -> Iterator[SeenLimit]:
    for code, rows in _rows_by_code(labels):
        if len(rows) < FEWEST_HOURS:
            continue
        most, hours, otherwise = seen_limit(history, rows, resource, room)
        if hours >= FEWEST_HOURS and otherwise >= STARTS_OTHERWISE:
            yield SeenLimit(scope, (labels.names[code],), resource, most, hours)


def _rows_by_code(labels: Labels) -> Iterator[tuple[int, NDArray[np.intp]]]:
    order = np.argsort(labels.codes, kind="stable")
    codes, first = np.unique(labels.codes[order], return_index=True)
    for code, rows in zip(codes.tolist(), np.split(order, first[1:]), strict=True):
        if code >= 0:
            yield code, rows


def _shared(found: list[SeenLimit], history: Happened, labels: Labels) -> Iterator[SeenLimit]:
    """Join limits of the same size, if nobody goes above: it is everybody's."""
    for most, names in Counter(limit.most for limit in found).most_common():
        own = [limit for limit in found if limit.most == most]
        if names >= FEWEST_NAMES and _highest(history, labels, own[0].resource) <= most:
            hours = sum(limit.hours for limit in own)
            yield replace(own[0], names=tuple(n for limit in own for n in limit.names), hours=hours)
        else:
            yield from own


def _highest(history: Happened, labels: Labels, resource: str) -> int:
    nobody = np.zeros(len(history), dtype=np.int64)
    return max(seen_limit(history, rows, resource, nobody)[0] for _, rows in _rows_by_code(labels))


def _finding(limit: SeenLimit) -> SiteFact:
    what = "GPUs" if limit.resource == "max_gpus" else "running jobs"
    everybody = len(limit.names) > 1
    who = f"each {limit.scope}" if everybody else f"{limit.scope} {limit.names[0]}"
    seen = f"{len(limit.names)} {limit.scope}s" if everybody else "it"
    told = (
        f"{who} never had more than {limit.most} {what} at once for long; in {limit.hours} different hours jobs of "
        f"{seen} waited at that number although the machine had room"
    )
    name = "" if everybody else limit.names[0].replace("\\", "\\\\").replace('"', '\\"')
    lines = ("[[limit]]", f'scope = "{limit.scope}"', *([f'name = "{name}"'] if name else []))
    return SiteFact("limit", told, (*lines, f"{limit.resource} = {limit.most}"))
