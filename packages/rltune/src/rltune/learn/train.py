"""Train a policy by PPO on windows of a trace, and keep the network that is best on a part held out for that."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.learn.checkpoint import read_checkpoint, save_checkpoint
from rltune.learn.input_scaling import Queues, Scaling, verdicts
from rltune.learn.paired_changes import PairedRoller
from rltune.learn.ppo import Actor, Choices, Critic, Floats, Ppo, imitate
from rltune.learn.same_training import require_same, spelled_out, trace_hash
from rltune.learn.train_settings import PAIRED, TrainSettings
from rltune.learn.training_windows import TrainingWindow, Variation, Windows
from rltune.learn.what_taught import with_lessons
from rltune.learn.window_worker import Held, Judge, Rolled, Roller
from rltune.model.card import Card, HeldOut
from rltune.model.feature_sets import get_recipe
from rltune.model.learned_model import Model
from rltune.opt_in import for_replay
from rltune.parallel import Here, Spread
from rltune.trials.parts import Split, split, usual_size
from rltune.trials.warm_start import Knowledge

# What a random number is for: part of its key. Every epoch's are derived anew, so a checkpoint holds no generator.
_DRAW, _ORDER, _ROLL, _IMITATE = range(4)
_OF_BEFORE = {"placement": "best-fit", "commit": False, "changes": 32}  # under which those trained who could not say
_PRICE_STEP = 0.5  # by how much a bound that is broken entirely raises its price in an epoch


@dataclass
class Progress:
    """Where a training stands; with the networks, all that a checkpoint holds."""

    epoch: int = 0
    price: float = 1.0  # of exceeding the bound on the p99 wait
    best: Held | None = None
    best_epoch: int = 0
    best_weights: Floats = field(default_factory=lambda: np.zeros(0))
    log: list[dict[str, float]] = field(default_factory=list)  # an entry an epoch, and one before the first

    @property
    def curve(self) -> list[float]:
        """Return the held-out scores so far."""
        return [entry["held_out"] for entry in self.log if "held_out" in entry]


class Trainer:
    """The windows, the networks, and where their training stands."""

    def __init__(
        self,
        jobs: Jobs,
        cluster: Cluster,
        settings: TrainSettings,
        init: Model | None = None,
        spread: Spread | None = None,
        threads: int = 1,
        trace: str = "",
    ) -> None:
        self.settings, self.spread, self.threads = settings, spread or Here(), threads
        self.trace, self._begun_with = trace, init.card if init else None
        self.jobs, self.cluster = for_replay(jobs, cluster).sorted(), cluster
        self.progress = Progress()
        self._known = Knowledge(self.jobs, settings.seed)
        self._windows, self.held = self._cut()
        self.scaling, self.actor, self.ppo = self._begin(init)
        self._drawn: dict[int, list[TrainingWindow]] = {}

    def epochs(self) -> Iterator[Progress]:
        """Train until all epochs are done or the held-out score has not improved for long; yield after each."""
        with (
            _one_torch_thread(),
            ThreadPoolExecutor(self.threads, initializer=torch.set_num_threads, initargs=(1,)) as pool,
        ):
            if not self.progress.log:
                self.progress.log.append({"epoch": 0.0, **self._judge()})
                yield self.progress
            while self.progress.epoch < self.settings.epochs and not self.stale:
                self._epoch(pool)
                yield self.progress

    @property
    def parts(self) -> Split:
        """Return the parts of the trace: what teaches, what chooses, and what is left alone."""
        return split(len(self.jobs), self.settings.holdout)

    @property
    def stale(self) -> bool:
        """Return whether the held-out score has not improved for as long as patience lasts."""
        waited = self.progress.epoch - self.progress.best_epoch
        return 0 < self.settings.patience * self.settings.held_every <= waited

    def best_model(self) -> Model:
        """Return the network that did best on the held-out windows, with its card."""
        return replace(self._model(self.progress.best_weights), card=self.card())

    def save(self, path: Path) -> None:
        """Write a checkpoint."""
        state = {**vars(self.progress), "best": None if self.progress.best is None else asdict(self.progress.best)}
        state["best_weights"] = torch.from_numpy(self.progress.best_weights)
        begun_with = self._begun_with.to_dict() if self._begun_with else None
        rest = {"networks": self.ppo.state_dict(), "begun_with": begun_with}
        save_checkpoint(path, {"identity": self.identity(), "progress": state, **rest})

    def resume(self, path: Path) -> None:
        """Go on where a checkpoint was written; the weights will be those of a training that was never broken off."""
        found = read_checkpoint(path)
        require_same(path, {**_OF_BEFORE, **found["identity"]}, self.identity())
        self.ppo.load_state_dict(found["networks"])
        state = found["progress"]
        state["best"] = Held(**state["best"]) if state["best"] else None
        state["best_weights"] = state["best_weights"].numpy()
        self.progress = Progress(**state)
        # earlier versions did not note it: that training may have begun with a model of any origin
        begun_with = found.get("begun_with", {"unknown": "its checkpoint does not name it"})
        self._begun_with = Card.from_dict(begun_with) if begun_with is not None else None

    def identity(self) -> dict[str, Any]:
        """Return what a training must share with a checkpoint to go on from it."""
        start = hashlib.sha256(self.scaling.norm.tobytes()).hexdigest()[:16]
        trace = {"trace": trace_hash(self.jobs), "cluster": spelled_out(self.cluster), "scaling": start}
        return {**trace, **self.settings.identity()}

    def card(self) -> Card:
        """Return where the model comes from, for its file."""
        s, at = self.settings, self.progress
        assert at.best is not None
        elsewhere = {"features", "base", "estimators"}  # in the model itself, or in the card
        made = Card(
            trace=self.trace,
            cluster=self.cluster.name or f"{self.cluster.gpu_count} GPUs",
            estimators=s.estimators,
            held_out=HeldOut(len(self.held), len(self.held[0].jobs), at.best.score, at.best.excess),
            settings={
                **{name: value for name, value in s.identity().items() if name not in elsewhere},
                "epochs": at.epoch,
                "best_epoch": at.best_epoch,
            },
        )
        return with_lessons(made, [(self.trace, self.jobs)], s.holdout, self._begun_with)

    def _cut(self) -> tuple[Windows, list[TrainingWindow]]:
        """Cut the trace by time: windows to train on, and held-out ones. The last part is not looked at."""
        s = self.settings
        parts = self.parts
        guesses = tuple(get_estimator(name) for name in s.estimators)
        machine: dict[str, Any] = {"head": s.head, "view": s.view, "commit": s.commit}
        pipeline = parse_pipeline(s.base, s.backfill, s.placement, seed=s.seed, **machine)
        training = Windows(
            self.jobs,
            self.cluster,
            parts.training,
            s.size,
            pipeline,
            guesses,
            s.contended_s,
            s.variation,
            survey=s.variation == Variation(),
        )
        held = replace(training, part=parts.validation, size=usual_size(parts.validation, s.held_size))
        return training, held.spaced(s.held_windows, self._known, self.spread)

    def _begin(self, init: Model | None) -> tuple[Scaling, Actor, Ppo]:
        """Measure the inputs, and make networks: new ones, or an actor that goes on from a model."""
        s = self.settings
        long = replace(self._windows, size=len(self.held[0].jobs))
        recipe = get_recipe(s.features)
        queues = Queues.under_base(long.spaced(s.held_windows, self._known, self.spread), recipe, s.base)
        scaling = Scaling.of(queues)
        with _one_torch_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(s.seed)
            actor, critic = self._new_actor(len(recipe.inputs)), Critic(scaling.critic)
        if init is not None:
            if (init.recipe.inputs, init.hidden) != (recipe.inputs, s.hidden):
                raise InputError(
                    f"the model to begin with has inputs {', '.join(init.recipe.inputs)} and layers of "
                    f"{' and '.join(map(str, init.hidden))}; train with the same features and layers"
                )
            actor.from_flat(init.weights)
            return scaling.seen_through(init.norm), actor, Ppo(actor, critic, s.ppo)
        order = np.random.default_rng([s.seed, _IMITATE])
        rows, first, taken = scaling.normalised(queues.rows), queues.first, queues.taken
        if recipe.kind == "schedinspector":
            rows, first, taken = verdicts(rows[first[:-1] + taken])
        with _one_torch_thread():
            imitate(actor, Choices(torch.from_numpy(rows.astype(np.float32)), first, taken), s.imitate, order)
        return scaling, actor, Ppo(actor, critic, s.ppo)

    def _new_actor(self, inputs: int) -> Actor:
        return Actor(inputs, self.settings.hidden)

    def _model(self, weights: Floats) -> Model:
        s = self.settings
        return Model(get_recipe(s.features), s.hidden, weights, self.scaling.norm, s.base)

    def _epoch(self, pool: ThreadPoolExecutor) -> None:
        """Run windows, learn from them, and now and then see how the network does on the held-out ones."""
        at, s = self.progress, self.settings
        began = time.perf_counter()
        rolled = self._roll()
        rolled_s = time.perf_counter() - began
        order = np.random.default_rng([s.seed, _ORDER, at.epoch])
        losses = self.ppo.update([r.trajectory for r in rolled], order, pool)
        at.price = max(0.0, at.price + _PRICE_STEP * float(np.mean([r.excess for r in rolled])))
        at.epoch += 1
        entry = {"epoch": float(at.epoch), **_summed(rolled), **losses, "price": at.price}
        entry |= {"rollout_s": rolled_s, "update_s": time.perf_counter() - began - rolled_s}
        if at.epoch % s.held_every == 0 or at.epoch == s.epochs:
            entry |= self._judge()
        at.log.append(entry)

    def _roll(self) -> list[Rolled]:
        s, epoch = self.settings, self.progress.epoch
        windows = self._batch(epoch % max(1, s.pool // s.windows))
        seeds = np.random.default_rng([s.seed, _ROLL, epoch]).integers(2**31, size=len(windows)).tolist()
        model, price = self._model(self.actor.to_flat()), self.progress.price
        roller: Callable[[tuple[TrainingWindow, int]], Rolled]
        if s.reward == PAIRED:
            roller = PairedRoller(model, s.objective, s.changes, price)
        else:
            roller = Roller(model, s.objective, s.reward == "dense", price)
        return self.spread.map(roller, list(zip(windows, seeds, strict=True)))

    def _batch(self, number: int) -> list[TrainingWindow]:
        """Draw the windows of an epoch, once: after so many epochs they come again, with other choices."""
        if number not in self._drawn:
            key = (self.settings.seed, _DRAW, number)
            self._drawn[number] = self._windows.draw(self.settings.windows, key, self._known, self.spread)
        return self._drawn[number]

    def _judge(self) -> dict[str, float]:
        at, objective = self.progress, self.settings.objective
        weights = self.actor.to_flat()
        began = time.perf_counter()
        found = Held.of(self.spread.map(Judge(self._model(weights), objective), self.held), objective)
        if found.beats(at.best):
            at.best, at.best_epoch, at.best_weights = found, at.epoch, weights
        return {"held_out": found.score, "p99_excess": found.excess, "held_out_s": time.perf_counter() - began}


def _summed(rolled: list[Rolled]) -> dict[str, float]:
    return {
        "reward": float(np.mean([r.gap for r in rolled])),
        "choices": float(sum(len(r.trajectory) for r in rolled)),
        "rows": float(sum(len(r.trajectory.rows) for r in rolled)),
    }


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    """Keep torch from splitting a sum over threads: its last bits would depend on how many there are."""
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict)
