"""What is trained, on what, and for how long."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rltune.engine.pipeline import HEADS
from rltune.errors import InputError, unknown
from rltune.estimate import get_estimator
from rltune.learn.objective import Objective
from rltune.learn.ppo import PpoSettings
from rltune.learn.training_windows import Variation
from rltune.model.feature_sets import get_recipe
from rltune.model.learned_model import BASES

BACKFILLS = ("none", "fit-first", "easy")  # under which what a rollout draws is what the core would decide
REWARDS = ("dense", "end")


@dataclass(frozen=True)
class TrainSettings:
    """Each field is an option of `rltune train`; docs/reference/training.md says what each does."""

    base: str = "saf"
    objective: Objective = field(default_factory=Objective)
    reward: str = "dense"
    estimators: tuple[str, ...] = ("history",)
    backfill: str = "none"
    head: str = "pool"
    view: int = 0
    features: str = "sampled"
    hidden: tuple[int, int] = (32, 16)
    imitate: int = 10
    epochs: int = 100
    windows: int = 100
    size: int = 256
    pool: int = 2000
    contended_s: float = 600.0
    variation: Variation = field(default_factory=Variation)
    holdout: float = 0.1
    held_windows: int = 16
    held_size: int = 1024
    held_every: int = 2
    patience: int = 15
    seed: int = 0
    ppo: PpoSettings = field(default_factory=PpoSettings)

    def __post_init__(self) -> None:
        for what, value, known in (
            ("base policy to train against", self.base, tuple(BASES)),
            ("reward", self.reward, REWARDS),
            ("backfill to train under", self.backfill, BACKFILLS),
            ("head", self.head, HEADS),
        ):
            if value not in known:
                raise unknown(what, value, known)
        get_recipe(self.features)
        if not self.estimators:
            raise InputError("name at least one estimator to train with")
        for name in self.estimators:
            get_estimator(name)

    def identity(self) -> dict[str, Any]:
        """Return all that weights depend on, and so must stay the same when a training goes on."""
        parts = {name: value for name, value in vars(self).items() if name not in {"epochs", "patience"}}
        parts |= {"objective": str(self.objective), "estimators": ",".join(self.estimators), "hidden": str(self.hidden)}
        for name in ("ppo", "variation"):
            parts |= {f"{name} {key}": value for key, value in asdict(parts.pop(name)).items()}
        return parts
