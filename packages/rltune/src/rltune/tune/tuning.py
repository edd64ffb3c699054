"""A tuning: what was chosen, on what, and how it did on the part of the history that chose nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.trials.intervals import Interval
from rltune.trials.shares import Share, SmallGroup
from rltune.tune.advice import TO_CHANGE, Advice
from rltune.tune.past_events import WithoutPast
from rltune.tune.starving import StarvingCandidate, starving
from rltune.tune.stretches import HistoryStretch
from rltune.tune.tried_pipelines import Candidate

if TYPE_CHECKING:
    from rltune.jobs import Jobs
    from rltune.metrics.recorded import RecordedWait
    from rltune.model.learned_model import Model

FEWEST_JOBS = 2_000


@dataclass(frozen=True)
class Tuning:
    """What was chosen, on what, and how it did on the part of the history that chose nothing."""

    answer: Advice
    now: Candidate
    chosen: Candidate  # taken on the middle part; what there is now if nothing is better
    metric: str
    jobs: int
    parts: tuple[HistoryStretch, HistoryStretch, HistoryStretch]  # learn, choose, test
    run_on: tuple[HistoryStretch, HistoryStretch]  # of the last two: the newest jobs that the budget had room for
    finalists: tuple[tuple[Candidate, float], ...]  # with the metric on the middle part, best score first
    tried: int
    choosing: Interval  # chosen / now on the middle part
    testing: Interval  # the same on the last part
    together: Interval  # the same on both
    apart: Interval  # chosen - now on the last part
    values: tuple[float, float]  # now, chosen: the metric on the last part
    decided: tuple[tuple[str, float], ...]  # part, how much worse without it on the middle part; none if all stays
    shares: tuple[Share, ...]  # who wins and loses on the last part; none if all stays
    needed_jobs: int  # of history, to tell
    rejected: int  # jobs of the last part that never ran
    resumed: bool  # began with what was recorded to run and wait
    minutes: float
    seed: int
    notes: tuple[str, ...]
    learnt: dict[str, Model] = field(default_factory=dict)  # that the first part taught, by the names of their policies
    recorded: RecordedWait | None = None  # of the last part, beside a replay of what there is now
    scores: tuple[float, ...] = ()  # of the finalists: half the metric, half the same by blocks; 1 is what there is now
    without_past: WithoutPast | None = None  # None: nothing was down in these parts, or all stays
    usable_for: str = ""  # what the cluster's file says that its replays are good for; "" = not told
    believed: bool = True  # unless the cluster's file says that its replays are good for nothing
    small: tuple[SmallGroup, ...] = ()  # of the last part, that have too few jobs for a share; none if all stays
    set_aside: tuple[StarvingCandidate, ...] = ()  # who would have been chosen before it, had nobody starved by them

    @property
    def recommended(self) -> Candidate:
        """Return what to run."""
        return self.chosen if self.answer in TO_CHANGE else self.now

    @property
    def recommended_model(self) -> Model | None:
        """Return the model to run, if it was taught here."""
        return self.learnt.get(self.recommended.pipeline.policy.name)

    @property
    def borne_out(self) -> bool:
        """Return whether the last part agrees with the middle one in direction."""
        return bool(self.testing.estimate < 1)

    @property
    def unasked(self) -> bool:
        """Return whether something is to be changed by replays of which nobody asked whether they can be believed."""
        known = self.recorded is None or not self.recorded.recorded_s.n or self.recorded.calibrated
        return not known and self.answer in TO_CHANGE

    @property
    def starving(self) -> tuple[Share, ...]:
        """Return who starves by the change on the last part, the worst first."""
        return starving(self.shares)

    def __repr__(self) -> str:
        from rltune.tune.tuning_text import sentences

        return "\n".join(["Tuning:", *(f"  {told}" for told in sentences(self))])

    def to_dict(self) -> dict[str, Any]:
        """Return all as plain values."""
        from rltune.tune.tuning_text import as_values

        return as_values(self)


def too_little(
    today: Candidate,
    metric: str,
    jobs: Jobs,
    parts: tuple[HistoryStretch, HistoryStretch, HistoryStretch],
    minutes: float,
    seed: int,
) -> Tuning:
    """Return that a history is too short to try anything."""
    nothing = Interval(np.nan, np.nan, np.nan)
    return Tuning(
        answer=Advice.TOO_LITTLE,
        now=today,
        chosen=today,
        metric=metric,
        jobs=len(jobs),
        parts=parts,
        run_on=parts[1:],
        finalists=(),
        tried=0,
        choosing=nothing,
        testing=nothing,
        together=nothing,
        apart=nothing,
        values=(np.nan, np.nan),
        decided=(),
        shares=(),
        needed_jobs=FEWEST_JOBS,
        rejected=0,
        resumed=False,
        minutes=minutes,
        seed=seed,
        notes=(),
    )
