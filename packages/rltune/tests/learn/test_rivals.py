"""RLScheduler and SchedInspector: the same training, other features; models like any other."""

from dataclasses import replace

import numpy as np
import pytest
from learn.looking import a_model, machine
from learn.test_rollouts import BUSY, SMALL

from rltune import simulate
from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.evaluation import compare
from rltune.jobs import Jobs
from rltune.kernel.score.rules import INSPECTED, LEARNED
from rltune.kernel.state import arrays as core
from rltune.learn.ppo import PpoSettings
from rltune.learn.rollouts import roll
from rltune.learn.train import Trainer
from rltune.learn.train_settings import TrainSettings
from rltune.model.feature_sets import get_recipe
from rltune.model.learned_model import Model
from rltune.model.model_file import parse_model, read_model, save_model
from rltune.policy import get_policy
from rltune.policy.learned import Learned

CROWDED = Jobs.from_arrays(
    submit_s=np.sort(np.random.default_rng(3).uniform(0.0, 60_000.0, 900)),
    duration_s=np.random.default_rng(4).lognormal(5.5, 1.5, 900),
    gpus=np.random.default_rng(5).choice([1, 1, 2, 4, 8], 900),
)
TINY = TrainSettings(
    estimators=("oracle",),
    epochs=2,
    windows=4,
    pool=8,
    size=48,
    contended_s=10.0,
    held_windows=2,
    held_size=64,
    imitate=1,
)


def run_epochs(trainer: Trainer) -> list[dict[str, float]]:
    """Train to the end; give the log of the epochs."""
    for _ in trainer.epochs():
        pass
    return [entry for entry in trainer.progress.log if "choices" in entry]


@pytest.mark.parametrize(("features", "code"), [("rlscheduler", LEARNED), ("schedinspector", INSPECTED)])
def test_a_rival_is_trained_saved_and_used_by_its_file(tmp_path, features, code):
    """PPO moves its weights; its file says its kind; by that it runs beside the rules."""
    trainer = Trainer(CROWDED, SMALL, replace(TINY, features=features))
    before = trainer.actor.to_flat()
    assert [entry["choices"] > 0 for entry in run_epochs(trainer)] == [True, True]
    assert (trainer.actor.to_flat() != before).any()
    save_model(trainer.best_model(), tmp_path / "rival.rltune")
    policy = get_policy(str(tmp_path / "rival.rltune"))
    assert policy.code == code
    assert read_model(tmp_path / "rival.rltune").recipe.kind == features
    standings = compare(BUSY, SMALL, [policy, "saf"], backfills=["none", "easy"], estimator="oracle").standings
    assert sorted(s.label for s in standings) == ["rival", "rival + easy", "saf", "saf + easy"]


def test_an_inspector_learns_to_refuse_less_where_refusing_only_costs():
    """One node, one size: whoever waits for something better waits for nothing, and training finds that out."""
    jobs = Jobs.from_arrays(submit_s=np.arange(900) * 10.0, duration_s=np.full(900, 45.0), gpus=np.full(900, 2))
    settings = replace(TINY, features="schedinspector", base="fcfs", epochs=12, windows=12, pool=12, contended_s=0.0)
    settings = replace(settings, imitate=0, ppo=PpoSettings(actor_rate=0.01))
    trainer = Trainer(jobs, Cluster.uniform(1, 8), settings)
    rewards = [entry["reward"] for entry in run_epochs(trainer)]
    assert rewards[0] < -0.3
    assert np.mean(rewards[-3:]) > rewards[0] / 2


def test_an_inspector_that_imitates_begins_as_its_base_policy():
    """Used, it accepts all; while it learns it still tries out what refusing is good for."""
    settings = replace(TINY, features="schedinspector", imitate=20)
    trainer = Trainer(CROWDED, SMALL, settings)
    model = Model(get_recipe("schedinspector"), settings.hidden, trainer.actor.to_flat(), trainer.scaling.norm)
    for window in trainer.held:
        assert window.times(Learned(model)).start_s.tolist() == window.under_base.start_s.tolist()
    episodes = [roll(window.machine(Learned(model)), seed) for window in trainer.held for seed in range(20)]
    assert 0.01 < np.concatenate([e.taken for e in episodes]).mean() < 0.4


def test_rlscheduler_sees_the_128_oldest_jobs_and_a_run_may_say_otherwise():
    """Its view is part of what it is; `view` of the run comes first."""
    model = a_model("rlscheduler")
    assert machine(BUSY, SMALL, model).options.in_view == 128
    assert machine(BUSY, SMALL, model, view=7).options.in_view == 7
    assert machine(BUSY, SMALL, a_model("sampled")).options.in_view == 0


def test_a_view_of_the_model_is_a_view_of_the_run():
    """With more jobs waiting than it sees, it schedules as a run with that view does."""
    many = Jobs.from_arrays(submit_s=np.zeros(300), duration_s=1.0 + np.arange(300.0)[::-1], gpus=np.ones(300, int))
    model = a_model("rlscheduler", seed=1)
    own, told = (
        simulate(many, SMALL, Learned(model), estimator="oracle"),
        simulate(many, SMALL, Learned(model), view=128, estimator="oracle"),
    )
    other = simulate(many, SMALL, Learned(model), view=300, estimator="oracle")
    assert own.start_s.tolist() == told.start_s.tolist()
    assert own.start_s.tolist() != other.start_s.tolist()


def test_a_file_whose_kind_and_inputs_differ_is_refused(tmp_path):
    """A kind decides in which pass the network is asked, so it must be the one it was trained in."""
    import json

    from model.test_learned_model import rewritten

    save_model(a_model("sampled"), tmp_path / "m.rltune")
    assert json.loads((tmp_path / "m.rltune").read_text())["kind"] == "learned"
    with pytest.raises(InputError, match="of kind schedinspector, and its inputs that it is learned"):
        parse_model(rewritten(tmp_path / "m.rltune", kind="schedinspector"), "m")


def test_refusals_of_a_run_are_counted_job_by_job():
    """The sum over jobs is what the schedule says."""
    ready = machine(BUSY, SMALL, a_model("schedinspector", seed=2))
    ready.run()
    assert ready.state.life.refusals.sum() == ready.state.n[core.REFUSALS_N]
