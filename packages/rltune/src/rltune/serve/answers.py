"""Why, when and what if, asked of the newest cycle: each is worked out once a cycle and kept for all who ask."""

from __future__ import annotations

import contextlib
import copy
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

from rltune.errors import InputError
from rltune.explain import Explainer, Explanation
from rltune.forecast import Forecast
from rltune.forecast.drawn_futures import DrawnFutures
from rltune.live.see.snapshot import LiveJob
from rltune.present import Present, Why
from rltune.serve.kept_forecast import KeptForecast, Publish
from rltune.serve.sight import Sight, Watch
from rltune.serve.tokens import Caller
from rltune.serve.visible import without_jobs
from rltune.whatif import WhatIf, parse_edit, what_if_now

ROLLS = 40
FEWEST_ROLLS = 12  # whatever the time: fewer have no p10 and p90
DRAWING_S = 4.0  # after which fewer rolls will do: a busy machine must not be late
MOST_FORECAST = 20_000  # waiting jobs, beyond which there is no forecast here
MOST_AT_ONCE = 300  # and up to which a page has one made that it could do without,
PATIENCE_S = 2.0  # and waits for it
ASKED_PATIENCE_S = 20.0  # of programs, which ask for nothing else
KEPT_S = 6 * 3600.0  # by the cluster's clock, for which pages show one that was made, and say when
WHAT_IF_ROLLS = 20
AT_ONCE = 4  # questions to the core; more wait without holding a thread that pages need
MOST_PATIENT = 40  # who wait for futures that are being drawn
_KEPT = 500  # explanations of one cycle
_HIDDEN = "of another user"
_NAMED = re.compile(rf"(?<!first )\bjob (?={_HIDDEN})")
T = TypeVar("T")


