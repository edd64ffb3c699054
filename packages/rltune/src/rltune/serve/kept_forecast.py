"""The newest futures that were drawn, for all who ask when jobs start."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from rltune.forecast.drawn_futures import DrawnFutures

Publish = Callable[[DrawnFutures], None]

REST = 2.0  # times as long as drawing took: until then what was drawn will do, and the machine has more to do


class KeptForecast:
    """One thread draws at a time, and whoever asks meanwhile gets what it draws.

    If everybody had futures of the newest cycle drawn for themselves, each would wait for all who asked before.
    """

    def __init__(
        self, draw: Callable[[Publish], DrawnFutures | None], timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._draw, self._timer = draw, timer
        self._lock = threading.Lock()
        self._drawing: Future[DrawnFutures | None] | None = None
        self._rests_until = 0.0
        self.newest: DrawnFutures | None = None
        self._is_first = False  # the newest are some of those that are being drawn for the first time

    @property
    def is_drawing(self) -> bool:
        """Return whether futures are being drawn."""
        return self._drawing is not None

    @property
    def rests(self) -> bool:
        """Return whether some were drawn so lately that there is no hurry for others."""
        return self._timer() < self._rests_until

    def drawn(self, patience_s: float | None = None) -> DrawnFutures | None:
        """Have futures drawn, or wait for those that are being drawn; `TimeoutError` where that takes too long.

        None: there are too many jobs.
        """
        with self._lock:
            if self._drawing is None:
                self._drawing = Future()
                threading.Thread(target=self._make, args=(self._drawing,), name="futures", daemon=True).start()
            drawing = self._drawing
        return drawing.result(patience_s)

    def _publish_first(self, made: DrawnFutures) -> None:
        """Let who is out of patience have the first few futures, where there are no others."""
        if self.newest is None or self._is_first:
            self.newest, self._is_first = made, True

    def _make(self, told: Future[DrawnFutures | None]) -> None:
        began = self._timer()
        made, failed = None, None
        try:
            made = self._draw(self._publish_first)
        except BaseException as error:  # noqa: BLE001  whoever waits is told, in their own threads
            failed = error
        with self._lock:
            self.newest, self._is_first = made or self.newest, False
            self._rests_until = self._timer() + REST * (self._timer() - began)
            self._drawing = None
        if failed is None:
            told.set_result(made)
        else:
            told.set_exception(failed)
