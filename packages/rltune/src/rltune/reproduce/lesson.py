"""A step: train one network by PPO against one base policy, as the paper does, and keep its curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rltune.learn.objective import Objective
from rltune.learn.ppo import PpoSettings
from rltune.learn.train import Trainer
from rltune.learn.train_settings import TrainSettings
from rltune.model.model_file import read_model, save_model
from rltune.policy.learned import Learned
from rltune.reproduce.step import Result, Step, Workbench

if TYPE_CHECKING:
    from rltune.learn.train import Progress

MODEL = ".rltune"
HELD_SIZE = 512  # jobs of a window that chooses the network
VIEW = 256  # the paper's MAX_QUEUE_SIZE
ACTOR_RATE = 3e-4  # a tenth of the usual one: these trainings are short, and at the usual rate they leave good starts
CRITIC_LOG = ("epoch", "reward", "held_out")


@dataclass(frozen=True)
class Lesson(Step):
    """One training. The paper's protocol has true run times and one queue for all; the honest one has neither."""

    kind: ClassVar[str] = "lesson"

    workload: str
    base: str
    objective: str  # wait, slowdown, utilisation
    estimator: str
    head: str
    backfill: str
    seed: int
    epochs: int
    windows: int
    patience: int
    features: str = "sampled"
    placement: str = "best-fit"
    starts: tuple[int, ...] = (0, 10)  # passes of imitating the base policy before; the better start is kept
    held_windows: int = 5
    contended_s: float = 60.0
    hidden: tuple[int, ...] = (32, 16)
    commit: bool = False

    @property
    def told(self) -> str:
        """Return what is trained."""
        return f"train {self.features} against {self.base} for {self.objective} on {self.workload}, seed {self.seed}"

    @property
    def cost_s(self) -> float:
        """Return roughly how long it takes on one quiet core."""
        slow = 20.0 if self.placement.startswith("milp") else 1.0
        return len(self.starts) * (4.0 + 0.02 * slow * self.epochs * self.windows)

    @property
    def group(self) -> str:
        """Name what seeds have in common."""
        how = f"{self.estimator}:{self.backfill}:{self.placement}{':commit' if self.commit else ''}"
        return f"{self.workload}:{self.features}:{self.base}:{self.objective}:{how}"

    def make(self, bench: Workbench) -> Result:
        """Train from each start, and keep the network that does best on the validation part."""
        trained = [self._train(bench, imitate) for imitate in self.starts]
        kept = trained[0]
        for trainer in trained[1:]:
            if trainer.progress.best is not None and trainer.progress.best.beats(kept.progress.best):
                kept = trainer
        save_model(kept.best_model(), bench.path(self, MODEL))
        return {**_told(kept.progress), "imitated": self.starts[trained.index(kept)]}

    def _train(self, bench: Workbench, imitate: int) -> Trainer:
        work = bench.workload(self.workload)
        trainer = Trainer(work.jobs, work.cluster, self._settings(imitate), trace=work.origin.told)
        for _ in trainer.epochs():
            pass
        return trainer

    def policy(self, bench: Workbench) -> Learned:
        """Return the trained policy."""
        return Learned(read_model(bench.path(self, MODEL)), f"{self.group}:{self.seed}")

    def _settings(self, imitate: int) -> TrainSettings:
        return TrainSettings(
            base=self.base,
            objective=Objective.parse(self.objective),
            estimators=(self.estimator,),
            backfill=self.backfill,
            head=self.head,
            view=VIEW,
            features=self.features,
            hidden=self.hidden,
            imitate=imitate,
            placement=self.placement,
            commit=self.commit,
            epochs=self.epochs,
            windows=self.windows,
            pool=min(2000, self.epochs * self.windows),
            contended_s=self.contended_s,
            held_windows=self.held_windows,
            held_size=HELD_SIZE,
            ppo=PpoSettings(actor_rate=ACTOR_RATE),
            patience=self.patience,
            seed=self.seed,
        )


def _told(progress: Progress) -> Result:
    log = [{name: entry[name] for name in CRITIC_LOG if name in entry} for entry in progress.log]
    best = progress.best.score if progress.best else float("nan")
    choices = sum(entry.get("choices", 0.0) for entry in progress.log)
    return {"log": log, "epochs": progress.epoch, "best_epoch": progress.best_epoch, "best": best, "choices": choices}
