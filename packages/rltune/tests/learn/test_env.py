"""The environment keeps Gymnasium's contract, and is the machine that rollouts and simulations are."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from learn.looking import a_model, machine
from learn.test_rollouts import BUSY, SMALL

from rltune import simulate
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.learn.env import ID, ILLEGAL, WindowEnv, windows_of
from rltune.learn.input_scaling import Scaling
from rltune.learn.objective import Objective
from rltune.learn.rollouts import roll
from rltune.learn.training_windows import TrainingWindow

UNBOUNDED = "ignore:.*A Box observation space m.* value is .*infinity"  # logarithms of times have no natural bound


def window(jobs=BUSY, cluster=SMALL, **settings):
    return TrainingWindow(0, jobs, cluster, get_estimator("oracle"), parse_pipeline(**settings))


def shifted(by: int):
    """Give another window of the same kind."""
    order = np.random.default_rng(by).permutation(len(BUSY))
    return window(Jobs.from_arrays(submit_s=BUSY.submit_s, duration_s=BUSY.duration_s[order], gpus=BUSY.gpus[order]))


def play(env, choose, **reset):
    """Run an episode; give its rewards and observations."""
    seen, info = env.reset(**reset)
    rewards, observations = [], [seen]
    while True:
        seen, reward, over, _, info = env.step(choose(seen, info))
        rewards.append(reward)
        observations.append(seen)
        if over:
            return rewards, observations


def oldest(seen, _):
    return int(np.flatnonzero(seen["mask"])[0])


@pytest.mark.filterwarnings(UNBOUNDED)
@pytest.mark.parametrize("backfill", ["none", "fit-first", "easy"])
def test_gymnasium_finds_nothing_to_say_against_it(backfill):
    """`check_env` passes: spaces, types, seeding, determinism, the order of calls."""
    check_env(gymnasium.make(ID, windows=[window(backfill=backfill), shifted(1)]).unwrapped, skip_render_check=True)


def test_an_observation_is_of_the_size_of_the_paper():
    """256 x 8 for the actor, 256 x 5 for the critic, and a mask; zeros where no job waits."""
    env = WindowEnv([window()])
    seen, info = env.reset(seed=0)
    assert {name: part.shape for name, part in seen.items()} == {"jobs": (256, 8), "critic": (256, 5), "mask": (256,)}
    assert seen in env.observation_space
    assert info["action_mask"].tolist() == env.action_masks().tolist() == (seen["mask"] == 1).tolist()
    waiting = int(np.flatnonzero(seen["jobs"].any(axis=1)).max()) + 1
    assert 1 < waiting < 60
    assert not seen["jobs"][waiting:].any()
    assert not seen["critic"][waiting:].any()
    assert not seen["mask"][waiting:].any()


@pytest.mark.parametrize("backfill", ["none", "fit-first", "easy"])
@pytest.mark.parametrize("seed", range(3))
def test_the_choices_of_a_rollout_give_its_schedule(backfill, seed):
    """Step by step it shows the rollout's candidates, and the same choices start jobs at the same times."""
    model = a_model("sampled", seed=seed)
    episode = roll(machine(BUSY, SMALL, model, backfill=backfill, view=256), seed)
    plain = Scaling(model.norm, np.tile([0.0, 1.0], (5, 1)))
    env = WindowEnv([window(backfill=backfill)], scaling=plain)
    choices = iter(range(len(episode)))

    def as_rolled(seen, _):
        i = next(choices)
        rows = slice(episode.first[i], episode.first[i + 1])
        candidates = np.flatnonzero(seen["mask"])
        assert seen["jobs"][candidates].tolist() == episode.rows[rows].astype(np.float32).tolist()
        assert seen["critic"][candidates].tolist() == episode.critic[rows].astype(np.float32).tolist()
        return candidates[episode.taken[i]]

    play(env, as_rolled)
    assert next(choices, None) is None
    assert env.times.start_s.tolist() == episode.start_s.tolist()


@pytest.mark.parametrize("backfill", ["none", "fit-first", "easy"])
def test_the_base_policys_choices_give_its_schedule_and_no_reward(backfill):
    """Both pipelines are the same machine: the oldest first is FCFS, and its gap to FCFS is exactly 0."""
    env = WindowEnv([window(backfill=backfill)], base="fcfs")
    rewards, _ = play(env, oldest)
    assert (
        env.times.start_s.tolist()
        == simulate(BUSY, SMALL, "fcfs", backfill=backfill, estimator="oracle").start_s.tolist()
    )
    assert rewards[-1] == 0.0