class Answers:
    """The core, asked about one cycle by one thread at a time."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._lock = threading.Lock()
        self._cycle = 0
        self._explained: OrderedDict[tuple[str, str, bool], Explanation] = OrderedDict()
        self._futures = KeptForecast(self._draw)
        self._told: tuple[float, int, Forecast] | None = None  # the newest forecast: when drawn, for which cycle
        self._asked, self._patient = CapacityLimiter(AT_ONCE), CapacityLimiter(MOST_PATIENT)

    async def aside(self, ask: Callable[[], T]) -> T:
        """Ask beside the threads that render pages, so that nobody waits for a page behind a long question."""
        return await to_thread.run_sync(ask, limiter=self._asked)

    async def forecast_aside(self, job: str) -> Forecast | None:
        """Ask for a forecast beside all others: who waits for one keeps nobody from the core."""
        return await to_thread.run_sync(self.forecast, job, limiter=self._patient)

    def explain(self, job: LiveJob, caller: Caller, *, changes: bool) -> Explanation:
        """Explain a waiting job; InputError if it does not wait. Who sees one user's jobs is told of no others."""
        name = job.command_name
        with self._lock:
            explainer = self._newest()
            key = (name, caller.user, changes)
            if key not in self._explained:
                seen_by = _blinded(explainer, self._others(caller)) if caller.user else explainer
                told = seen_by.explain(name, changes=changes)
                self._explained[key] = _without_others(told) if caller.user else told
                if len(self._explained) > _KEPT:
                    self._explained.popitem(last=False)
            return self._explained[key]

    def forecast(self, job: str = "", patience_s: float = ASKED_PATIENCE_S) -> Forecast | None:
        """Return when the waiting jobs will start, as of the newest cycle; None if they are too many to be rolled.

        Futures that were drawn a moment ago will do, unless `job` came since then. Where there are older ones, newer
        ones are not waited for long. Where there are none, the first few will do when patience ends; else TimeoutError.
        """
        for _ in range(2):  # those that are being drawn may be too old for a job, the next are not
            at_hand = self._knows(job)
            if at_hand and self._is_new():
                break
            try:
                if self._futures.drawn(min(patience_s, PATIENCE_S) if at_hand else patience_s) is None:
                    return None
            except TimeoutError:
                if not self._knows(job):
                    raise
                break
        return self._as_of_now()

    def _knows(self, job: str) -> bool:
        """Return whether futures are at hand that are not too old, and in which a job waits if it does now."""
        newest, present = self._futures.newest, self._present()
        if newest is None or newest.now_s < present.now_s - KEPT_S:
            return False
        return newest.knows(job) or job not in present.waiting_rows

    def _is_new(self) -> bool:
        """Return whether the newest futures are of this cycle, or were drawn so lately that they will do."""
        newest = self._futures.newest
        return newest is not None and (newest.now_s == self._present().now_s or self._futures.rests)

    def new_forecast(self) -> Forecast | None:
        """Return a forecast that is drawn for it, of the time of the drawing; None if too many jobs wait."""
        made = self._futures.drawn()
        return None if made is None else made.forecast()

    def forecast_at_hand(self) -> Forecast | None:
        """Return a forecast from futures that are not too old; if few jobs wait, some are drawn, with little patience.

        A page can do without, so that it does not wait for one that takes long.
        """
        if self.would_make_one:
            with contextlib.suppress(TimeoutError, InputError):  # a cycle that cannot be explained has no forecast
                self._futures.drawn(PATIENCE_S)
        return self._as_of_now() if self._is_newer(self._watch.sight().taken_s - KEPT_S) else None

    @property
    def would_make_one(self) -> bool:
        """Return whether a page that asks for a forecast has one made, and waits."""
        sight = self._watch.sight()
        few = sight.cycle.waiting <= MOST_AT_ONCE
        return few and not self.is_forecasting and not self._is_newer(sight.taken_s - KEPT_S)

    def _is_newer(self, time_s: float) -> bool:
        return self._futures.newest is not None and self._futures.newest.now_s >= time_s

    @property
    def is_forecasting(self) -> bool:
        """Return whether futures are being drawn."""
        return self._futures.is_drawing

    def _as_of_now(self) -> Forecast | None:
        """Tell the newest futures for the newest cycle, in which some of them can no longer come."""
        newest, sight = self._futures.newest, self._watch.sight()
        if newest is None or sight.explained.explainer is None:
            return None
        if self._told is None or self._told[:2] != (newest.now_s, sight.cycle.id):
            present = sight.explained.explainer.present
            self._told = (newest.now_s, sight.cycle.id, newest.as_of(present.now_s, present.waiting_names))
        return self._told[2]

    def _draw(self, publish: Publish) -> DrawnFutures | None:
        """Draw futures of the newest cycle: all that are wanted, or as many as there is time for."""
        present, began = self._present(), time.monotonic()
        if len(present.waiting) > MOST_FORECAST:
            return None

        def go_on(made: DrawnFutures) -> bool:
            publish(made)
            return len(made) < FEWEST_ROLLS or time.monotonic() - began < DRAWING_S

        return DrawnFutures.draw(present, ROLLS, go_on)

    def _present(self) -> Present:
        """Return the newest cycle's moment; nobody waits for a question that is being answered."""
        return _explainer(self._watch.sight()).present

    def what_if(self, changes: Sequence[str], progress: Callable[[int, int], None] | None = None) -> WhatIf:
        """Roll the present queue with changes and without."""
        edits = [parse_edit(text) for text in changes]
        return what_if_now(self._present(), edits, rolls=WHAT_IF_ROLLS, progress=progress)

    def _newest(self) -> Explainer:
        sight = self._watch.sight()
        explainer = _explainer(sight)
        if self._cycle != sight.cycle.id:
            self._cycle = sight.cycle.id
            self._explained.clear()
        return explainer

    def _others(self, caller: Caller) -> frozenset[str]:
        jobs = self._watch.sight().snapshot.jobs
        return frozenset(job.command_name for job in jobs if not caller.may_see(job.user))


def _explainer(sight: Sight) -> Explainer:
    if sight.explained.explainer is None:
        raise InputError(f"this cycle cannot be explained: {sight.explained.why_not}")
    return sight.explained.explainer


def _blinded(explainer: Explainer, others: frozenset[str]) -> Explainer:
    """Return the same pass, in which other people's jobs have no names."""
    made = copy.copy(explainer)
    names = tuple(_HIDDEN if name in others else name for name in explainer.present.names)
    made.present = replace(explainer.present, names=names)
    return made


def _without_others(told: Explanation) -> Explanation:
    """Leave out who is before and who overtook, and write "a job of another user" where one is meant."""

    def said(text: str) -> str:
        return without_jobs(text) if told.reason.why is Why.DEPENDENCY else _NAMED.sub("a job ", text)

    def plain(evidence: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in evidence.items() if isinstance(value, int | float)}

    reasons = [replace(r, text=said(r.text), evidence=plain(r.evidence)) for r in (told.reason, *told.others)]
    return replace(
        told,
        reason=reasons[0],
        others=tuple(reasons[1:]),
        next_step=said(told.next_step),
        earliest_by="",
        ahead=(),
        overtaken_by=(),
    )
