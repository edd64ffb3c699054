"""What history knows at the start of each window, learnt along the trace once and not once a window."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.engine.pipeline import learns
from rltune.estimate import (
    LEVELS,
    Estimates,
    Estimator,
    Given,
    History,
    Levels,
    Noisy,
    estimated,
    get_estimator,
    likeness,
)
from rltune.estimate.blended import Blend
from rltune.estimate.predicted import Predicted, PredictionCourse
from rltune.kernel.build.prepare import Likeness
from rltune.kernel.state.online_means import learn_all
from rltune.policy.qssf import LEVELS as QSSF_LEVELS
from rltune.policy.qssf import Qssf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.jobs import Jobs
    from rltune.trials.resumption import Resumption


@dataclass(frozen=True)
class Recalled(History):
    """History that knows what `History().after(...)` would have learnt."""

    known: Likeness | None = field(default=None, repr=False, compare=False)

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:  # noqa: ARG002
        """Leave the estimates to the run, which begins with what is known."""
        return Estimates(np.zeros(len(jobs)), self.known)


@dataclass(frozen=True)
class RecalledPrediction:
    """What `Predicted().after(...)` would predict, from what was learnt along the trace."""

    name: str
    course: PredictionCourse = field(repr=False)
    first: int
    rows: NDArray[np.int64] = field(repr=False)
    order_by: float | None = None

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:  # noqa: ARG002
        """Predict the rows as of the first."""
        return self.course.estimates(self.first, self.rows, self.order_by)


@dataclass(frozen=True)
class RecalledQssf(Qssf):
    """QSSF that knows what `Qssf().after(...)` would have learnt."""

    known: Likeness | None = field(default=None, repr=False, compare=False)

    def likeness(self, jobs: Jobs) -> Likeness:  # noqa: ARG002
        """Begin with what is known."""
        assert self.known is not None
        return self.known


@dataclass(frozen=True)
class MadeEstimates:
    """Estimates of one window that were made once, for all pipelines."""

    name: str
    estimates: Estimates = field(repr=False)

    def estimate(self, jobs: Jobs, seed: int) -> Estimates:  # noqa: ARG002
        """Return them again."""
        return self.estimates


class Memory:
    """What had ended before a row, by likeness. Windows in ascending order cost one pass over the trace in all."""

    def __init__(self, jobs: Jobs, levels: Levels, trust: float, decay: float = 1.0) -> None:
        whole = likeness(jobs, levels, trust=trust, decay=decay)
        self._jobs, self._keys = jobs, whole.keys
        self._trust, self._decay = trust, decay
        start = np.where(np.isnan(jobs.recorded_start_s), jobs.submit_s, jobs.recorded_start_s)
        end = np.maximum(start + jobs.duration_s, jobs.submit_s)
        self._order = np.argsort(end, kind="stable")
        self._end = end[self._order]
        self._known = np.zeros((whole.n_keys, 2))
        self._learnt = 0

    def at(self, first: int, rows: slice | NDArray[np.int64]) -> Likeness:
        """Return the likeness of the jobs of some rows, with what had ended when row `first` was submitted."""
        self._learn_before(first)
        keys = self._keys[rows]
        used, compact = np.unique(keys, return_inverse=True)
        lacking = int(used[0] < 0)  # the key -1, of jobs without a label, stays -1
        renamed = np.ascontiguousarray(compact.reshape(keys.shape) - lacking, dtype=np.int32)
        return Likeness(renamed, len(used) - lacking, self._trust, self._decay, self._known[used[lacking:]])

    def _learn_before(self, first: int) -> None:
        upto = int(np.searchsorted(self._end, self._jobs.submit_s[first], side="right"))
        while upto > 0 and self._order[upto - 1] >= first:
            upto -= 1
        if upto < self._learnt:
            self._known[:] = 0.0
            self._learnt = 0
        rows = self._order[self._learnt : upto]
        learn_all(self._keys[rows], self._jobs.duration_s[rows], self._decay, self._known)
        self._learnt = upto


class Knowledge:
    """What estimators and policies that learn know in each window of a trace: all that had ended before it."""

    def __init__(self, jobs: Jobs, seed: int) -> None:
        self._jobs, self._seed = jobs, seed
        self._memories: dict[Any, Memory] = {}
        self._drawn: dict[str, Any] = {}
        self._courses: dict[tuple[bool, int], PredictionCourse] = {}

    def estimator(self, given: Any, first: int, count: int, *, warm: bool = True) -> Estimator:
        """Return the estimator for a window; if it is not warm, one that knows nothing of what came before."""
        return self._estimator(given, first, slice(first, first + count), warm=warm)

    def _estimator(self, given: Any, first: int, rows: slice | NDArray[np.int64], *, warm: bool) -> Estimator:
        if isinstance(given, np.ndarray):
            return Given(given[rows])
        guess = get_estimator(given)
        if warm and type(guess) is History and learns(guess):
            known = self._memory(LEVELS, guess.trust, 1.0).at(first, rows)
            return Recalled(guess.trust, name="history-warm", known=known)
        if warm and isinstance(guess, Predicted) and learns(guess):
            return RecalledPrediction(guess.name, self._course(guess), first, _numbers(rows), guess.order_by)
        if isinstance(guess, Blend):
            return replace(guess, parts=tuple(self._estimator(p, first, rows, warm=warm) for p in guess.parts))
        if isinstance(guess, Noisy):  # a job has one error, whatever window it is seen in
            if guess.name not in self._drawn:
                self._drawn[guess.name] = estimated(guess, self._jobs, self._seed).values_s
            return Given(self._drawn[guess.name][rows], guess.name)
        return self._warmed(guess, first) if warm else guess

    def made(self, given: Any, first: int, window: Jobs, *, warm: bool = True) -> MadeEstimates:
        """Return the estimates of a window as values, for all pipelines alike."""
        guess = self.estimator(given, first, len(window), warm=warm)
        return MadeEstimates(guess.name, estimated(guess, window, self._seed))

    def resumed(self, given: Any, resumption: Resumption) -> MadeEstimates:
        """Return the estimates of a run that goes on from a moment; that of the gate is the truth."""
        guess = self._estimator(given, resumption.first, resumption.rows, warm=True)
        made = estimated(guess, resumption.kept, self._seed)
        order = resumption.order
        values = np.append(made.values_s, 0.0)[order]
        gate = order == len(resumption.rows)
        values[gate] = resumption.jobs.duration_s[gate]
        likeness = made.likeness and _with_stranger(made.likeness, order)
        looks = made.looks and made.looks.in_order(order)
        rank_s = None if made.rank_s is None else np.append(made.rank_s, 0.0)[order]
        return MadeEstimates(guess.name, Estimates(values, likeness, looks, rank_s))

    def resumed_policy(self, policy: Any, resumption: Resumption) -> Any:
        """Return the policy for a run that goes on from a moment."""
        made = self._policy(policy, resumption.first, resumption.rows)
        if isinstance(made, RecalledQssf) and made.known is not None:
            return replace(made, known=_with_stranger(made.known, resumption.order))
        return made

    def policy(self, policy: Any, first: int, count: int) -> Any:
        """Return the policy for a window."""
        return self._policy(policy, first, slice(first, first + count))

    def _policy(self, policy: Any, first: int, rows: slice | NDArray[np.int64]) -> Any:
        if type(policy) is Qssf and learns(policy):
            known = self._memory(QSSF_LEVELS, policy.trust, policy.decay).at(first, rows)
            return RecalledQssf(policy.trust, policy.decay, name=f"{policy.name}-warm", known=known)
        return self._warmed(policy, first)

    def _course(self, guess: Predicted) -> PredictionCourse:
        """Return what can be predicted along the trace: its kinds and fits are found once for all windows."""
        key = (guess.plain, self._seed)
        if key not in self._courses:
            self._courses[key] = PredictionCourse(self._jobs, known=len(self._jobs), seed=self._seed, plain=guess.plain)
        return self._courses[key]

    def _memory(self, levels: Levels, trust: float, decay: float) -> Memory:
        key = (levels, trust, decay)
        if key not in self._memories:
            self._memories[key] = Memory(self._jobs, levels, trust, decay)
        return self._memories[key]

    def _warmed(self, given: Any, first: int) -> Any:
        return given.after(self._jobs.window(0, first)) if learns(given) else given


def _numbers(rows: slice | NDArray[np.int64]) -> NDArray[np.int64]:
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else np.asarray(rows, dtype=np.int64)


def _with_stranger(known: Likeness, order: NDArray[np.intp]) -> Likeness:
    """Add a job that is like no other behind the rest, then put all in order."""
    stranger = np.full((1, known.keys.shape[1]), -1, dtype=known.keys.dtype)
    return replace(known, keys=np.concatenate([known.keys, stranger])[order])