@pytest.mark.parametrize("objective", ["wait", "jct", "slowdown", "utilisation"])
def test_the_reward_is_the_gap_and_comes_at_the_end(objective):
    """(base - ours) / max(base, ours), whatever is asked for."""
    env = WindowEnv([window()], objective=objective)
    rewards, _ = play(env, oldest)
    gap = Objective.parse(objective).gap(env.times, window().times(env.base))
    assert set(rewards[:-1]) == {0.0}
    assert rewards[-1] == gap
    assert gap != 0.0


def test_a_job_that_cannot_be_next_ends_the_episode_with_the_worst_reward():
    """Masks are a promise: whoever breaks it is told so, and learns nothing from it but that."""
    env = WindowEnv([window()])
    seen, _ = env.reset(seed=1)
    _, reward, over, cut, info = env.step(int(np.flatnonzero(seen["mask"] == 0)[0]))
    assert (reward, over, cut, info["illegal"]) == (ILLEGAL, True, False, True)
    with pytest.raises(InputError, match=r"call reset\(\) first"):
        env.step(0)


def test_a_window_can_be_asked_for_and_is_drawn_otherwise():
    """Seeds draw windows; the same seed draws the same."""
    env = WindowEnv([shifted(i) for i in range(5)])
    first = [env.reset(options={"window": i})[0]["jobs"].tolist() for i in range(5)]
    drawn = [env.reset(seed=seed)[0]["jobs"].tolist() for seed in range(12)]
    again = [env.reset(seed=seed)[0]["jobs"].tolist() for seed in range(12)]
    assert drawn == again
    assert all(seen in first for seen in drawn)
    assert len({first.index(seen) for seen in drawn}) > 2


def test_only_jobs_in_view_are_shown():
    """A smaller view shows and offers the oldest jobs alone."""
    env = WindowEnv([window()], view=4)
    _, observations = play(env, oldest, seed=0)
    assert env.observation_space["jobs"].shape == (4, 8)
    assert max(seen["mask"].sum() for seen in observations) == 4


def test_environments_run_side_by_side():
    """A vector of them steps together, each as it would alone."""
    windows = [shifted(i) for i in range(3)]
    scaling = WindowEnv(windows)._eye.scaling
    together = gymnasium.make_vec(ID, 3, "sync", windows=windows, scaling=scaling)
    alone = [WindowEnv(windows, scaling=scaling) for _ in range(3)]
    seen, _ = together.reset(seed=[7, 8, 9])
    apart = [env.reset(seed=seed)[0] for env, seed in zip(alone, [7, 8, 9], strict=True)]
    for _ in range(20):
        assert seen["jobs"].tolist() == [one["jobs"].tolist() for one in apart]
        actions = [oldest(one, None) for one in apart]
        seen, *_ = together.step(np.array(actions))
        apart = [env.step(action)[0] for env, action in zip(alone, actions, strict=True)]
    together.close()


@pytest.mark.parametrize(
    ("windows", "settings", "why"),
    [
        ([], {}, "at least one window"),
        ([window()], {"view": 1}, "leaves nothing to choose"),
        ([window(backfill="conservative")], {}, "no choices under backfill 'conservative'"),
        ([window()], {"features": "schedinspector"}, "an inspector does not choose jobs"),
        ([window()], {"features": "moon"}, "no features 'moon'"),
    ],
)
def test_what_makes_no_environment_is_said(windows, settings, why):
    """One sentence instead of an environment that cannot be used."""
    with pytest.raises(InputError, match=why):
        WindowEnv(windows, **settings)


def test_windows_without_a_choice_are_said():
    """Jobs that never queue leave nothing to learn."""
    idle = Jobs.from_arrays(submit_s=[0.0, 1e6, 2e6], duration_s=[1.0, 1.0, 1.0], gpus=[1, 1, 1])
    env = WindowEnv([window(idle)], scaling=WindowEnv([window()])._eye.scaling)
    with pytest.raises(InputError, match="no window holds a choice"):
        env.reset()


def test_a_trace_is_cut_into_windows():
    """One after the other, whole ones only, in order of submit."""
    cut = windows_of(BUSY, SMALL, size=25, estimator="oracle", backfill="easy")
    assert [(w.first, len(w.jobs), w.pipeline.backfill) for w in cut] == [(0, 25, "easy"), (25, 25, "easy")]
    assert cut[1].jobs.submit_s.tolist() == BUSY.submit_s[25:50].tolist()
    with pytest.raises(InputError, match="a window of 256 jobs does not fit a trace of 60"):
        windows_of(BUSY, SMALL)
