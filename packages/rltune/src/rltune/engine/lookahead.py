"""Passes that leave compiled code: for a search over orders, and for the look-ahead solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rltune.engine.search import Search, Searcher
from rltune.kernel.backfill.scheduling_pass import make_pass
from rltune.kernel.state import arrays as core
from rltune.kernel.state.handles import Arrays
from rltune.placement.look_ahead import INF, LookAhead
from rltune.placement.placers import Placer


class PassMaker:
    """Makes one pass at a time on the arrays of a run, and counts what it did."""

    def __init__(
        self,
        arrays: Arrays,
        options: core.Options,
        placer: Placer,
        search: Search | None = None,
        seed: int = 0,
        *,
        solver_s: float = INF,
        given_up: tuple[int, ...] = (),
        timer: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._arrays, self._options = arrays, options
        self._searcher = Searcher(arrays, options, search, seed, timer=timer) if search else None
        clock: dict[str, Any] = {"seconds": solver_s, "given_up": given_up, "timer": timer}
        self._ahead = LookAhead(arrays, options, placer.k, **clock) if placer.solves else None

    def make_pass(self) -> None:
        """Search for an order if that is wanted, then decide."""
        options = self._searcher.look() if self._searcher else self._options
        if self._ahead:
            self._ahead.make_pass(options)
        else:
            make_pass(self._arrays.w, self._arrays.s, options)

    def to_dict(self) -> dict[str, Any]:
        """Return what search and solver did."""
        searched = self._searcher.to_dict() if self._searcher else {}
        solved = self._ahead.to_dict() if self._ahead else {}
        return {**searched, **solved}
