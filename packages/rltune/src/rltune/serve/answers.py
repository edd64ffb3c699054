"""Why, when and what if, asked of the newest cycle: each is worked out once a cycle and kept for all who ask."""

from __future__ import annotations

import contextlib
import copy
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

from rltune.errors import InputError
from rltune.explain import Explainer, Explanation
from rltune.forecast import Forecast, forecast
from rltune.live.see.snapshot import LiveJob
from rltune.present import Why
from rltune.serve.sight import Watch
from rltune.serve.tokens import Caller
from rltune.serve.visible import without_jobs
from rltune.whatif import WhatIf, parse_edit, what_if_now

ROLLS = 40
MOST_FORECAST = 20_000  # waiting jobs, beyond which there is no forecast here
MOST_AT_ONCE = 300  # and up to which a page has one made that it could do without,
PATIENCE_S = 2.0  # and waits for it
KEPT_S = 6 * 3600.0  # by the cluster's clock, for which pages show one that was made, and say when
WHAT_IF_ROLLS = 20
AT_ONCE = 4  # questions to the core; more wait without holding a thread that pages need
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
        self._forecast: Forecast | None = None
        self._forecasting = threading.Lock()  # apart: it takes seconds, and others ask why meanwhile
        self._asked = CapacityLimiter(AT_ONCE)

    async def aside(self, ask: Callable[[], T]) -> T:
        """Ask beside the threads that render pages, so that nobody waits for a page behind a long question."""
        return await to_thread.run_sync(ask, limiter=self._asked)

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

    def forecast(self) -> Forecast | None:
        """Return when the waiting jobs of the newest cycle will start; None if they are too many to be rolled."""
        with self._forecasting:
            return self._made_forecast()

    def forecast_at_hand(self) -> Forecast | None:
        """Return a forecast that is not too old; if few jobs wait, one is made, and waited for a moment.

        A page can do without, so that it does not wait for one that takes long.
        """
        if self.would_make_one:
            making = threading.Thread(target=self._forecast_if_it_can_be, daemon=True)
            making.start()
            making.join(PATIENCE_S)
        return self._forecast if self._is_newer(self._watch.sight().taken_s - KEPT_S) else None

    @property
    def would_make_one(self) -> bool:
        """Return whether a page that asks for a forecast has one made, and waits."""
        sight = self._watch.sight()
        few = sight.cycle.waiting <= MOST_AT_ONCE
        return few and not self.is_forecasting and not self._is_newer(sight.taken_s - KEPT_S)

    @property
    def newest_forecast(self) -> Forecast | None:
        """Return the forecast that was made last, however old."""
        return self._forecast

    def _is_newer(self, time_s: float) -> bool:
        return self._forecast is not None and self._forecast.now_s >= time_s

    def _forecast_if_it_can_be(self) -> None:
        with contextlib.suppress(InputError):  # a cycle that cannot be explained has no forecast either
            self.forecast()

    @property
    def is_forecasting(self) -> bool:
        """Return whether a forecast is being made."""
        return self._forecasting.locked()

    def _made_forecast(self) -> Forecast | None:
        with self._lock:
            present = self._newest().present
        if len(present.waiting) > MOST_FORECAST:
            return None
        if self._forecast is None or self._forecast.now_s != present.now_s:
            self._forecast = forecast(present, rolls=ROLLS)
        return self._forecast

    def what_if(self, changes: Sequence[str], progress: Callable[[int, int], None] | None = None) -> WhatIf:
        """Roll the present queue with changes and without."""
        edits = [parse_edit(text) for text in changes]
        with self._lock:
            present = self._newest().present
        return what_if_now(
            present, edits, rolls=WHAT_IF_ROLLS, progress=progress
        )  # takes seconds: others may ask meanwhile

    def _newest(self) -> Explainer:
        sight = self._watch.sight()
        if sight.explained.explainer is None:
            raise InputError(f"this cycle cannot be explained: {sight.explained.why_not}")
        if self._cycle != sight.cycle.id:
            self._cycle = sight.cycle.id
            self._explained.clear()
        return sight.explained.explainer

    def _others(self, caller: Caller) -> frozenset[str]:
        jobs = self._watch.sight().snapshot.jobs
        return frozenset(job.command_name for job in jobs if not caller.may_see(job.user))


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
