"""A window as a Gymnasium environment, over the same core: an action is which of the waiting jobs is next.

    env = gymnasium.make("rltune/TrainingWindow-v0", windows=windows_of(jobs, cluster))

The choices are those of a rollout (kernel/backfill/candidates.py): only where several jobs may be next and something
could start. The
reward comes at the end: the gap between the base policy's schedule of the window and this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsInt

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.errors import InputError, unknown
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.kernel.backfill.candidates import take
from rltune.kernel.rollout.stepwise import observe, to_next_choice
from rltune.kernel.state import arrays as core
from rltune.learn.input_scaling import Scaling, measure
from rltune.learn.objective import Objective, Times
from rltune.learn.training_windows import TrainingWindow, times_of
from rltune.model.feature_sets import Recipe, critic_codes, get_recipe
from rltune.model.learned_model import Model, n_weights
from rltune.opt_in import for_replay
from rltune.policy import get_policy
from rltune.policy.learned import Learned

ID = "rltune/TrainingWindow-v0"
BACKFILLS = ("none", "fit-first", "easy")
ILLEGAL = -1.0  # the reward of a job that cannot be next; no gap is worse
MEASURED = 8  # windows that the scaling is measured on, if none is given

Observation = dict[str, Any]
Info = dict[str, Any]


@dataclass(frozen=True)
class Eye:
    """Sees the queue of a machine as actor and critic do."""

    scaling: Scaling
    view: int

    @property
    def space(self) -> spaces.Dict:
        """Return the space of what it sees."""
        jobs, critic = (self.view, len(self.scaling.norm)), (self.view, core.N_CRITIC)
        return spaces.Dict(
            {
                "jobs": spaces.Box(-np.inf, np.inf, jobs, np.float32),
                "critic": spaces.Box(-np.inf, np.inf, critic, np.float32),
                "mask": spaces.MultiBinary(self.view),
            }
        )

    def see(self, m: Machine | None) -> Observation:
        """Look at the queue, oldest first; at nothing once a window is over."""
        jobs, critic = np.zeros((self.view, len(self.scaling.norm))), np.zeros((self.view, core.N_CRITIC))
        mask = np.zeros(self.view, dtype=np.int64)
        if m is not None:
            observe(m.w, m.s, m.options, critic_codes(), jobs, critic, mask)
            there = slice(int(m.state.n[core.Q_TAIL] - m.state.n[core.Q_HEAD]))
            critic[there] = (critic[there] - self.scaling.critic[:, 0]) * self.scaling.critic[:, 1]
        return {"jobs": jobs.astype(np.float32), "critic": critic.astype(np.float32), "mask": mask.astype(np.int8)}


class WindowEnv(gymnasium.Env[Observation, SupportsInt]):
    """Schedules windows of jobs, each from an idle cluster, one choice a step.

    Observation: `jobs` [view, inputs] and `critic` [view, 5], scaled, the oldest waiting job first, zeros where there
    is none; `mask` [view], 1 where a job may be next, also in `info["action_mask"]`. Action: a place of the mask; where
    that is 0 the episode ends at once with the worst reward.
    """

    def __init__(
        self,
        windows: Sequence[TrainingWindow],
        features: str = "sampled",
        base: str = "saf",
        objective: str | Objective = "wait",
        view: int = 256,
        scaling: Scaling | None = None,
    ) -> None:
        _check(windows, view)
        recipe = get_recipe(features)
        self.windows = windows
        self.objective = Objective.parse(objective) if isinstance(objective, str) else objective
        self.base = get_policy(base)
        self._eye = Eye(scaling or measure(windows[:MEASURED], recipe, base), view)
        self._policy = _onlooker(recipe, base, self._eye.scaling)
        self.observation_space = self._eye.space
        self.action_space = spaces.Discrete(view)
        self._window = windows[0]
        self._machine: Machine | None = None
        self._seen = self._eye.see(None)
        self.times: Times | None = None  # of the last window that was run to its end

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Info]:
        """Begin a window drawn at random, or the one of `options={"window": i}`."""
        super().reset(seed=seed)
        drawn = self.np_random.permutation(len(self.windows))
        for which in [options["window"]] if options and "window" in options else drawn:
            self._window = self.windows[which]
            self._machine = self._prepared(self._window)
            if self._go_on(started=False):
                return self._look()
        raise InputError("no window holds a choice between two jobs: give windows in which jobs queue")

    def step(self, action: SupportsInt) -> tuple[Observation, float, bool, bool, Info]:
        """Let a waiting job be next, and go on to the next choice."""
        m = self._machine
        if m is None:
            raise InputError("there is no window to go on with: call reset() first")
        if not self._seen["mask"][int(action)]:
            self._machine = None
            seen, info = self._look()
            return seen, ILLEGAL, True, False, {**info, "illegal": True}
        started = take(m.w, m.s, m.options, int(m.state.n[core.Q_HEAD]) + int(action))
        if self._go_on(started=started):
            seen, info = self._look()
            return seen, 0.0, False, False, info
        self._machine, self.times = None, times_of(m)
        reward = self.objective.gap(self.times, self._window.base or self._window.times(self.base))
        seen, info = self._look()
        return seen, reward, True, False, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are legal now, as agents ask that know masks."""
        return np.asarray(self._seen["mask"], dtype=np.bool_)

    def _prepared(self, window: TrainingWindow) -> Machine:
        machine = window.machine(self._policy)
        return replace(machine, options=machine.options._replace(in_view=self._eye.view))

    def _go_on(self, *, started: bool) -> bool:
        """Run to the next choice; False if there is none any more."""
        m = self._machine
        assert m is not None
        return bool(to_next_choice(m.w, m.s, m.options, started))

    def _look(self) -> tuple[Observation, Info]:
        self._seen = self._eye.see(self._machine)
        return self._seen, {"action_mask": self.action_masks()}


def windows_of(
    jobs: Jobs,
    cluster: Cluster,
    size: int = 256,
    estimator: str = "history",
    backfill: str = "none",
    head: str = "pool",
) -> list[TrainingWindow]:
    """Cut a trace into windows one after the other, each from an idle cluster; what is left at the end is left out."""
    if size > len(jobs):
        raise InputError(f"a window of {size:,} jobs does not fit a trace of {len(jobs):,}")
    ordered, guess = for_replay(jobs, cluster).sorted(), get_estimator(estimator)
    pipeline = parse_pipeline(backfill=backfill, head=head)
    starts = range(0, len(jobs) - size + 1, size)
    return [TrainingWindow(first, ordered.window(first, size), cluster, guess, pipeline) for first in starts]


def _check(windows: Sequence[TrainingWindow], view: int) -> None:
    if not windows:
        raise InputError("an environment needs at least one window")
    if view < 2:
        raise InputError(f"a view of {view} leaves nothing to choose: give 2 or more")
    for window in windows:
        if window.pipeline.backfill not in BACKFILLS:
            raise unknown("choices under backfill", window.pipeline.backfill, BACKFILLS)


def _onlooker(recipe: Recipe, base: str, scaling: Scaling) -> Learned:
    """Return a policy whose network is never asked, for the inputs that the core makes for it."""
    if recipe.kind == "schedinspector":
        raise InputError("an inspector does not choose jobs: features 'schedinspector' are not for this environment")
    return Learned(Model(recipe, (1, 1), np.zeros(n_weights(len(recipe.inputs), (1, 1))), scaling.norm, base))


gymnasium.register(ID, entry_point=f"{__name__}:WindowEnv")
