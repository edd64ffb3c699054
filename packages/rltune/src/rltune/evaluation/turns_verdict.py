"""What taking turns came to, by share and by cost, and what an operator should conclude."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rltune.evaluation.who_pays_for_turns import DISPLACED, JOBS, Payers
from rltune.text import counted, percent, seconds

if TYPE_CHECKING:
    from rltune.evaluation.consent import Consent
    from rltune.trials.intervals import Interval

_ENOUGH = 10  # windows that share no job, for an interval to say something
_PROMISING = 0.9
_TOO_LITTLE = "Too little history to tell"


@dataclass(frozen=True)
class ConsentWorth:
    """What taking turns came to with one consent, over the windows of the test part."""

    consent: Consent
    delay_s: float
    ratio: Interval  # of the mean delay to that without turns
    p99_ratio: Interval
    preemptions: float  # a job
    lost_share: float  # of GPU time
    payers: Payers

    @property
    def displaced_share(self) -> float:
        """Return which share of the jobs was displaced at least once."""
        everybody = self.payers.by_group[""]
        return float(everybody[DISPLACED] / everybody[JOBS])

    @property
    def shown(self) -> bool:
        """Return whether it is shown to be better than no turns."""
        return self.ratio.high < 1

    @property
    def worse(self) -> bool:
        """Return whether it is shown to be worse."""
        return self.ratio.low > 1


@dataclass(frozen=True)
class TurnsWorth:
    """All of it: the two sides, and what each consent came to."""

    without: str  # the pipeline that was chosen without turns
    turns: str  # and with
    estimator: str
    without_delay_s: float
    windows: int
    disjoint: int
    size: int
    cells: tuple[ConsentWorth, ...]
    among: int  # pipelines that the two were chosen among

    @property
    def verdict(self) -> str:
        """Return in a few sentences what an operator should conclude, and that it rests on few windows if so."""
        return f"{self._conclusion}{self._few_windows}"

    @property
    def _few_windows(self) -> str:
        """Return a warning where windows are too few for the interval to say much; the verdict may have it already."""
        if self.disjoint >= _ENOUGH or self._conclusion.startswith(_TOO_LITTLE):
            return ""
        only = f"Only {counted(self.disjoint, 'window')} that share no job stand behind this"
        return f" {only}: with fewer than {_ENOUGH} the interval says little."

    @property
    def _conclusion(self) -> str:
        usual = [cell for cell in self.cells if cell.consent.restart_s == self._usual_restart_s]
        paying = [cell for cell in usual if cell.shown]
        best = min(usual, key=lambda cell: cell.ratio.estimate)
        if not paying:
            return self._nothing_shown(best, worse=any(cell.worse for cell in usual))
        least = paying[0]
        return (
            f"With {percent(least.consent.share)} of the jobs willing to give way the mean delay is {_of(least.ratio)} "
            f"of the best without turns; with {percent(best.consent.share)} it is {_of(best.ratio)}. "
            f"Restarts of {seconds(best.consent.restart_s)} and checkpoints every "
            f"{seconds(best.consent.checkpoint_s)} are assumed; {percent(best.lost_share)} of GPU time goes into them."
        )

    def _nothing_shown(self, best: ConsentWorth, *, worse: bool) -> str:
        if worse:
            return "Taking turns is shown to make things worse here. Stay without."
        if self.disjoint < _ENOUGH and best.ratio.estimate < _PROMISING:
            return (
                f"{_TOO_LITTLE}: over {counted(self.disjoint, 'window')} the mean delay is {_of(best.ratio)} of the "
                f"best without turns. {_ENOUGH} windows that share no job are needed, so about "
                f"{_ENOUGH / max(self.disjoint, 1):.0f} times this history, or smaller windows."
            )
        return "Taking turns is not shown to be worth anything here. Stay without."

    @property
    def _usual_restart_s(self) -> float:
        """Return the middle of the restart costs that were tried."""
        tried = sorted({cell.consent.restart_s for cell in self.cells})
        return tried[len(tried) // 2]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; what cannot be told is None."""
        from rltune.metrics.formats import plain

        cells = [
            {
                **asdict(cell.consent),
                "delay_s": cell.delay_s,
                "ratio": asdict(cell.ratio),
                "p99_ratio": asdict(cell.p99_ratio),
                "preemptions_a_job": cell.preemptions,
                "lost_share": cell.lost_share,
            }
            for cell in self.cells
        ]
        facts = {name: value for name, value in self.__dict__.items() if name != "cells"}
        values: dict[str, Any] = plain({**facts, "verdict": self.verdict, "cells": cells})
        return values


def _of(value: Interval) -> str:
    return f"{value.estimate:.2f} {value.ends('{:.2f}'.format)}"
