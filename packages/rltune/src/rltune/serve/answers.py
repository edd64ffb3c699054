"""Why, when and what if, asked of the newest cycle: each is worked out once a cycle and kept for all who ask."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from rltune.explain import Explainer, Explanation
from rltune.forecast import Forecast, forecast
from rltune.live.present_of_slurm import present_of_cycle
from rltune.present import Present
from rltune.serve.sight import Watch
from rltune.whatif import WhatIf, parse_edit, what_if_now

ROLLS = 40
MOST_FORECAST = 2000  # waiting jobs, beyond which nobody is kept waiting for a forecast
WHAT_IF_ROLLS = 20


class Answers:
    """The core, asked about one cycle by one thread at a time."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._lock = threading.Lock()
        self._cycle = 0
        self._explainer: Explainer | None = None
        self._forecast: Forecast | None = None

    def explain(self, job: int, *, changes: bool) -> Explanation:
        """Explain a waiting job; InputError if it does not wait."""
        with self._lock:
            return self._newest().explain(str(job), changes=changes)

    def forecast(self) -> Forecast | None:
        """Return when the waiting jobs will start; None if they are too many to be rolled while somebody waits."""
        with self._lock:
            present = self._newest().present
            if len(present.waiting) > MOST_FORECAST:
                return None
            if self._forecast is None:
                self._forecast = forecast(present, rolls=ROLLS)
            return self._forecast

    def what_if(self, changes: Sequence[str]) -> WhatIf:
        """Roll the present queue with changes and without."""
        edits = [parse_edit(text) for text in changes]
        with self._lock:
            present = self._newest().present
        return what_if_now(present, edits, rolls=WHAT_IF_ROLLS)  # takes seconds: others may ask meanwhile

    def _newest(self) -> Explainer:
        newest = self._watch.newest()
        if self._explainer is None or self._cycle != newest:
            self._explainer, self._forecast, self._cycle = Explainer(self._present()), None, newest
        return self._explainer

    def _present(self) -> Present:
        with self._watch.journal() as journal:
            return present_of_cycle(journal)
