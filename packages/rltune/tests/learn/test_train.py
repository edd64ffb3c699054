"""Training: what is promised of seeds, threads, kills, bounds and the best network."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from learn.small_training import jobs, trained, trainer

from rltune import simulate
from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.learn.checkpoint import read_checkpoint, save_checkpoint
from rltune.learn.objective import Objective
from rltune.learn.ppo import PpoSettings
from rltune.learn.same_training import trace_hash
from rltune.learn.train_settings import TrainSettings
from rltune.learn.window_worker import Held, Judge
from rltune.model.card import Card, Lessons
from rltune.model.fingerprint import shared
from rltune.model.learned_model import BASES
from rltune.model.model_file import read_model, save_model
from rltune.parallel import Threads
from rltune.policy.learned import Learned
from rltune.trace import synthesise

HERE = Path(__file__).parent


def weights(made) -> list[float]:
    """Give actor and critic, to the last bit."""
    return [p.tolist() for p in (*made.actor.parameters(), *made.ppo.critic.parameters())]


@pytest.fixture(scope="module")
def small():
    return trained()


def test_the_same_seed_gives_the_same_weights_on_any_number_of_threads(small):
    """Bit for bit; another seed gives others."""
    with Threads(3) as spread:
        assert weights(trained(threads=3, spread=spread)) == weights(small)
    assert weights(trained(seed=1)) != weights(small)


@pytest.mark.parametrize("placement", ["exclusive", "spread", "hierarchical", "milp:4"])
def test_a_policy_learns_where_it_is_to_work(placement, small):
    """Both pipelines, rollouts and held-out windows place jobs as told, and the card says so."""
    made = trained(epochs=1, placement=placement)
    assert all(str(w.pipeline.placement) == placement for w in (*made.held, *made._batch(0)))
    assert made.best_model().card.settings["placement"] == placement
    assert small.best_model().card.settings["placement"] == "best-fit"
    if placement in {"exclusive", "milp:4"}:
        assert weights(made) != weights(trained(epochs=1))


def test_a_training_with_the_solver_is_one_training_on_any_threads_and_after_a_break(tmp_path):
    """Bit for bit, though its rollouts leave compiled code."""
    whole = trained(epochs=2, placement="milp:4")
    with Threads(2) as spread:
        trained(epochs=1, placement="milp:4", threads=2, spread=spread).save(tmp_path / "checkpoint")
    again = trainer(epochs=2, placement="milp:4")
    again.resume(tmp_path / "checkpoint")
    for _ in again.epochs():
        pass
    assert weights(again) == weights(whole)


def test_a_checkpoint_from_before_placements_goes_on_under_best_fit_alone(tmp_path):
    """It names none, and was made under best fit."""
    path = tmp_path / "checkpoint"
    trained(epochs=1, holdout=0.1).save(path)
    state = read_checkpoint(path)
    del state["identity"]["placement"], state["identity"]["commit"]
    save_checkpoint(path, state)
    trainer(holdout=0.1).resume(path)
    with pytest.raises(InputError, match="placement = 'best-fit', not 'spread'"):
        trainer(placement="spread", holdout=0.1).resume(path)


@pytest.mark.parametrize("base", BASES)
def test_every_base_policy_can_be_trained_against(base, tmp_path):
    """From windows to a file that simulates, and falls back to that base policy for jobs that it does not know."""
    made = trained(epochs=2, base=base)
    save_model(made.best_model(), tmp_path / "model.rltune")
    model = read_model(tmp_path / "model.rltune")
    assert model.base == base
    lost = replace(model, norm=np.column_stack([model.norm[:, :2], np.full((len(model.norm), 2), 1e9)]))
    some = jobs(80)
    ours, theirs = (
        simulate(some, Cluster.uniform(2, 4), policy, estimator="oracle")
        for policy in (Learned(lost), {"qssf": "saf"}.get(base, base))
    )
    assert ours.work["looks_by_base_policy"] == ours.work["model_looks"] > 0
    assert ours.start_s.tolist() == theirs.start_s.tolist()


def test_rlscheduler_as_published_is_trained_and_used_on_its_machine(tmp_path):
    """Three layers, commit mode, its view, its backfilling."""
    how = {"commit": True, "backfill": "shadow"}
    made = trained(epochs=2, features="rlscheduler", hidden=(32, 16, 8), reward="end", **how)
    save_model(made.best_model(), tmp_path / "model.rltune")
    model = read_model(tmp_path / "model.rltune")
    assert model.sizes == (6, 32, 16, 8, 1)
    assert model.card.settings["commit"] is True
    window = made.held[0]
    used = simulate(window.jobs, window.cluster, Learned(model), estimator=window.estimator, **how)
    assert used.start_s.tolist() == pytest.approx(_starts(window, model))


def _starts(window, model) -> list[float]:
    machine = window.machine(Learned(model))
    machine.run()
    return machine.state.life.start.tolist()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"commit": True, "placement": "milp"}, "commit mode places jobs one at a time"),
        ({"features": "schedinspector", "placement": "auto"}, "an inspector places jobs one at a time"),
        ({"commit": True, "backfill": "easy"}, "easy"),
        ({"backfill": "shadow"}, "shadow"),
        ({"commit": True, "features": "schedinspector"}, "commit mode is not for it"),
        ({"placement": "tight"}, "tight"),
        ({"hidden": (8,)}, "two hidden layers or three"),
    ],
)
def test_what_cannot_be_trained_is_refused_at_once(wrong, told):
    """In one sentence, before any window is run."""
    with pytest.raises(InputError, match=told):
        TrainSettings(**wrong)


def test_torch_is_left_as_it_was(small):
    """Training changes no setting of whoever calls it."""
    before = torch.get_num_threads()
    trained(epochs=1)
    assert torch.get_num_threads() == before
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_best_network_is_the_one_with_the_best_held_out_score(small):
    """It gives its score again, and no epoch had a better one."""
    at = small.progress
    found = Held.of([Judge(small.best_model(), small.settings.objective)(w) for w in small.held], Objective())
    assert found.score == at.best.score == min(at.curve)
    assert len(at.curve) == at.epoch + 1


def test_the_test_part_is_never_looked_at():
    """Other jobs in the last tenth change no weight."""
    whole = jobs()
    changed = whole.duration_s.copy()
    changed[540:] *= 7.0
    from learn.small_training import settings

    from rltune.cluster import Cluster
    from rltune.learn.train import Trainer

    made = []
    for duration in (whole.duration_s, changed):
        one = Trainer(whole.with_columns(duration_s=duration), Cluster.uniform(2, 4), settings(epochs=1))
        for _ in one.epochs():
            pass
        made.append((weights(one), one.progress.curve))
    assert made[0] == made[1]


@pytest.mark.parametrize(("holdout", "first", "end"), [(0.1, 480, 540), (0.0, 300, 450)])
def test_held_out_windows_are_from_the_part_before_the_last(holdout, first, end):
    """A tenth if told, of so short a history a quarter if not; and training windows from before those."""
    made = trainer(holdout=holdout)
    assert all(w.first >= first and w.first + len(w.jobs) <= end for w in made.held)
    assert all(w.first + len(w.jobs) <= first for w in made._batch(0))


def test_windows_come_again_after_the_pool_is_used_up():
    """Their base results with them: they are not made twice."""
    made = trainer(epochs=3)
    for _ in made.epochs():
        pass
    assert sorted(made._drawn) == [0, 1]
    assert made._batch(0)[0].under_base is made._batch(0)[0].under_base


def test_a_training_that_was_broken_off_goes_on_bit_for_bit(tmp_path, small):
    """Two epochs, a checkpoint, and a third by another trainer are three epochs."""
    path = tmp_path / "checkpoint"
    trained(epochs=2).save(path)
    again = trainer()
    again.resume(path)
    assert again.progress.epoch == 2
    for _ in again.epochs():
        pass
    assert weights(again) == weights(small)
    assert again.progress.best_weights.tolist() == small.progress.best_weights.tolist()
    assert again.progress.curve == small.progress.curve


@pytest.mark.slow
def test_after_kill_9_a_training_goes_on_bit_for_bit(tmp_path):
    """The process is killed somewhere in the middle; what it left is whole, and leads where an unbroken run does."""
    path = tmp_path / "checkpoint"
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, str(HERE / "small_training.py"), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout:
            if int(line) >= 4:
                break
        process.send_signal(signal.SIGKILL)
    bounded = {"objective": Objective.parse("wait", "1.2x"), "patience": 0}
    again = trainer(epochs=1, **bounded)
    again.resume(path)
    assert again.progress.epoch >= 4
    end = again.progress.epoch + 2
    again = trainer(epochs=end, **bounded)
    again.resume(path)
    for _ in again.epochs():
        pass
    unbroken = trained(epochs=end, **bounded)
    assert weights(again) == weights(unbroken)
    assert again.progress.price == unbroken.progress.price
    assert again.progress.best_weights.tolist() == unbroken.progress.best_weights.tolist()


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    """With the name of what differs; more epochs are no difference."""
    path = tmp_path / "checkpoint"
    trainer().save(path)
    trainer(epochs=50, patience=3).resume(path)
    with pytest.raises(InputError, match="seed = 0, not 7"):
        trainer(seed=7).resume(path)
    with pytest.raises(InputError, match=r"ppo clip = 0\.2, not 0\.1"):
        trainer(ppo=PpoSettings(passes=2, minibatches=2, clip=0.1)).resume(path)


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK\x03\x04half"])
def test_a_damaged_checkpoint_is_refused(tmp_path, content):
    """In one sentence."""
    path = tmp_path / "checkpoint"
    path.write_bytes(content)
    with pytest.raises(InputError, match="checkpoint"):
        read_checkpoint(path)


def test_a_missing_or_foreign_checkpoint_is_refused(tmp_path):
    """So is one of a later version."""
    with pytest.raises(InputError, match="without --resume"):
        read_checkpoint(tmp_path / "none")
    torch.save({"version": 99}, tmp_path / "later")
    with pytest.raises(InputError, match="no checkpoint that this version"):
        read_checkpoint(tmp_path / "later")


def test_a_checkpoint_is_replaced_only_by_a_whole_one(tmp_path, monkeypatch):
    """If writing fails in the middle, the one before is still there."""
    path = tmp_path / "checkpoint"
    save_checkpoint(path, {"epoch": 1})

    def no_room(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(InputError, match="No space left"):
        save_checkpoint(path, {"epoch": 2})
    assert read_checkpoint(path)["epoch"] == 1


def test_training_stops_once_nothing_better_is_found_for_long():
    """With a rate of 0 nothing changes: it stops when patience is over."""
    made = trained(epochs=50, patience=2, held_every=2, ppo=PpoSettings(actor_rate=0.0, critic_rate=0.0))
    assert made.progress.epoch == 4
    assert made.stale


def test_a_model_can_be_trained_further(tmp_path, small):
    """Its network is where the new training begins, seen through its own scaling."""
    path = tmp_path / "first.rltune"
    save_model(small.best_model(), path)
    further = trainer(init=read_model(path), seed=3)
    assert further.actor.to_flat().tolist() == small.best_model().weights.tolist()
    assert further.scaling.norm[:, :2] == pytest.approx(small.scaling.norm[:, :2], rel=1e-8)
    with pytest.raises(InputError, match="same features"):
        trainer(init=read_model(path), features="naive")


def test_a_model_that_was_trained_further_was_taught_by_both_histories(small):
    """Also if the second training is resumed; of a first model that does not tell, it is said."""
    far = synthesise("pai", 400)
    elsewhere = Lessons.of([("far away", far.window(0, 300))], [("far away", far.window(300, 50))])
    begun = replace(small.best_model(), card=Card(lessons=elsewhere, unknown=""))
    told = trained(init=begun, epochs=1).best_model().card
    assert [span.jobs for span in told.lessons.spans] == [300, 50, 300, 150]
    assert shared(told.lessons.taught, far).jobs == 300
    assert shared(told.lessons.taught, jobs()).jobs == 300
    assert shared(told.lessons.chose, jobs()).jobs == 150
    assert told.unknown == ""
    silent = trained(init=replace(begun, card=Card()), epochs=1).best_model().card
    assert "began with a model, and its file does not say" in silent.unknown
    assert silent.lessons == small.best_model().card.lessons


def test_a_resumed_training_knows_what_it_began_with(tmp_path, small):
    """Though the model is not named again; a checkpoint of an earlier version does not say."""
    first = trained(init=replace(small.best_model(), card=Card(unknown="it is lost")), epochs=1)
    first.save(tmp_path / "c")
    again = trainer(epochs=1)
    again.scaling = first.scaling  # the part of the beginning that a checkpoint is checked against
    again.resume(tmp_path / "c")
    assert again.card().unknown == "it began with a model, and it is lost"
    state = read_checkpoint(tmp_path / "c")
    del state["begun_with"]
    save_checkpoint(tmp_path / "c", state)
    again.resume(tmp_path / "c")
    assert "checkpoint does not name it" in again.card().unknown


def test_a_broken_bound_raises_its_price_and_a_kept_one_lowers_it():
    """So the training finds out by itself how dear the bound must be."""
    broken, kept = (trained(epochs=1, objective=Objective.parse("wait", bound)) for bound in ("1", "90d"))
    assert broken.progress.price > 1.0
    assert kept.progress.price < 1.0
    assert broken.progress.best.excess > 0
    assert kept.progress.best.excess == 0


@pytest.mark.parametrize("objective", ["jct", "slowdown", "utilisation", "wait:0.5+slowdown:0.5"])
@pytest.mark.parametrize("backfill", ["none", "fit-first", "easy"])
def test_any_objective_and_backfilling_can_be_trained_for(objective, backfill):
    """An epoch of each gives numbers."""
    made = trained(epochs=1, objective=Objective.parse(objective), backfill=backfill)
    assert np.isfinite(made.actor.to_flat()).all()
    assert np.isfinite(made.progress.curve).all()


@pytest.mark.parametrize("base", ["fcfs", "sjf", "f1", "wfp3", "unicep", "qssf", "multifactor", "saf"])
def test_any_base_policy_can_be_trained_against(base):
    """An epoch of each, with the reward as in the paper."""
    made = trained(epochs=1, base=base, reward="end")
    assert np.isfinite(made.progress.curve).all()
    assert made.best_model().base == base


@pytest.mark.parametrize("estimators", [("oracle",), ("noisy:1.2",), ("history",), ("oracle", "noisy:0.5", "history")])
def test_any_estimator_or_mix_can_be_trained_with(estimators):
    """An epoch of each."""
    assert np.isfinite(trained(epochs=1, estimators=estimators).progress.curve).all()


@pytest.mark.slow
def test_training_learns():
    """From a random start the held-out wait falls by far in a few epochs."""
    made = trained(epochs=12, windows=16, pool=64, imitate=0, held_windows=6, ppo=PpoSettings())
    assert made.progress.best.score < 0.8 * made.progress.curve[0] or made.progress.best.score < 1.0
    rewards = [entry["reward"] for entry in made.progress.log if "reward" in entry]
    assert np.mean(rewards[-3:]) > np.mean(rewards[:3]) + 0.02


def test_imitation_begins_near_the_base_policy():
    """After many passes the untrained network is nearly as good as the rule that it imitates."""
    assert trainer(imitate=60, held_windows=6).progress.curve == []
    made = next(trainer(imitate=60, held_windows=6).epochs())
    assert made.curve[0] < 1.15


@pytest.mark.parametrize(
    "wrong",
    [
        {"base": "best"},
        {"reward": "never"},
        {"backfill": "conservative"},
        {"head": "none"},
        {"features": "nothing"},
        {"estimators": ()},
        {"estimators": ("guess",)},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong):
    """Before anything is read."""
    with pytest.raises(InputError):
        TrainSettings(**wrong)


def test_a_checkpoint_tells_traces_apart():
    """One job's run time is enough."""
    trace = jobs()
    other = trace.duration_s.copy()
    other[3] += 1
    assert trace_hash(trace) == trace_hash(jobs())
    assert trace_hash(trace.with_columns(duration_s=other)) != trace_hash(trace)


def test_the_card_says_where_a_model_comes_from(small):
    """Part of the trace, estimator, seed, what it was held to, and how it did."""
    card = small.card()
    assert card.estimators == ("history",)
    assert card.settings["seed"] == 0
    assert card.held_out.cost_over_base == small.progress.best.score
    assert card.lessons == Lessons.of([("", jobs().window(0, 300))], [("", jobs().window(300, 150))])
    assert [(span.role, span.jobs) for span in card.lessons.spans] == [("taught", 300), ("chose", 150)]
    assert card.unknown == ""
