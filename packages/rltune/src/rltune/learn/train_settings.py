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
from rltune.model.learned_model import BASES, require_layers
from rltune.placement.placers import get_placement

BACKFILLS = ("none", "fit-first", "easy")  # under which what a rollout draws is what the core would decide
COMMITTED_BACKFILLS = ("none", "shadow")  # and those of RLScheduler's machine
PAIRED = "paired"
REWARDS = ("dense", "end", PAIRED)


@dataclass(frozen=True)
class TrainSettings:
    """Each field is an option of `rltune train`; docs/reference/training.md says what each does."""

    base: str = "saf"
    objective: Objective = field(default_factory=Objective)
    reward: str = "dense"
    changes: int = 32
    estimators: tuple[str, ...] = ("history",)
    backfill: str = "none"
    head: str = "pool"
    view: int = 0
    placement: str = "best-fit"
    commit: bool = False
    features: str = "sampled"
    hidden: tuple[int, ...] = (32, 16)
    imitate: int = 10
    epochs: int = 100
    windows: int = 100
    size: int = 256
    pool: int = 2000
    contended_s: float = 600.0
    variation: Variation = field(default_factory=Variation)
    holdout: float = 0.0
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
            ("backfill to train under", self.backfill, COMMITTED_BACKFILLS if self.commit else BACKFILLS),
            ("head", self.head, HEADS),
        ):
            if value not in known:
                raise unknown(what, value, known)
        require_layers(self.hidden)
        self._require_placement()
        self._require_changes()
        if not self.estimators:
            raise InputError("name at least one estimator to train with")
        for name in self.estimators:
            get_estimator(name)

    def _require_placement(self) -> None:
        """Refuse what a rollout cannot place, and what one job at a time does not go with."""
        placement = get_placement(self.placement)
        inspects = get_recipe(self.features).kind == "schedinspector"
        if placement.may_solve and (self.commit or inspects):
            what = "commit mode" if self.commit else "an inspector"
            raise InputError(f"{what} places jobs one at a time: placement '{placement}' is not for it")
        if self.commit and inspects:
            raise InputError("an inspector is asked in every pass: commit mode is not for it")

    def _require_changes(self) -> None:
        """Refuse paired runs where choices are not single jobs of an ordinary pass."""
        if self.changes < 1:
            raise InputError(f"at least one choice of a window must be changed, not {self.changes}")
        inspects = get_recipe(self.features).kind == "schedinspector"
        if self.reward == PAIRED and (self.commit or inspects or get_placement(self.placement).may_solve):
            raise InputError(f"reward {PAIRED!r} is not for commit mode, an inspector or a solver: take dense or end")

    def identity(self) -> dict[str, Any]:
        """Return all that weights depend on, and so must stay the same when a training goes on."""
        parts = {name: value for name, value in vars(self).items() if name not in {"epochs", "patience"}}
        parts |= {"objective": str(self.objective), "estimators": ",".join(self.estimators), "hidden": str(self.hidden)}
        for name in ("ppo", "variation"):
            parts |= {f"{name} {key}": value for key, value in asdict(parts.pop(name)).items()}
        return parts
