"""Futures that were drawn at one moment, kept so that they can be told at a later one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np

from rltune.forecast.rolls import FutureRoller, as_the_order_stays, summed_up
from rltune.forecast.start_forecast import Forecast, StartCalibration
from rltune.jobs import Floats
from rltune.parallel import Threads
from rltune.present.present import Present

_AT_A_TIME = 4  # rolls, between two questions whether there is time for more


@dataclass(frozen=True)
class DrawnFutures:
    """The starts of each roll of a present."""

    roller: FutureRoller = field(repr=False)
    starts: Floats = field(repr=False)  # [roll, row]

    @classmethod
    def draw(
        cls, present: Present, most: int, go_on: Callable[[DrawnFutures], bool] = lambda _: True, *, workers: int = 2
    ) -> DrawnFutures:
        """Roll a present forward up to so many times; `go_on` is given those there are, and may have enough."""
        roller = FutureRoller(present).prepare()
        made: list[Floats] = []
        with Threads(workers) as threads:
            while True:
                made += threads.map(roller.one, range(len(made), min(len(made) + _AT_A_TIME, most)))
                drawn = cls(roller, as_the_order_stays(roller, np.array(made)))
                if len(made) >= most or not go_on(drawn):
                    return drawn

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def now_s(self) -> float:
        """Return when they were drawn."""
        return self.roller.present.now_s

    def knows(self, job: str) -> bool:
        """Return whether a job waited when they were drawn."""
        return job in self.roller.present.waiting_rows

    def forecast(self) -> Forecast:
        """Return the forecast as it was when they were drawn."""
        return summed_up(self.roller, self.starts, StartCalibration())

    def as_of(self, now_s: float, waiting: Collection[str]) -> Forecast:
        """Return what they tell at a later time, of those who still wait: see `summed_up`."""
        return summed_up(self.roller, self.starts, StartCalibration(), now_s, frozenset(waiting))
