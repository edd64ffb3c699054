"""A step: train one network by PPO against one base policy, as the paper does, and keep its curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rltune.learn.objective import Objective
from rltune.learn.train import Trainer
from rltune.learn.train_settings import TrainSettings
from rltune.model.model_file import read_model, save_model
from rltune.policy.learned import Learned
from rltune.reproduce.step import Bench, Result, Step

if TYPE_CHECKING:
    from rltune.learn.train import Progress

MODEL = ".rltune"
VIEW = 256  # the paper's MAX_QUEUE_SIZE
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
    imitate: int = 0
    contended_s: float = 60.0
    hidden: tuple[int, ...] = (32, 16)
    commit: bool = False

    @property
    def told(self) -> str:
        """Say what is trained."""
        return f"train {self.features} against {self.base} for {self.objective} on {self.workload}, seed {self.seed}"

    @property
    def cost_s(self) -> float:
        """Return roughly how long it takes on one quiet core."""
        slow = 20.0 if self.placement.startswith("milp") else 1.0
        return 8.0 + 0.03 * slow * self.epochs * self.windows

    @property
    def group(self) -> str:
        """Name what seeds have in common."""
        how = f"{self.estimator}:{self.backfill}:{self.placement}{':commit' if self.commit else ''}"
        return f"{self.workload}:{self.features}:{self.base}:{self.objective}:{how}"

    def make(self, bench: Bench) -> Result:
        """Train, and keep the network that does best on the validation part."""
        work = bench.workload(self.workload)
        trainer = Trainer(work.jobs, work.cluster, self._settings(), trace=work.origin.told)
        for _ in trainer.epochs():
            pass
        save_model(trainer.best_model(), bench.path(self, MODEL))
        return _told(trainer.progress)

    def policy(self, bench: Bench) -> Learned:
        """Return the trained policy."""
        return Learned(read_model(bench.path(self, MODEL)), f"{self.group}:{self.seed}")

    def _settings(self) -> TrainSettings:
        more: dict[str, Any] = {"placement": self.placement} if self.placement != "best-fit" else {}
        more |= {"commit": True} if self.commit else {}
        return TrainSettings(
            base=self.base,
            objective=Objective.parse(self.objective),
            estimators=(self.estimator,),
            backfill=self.backfill,
            head=self.head,
            view=VIEW,
            features=self.features,
            hidden=self.hidden,  # type: ignore[arg-type]  # two or three layers
            imitate=self.imitate,
            epochs=self.epochs,
            windows=self.windows,
            pool=min(2000, self.epochs * self.windows),
            contended_s=self.contended_s,
            held_windows=8,
            patience=self.patience,
            seed=self.seed,
            **more,
        )


def _told(progress: Progress) -> Result:
    log = [{name: entry[name] for name in CRITIC_LOG if name in entry} for entry in progress.log]
    best = progress.best.score if progress.best else float("nan")
    choices = sum(entry.get("choices", 0.0) for entry in progress.log)
    return {"log": log, "epochs": progress.epoch, "best_epoch": progress.best_epoch, "best": best, "choices": choices}
