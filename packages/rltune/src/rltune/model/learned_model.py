"""A learned policy in one small file: weights, inputs, normalisation and a card that says where it comes from."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError, unknown
from rltune.kernel.build.prepare import Net
from rltune.kernel.score import features as core
from rltune.kernel.score.rules import F1, FCFS, MULTIFACTOR, SAF, SJF, SRF, UNICEP, WFP3
from rltune.model.feature_sets import KNOWN, Recipe

FORMAT = "rltune-model"
VERSION = 1
SUFFIX = ".rltune"
BASES = {
    "fcfs": FCFS,
    "sjf": SJF,
    "srf": SRF,
    "saf": SAF,
    "f1": F1,
    "wfp3": WFP3,
    "unicep": UNICEP,
    "qssf": SAF,  # by the run's own estimates: QSSF's history is not kept for a fallback
    "multifactor": MULTIFACTOR,
}
DRIFT = {"off": core.DRIFT_OFF, "job": core.DRIFT_JOB, "whole": core.DRIFT_WHOLE}
VIEWS = {"rlscheduler": 128}
OWN_DOING = ("refusals", "accept")  # inputs that a model makes itself: no range of training is outside
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """An actor and all that is needed to use it."""

    recipe: Recipe
    hidden: tuple[int, int]
    weights: Floats  # layer by layer: weights by rows of inputs, then biases
    norm: Floats  # [input, 4]: shift, scale, and the range seen in training
    base: str = "saf"
    drift: str = "job"
    card: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.weights) != n_weights(len(self.recipe.inputs), self.hidden):
            raise InputError(f"a network of {self.sizes} has not {len(self.weights)} weights")
        if self.base not in BASES:
            raise unknown("base policy", self.base, BASES, "for a model")
        if self.drift not in DRIFT:
            raise unknown("drift", self.drift, DRIFT)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the widths of the layers, inputs first."""
        return (len(self.recipe.inputs), *self.hidden, 1)

    @property
    def view(self) -> int:
        """Return how many of the oldest waiting jobs it is shown; 0 = all."""
        return VIEWS.get(self.recipe.kind, 0)

    @property
    def net(self) -> Net:
        """Return the model as the core takes it."""
        codes = self.recipe.codes()
        plan = [
            core.SAMPLED if self.recipe.samples else core.LISTED,
            int(self.recipe.uses_ways),
            int(self.recipe.uses_spares),
            BASES[self.base],
            DRIFT[self.drift],
            len(codes),
            *self.hidden,
            *codes,
        ]
        norm = self.norm.copy()
        norm[np.isin(self.recipe.inputs, OWN_DOING), 2:] = -np.inf, np.inf
        return Net(self.weights.copy(), np.array(plan, dtype=np.int64), norm)  # each run may change its own

    @property
    def sha256(self) -> str:
        """Return the hash that names this very model."""
        return _hash(_body(self))

    def with_card(self, **entries: Any) -> Model:
        """Add to the card."""
        return replace(self, card={**self.card, **entries})


def n_weights(inputs: int, hidden: tuple[int, int]) -> int:
    """Count the weights and biases of the actor."""
    sizes = (inputs, *hidden, 1)
    return sum((a + 1) * b for a, b in pairwise(sizes))


def save_model(model: Model, path: str | Path) -> None:
    """Write a model; a file that is there is replaced only when the new one is whole."""
    body = _body(model)
    text = json.dumps({**body, "sha256": _hash(body)}, indent=1)
    beside = Path(f"{path}.part")
    try:
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise InputError(f"model {path} cannot be written: {error.strerror}") from error


def read_model(path: str | Path) -> Model:
    """Read a model, and refuse what is no model, is damaged or is of a later version."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"model {path} cannot be read: {getattr(error, 'strerror', None) or 'not text'}") from error
    return parse_model(text, str(path))


def parse_model(text: str, name: str) -> Model:
    """Take a model from its text."""
    try:
        body = json.loads(text)
    except json.JSONDecodeError:
        body = None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise InputError(f"{name} is no model of rltune")
    if not isinstance(body.get("version"), int) or body["version"] > VERSION:
        raise InputError(f"model {name} is of version {body.get('version')}; this rltune reads up to {VERSION}")
    if body.pop("sha256", None) != _hash(body):
        raise InputError(f"model {name} is damaged: its contents do not match its hash")
    try:
        return _model(body)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise InputError(f"model {name} is damaged: {error}") from error


def _body(model: Model) -> dict[str, Any]:
    raw = model.weights.astype("<f4").tobytes()
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": model.recipe.kind,
        "recipe": model.recipe.name,
        "inputs": list(model.recipe.inputs),
        "hidden": list(model.hidden),
        "activation": "relu",
        "norm": [[float(f"{v:.9g}") for v in row] for row in model.norm.tolist()],
        "base": model.base,
        "drift": model.drift,
        "card": model.card,
        "weights": base64.b64encode(raw).decode(),
    }


def _model(body: dict[str, Any]) -> Model:
    recipe = Recipe(str(body["recipe"]), tuple(body["inputs"]))
    if not recipe.samples and not set(recipe.inputs) <= set(KNOWN):
        raise ValueError("it names features that this version does not know")
    if body.get("kind", recipe.kind) != recipe.kind:
        raise ValueError(f"it says that it is of kind {body['kind']}, and its inputs that it is {recipe.kind}")
    recipe.codes()
    weights = np.frombuffer(base64.b64decode(body["weights"], validate=True), dtype="<f4").astype(np.float64)
    norm = np.array(body["norm"], dtype=np.float64)
    if norm.shape != (len(recipe.inputs), 4) or not np.isfinite(weights).all():
        raise ValueError("its numbers are not as many as it says, or not finite")
    first, second = (int(n) for n in body["hidden"])
    return Model(recipe, (first, second), weights, norm, body["base"], body["drift"], body["card"])


def _hash(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
