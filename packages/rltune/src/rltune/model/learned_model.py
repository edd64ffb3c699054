"""A learned policy as one value: weights, inputs, normalisation and a card that says where it comes from."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rltune.errors import InputError, unknown
from rltune.kernel.build.prepare import Net
from rltune.kernel.score import features as core
from rltune.kernel.score.rules import F1, FCFS, MULTIFACTOR, SAF, SJF, SRF, UNICEP, WFP3
from rltune.model.card import Card
from rltune.model.feature_sets import Recipe

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
    "multifactor-paper": MULTIFACTOR,
}
LAYERS = (2, 3)  # hidden ones
DRIFT = {"off": core.DRIFT_OFF, "job": core.DRIFT_JOB, "whole": core.DRIFT_WHOLE}
VIEWS = {"rlscheduler": 128}
OWN_DOING = ("refusals", "accept")  # inputs that a model makes itself: no range of training is outside
Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Model:
    """An actor and all that is needed to use it."""

    recipe: Recipe
    hidden: tuple[int, ...]  # widths of two layers or three
    weights: Floats  # layer by layer: weights by rows of inputs, then biases
    norm: Floats  # [input, 4]: shift, scale, and the range seen in training
    base: str = "saf"
    drift: str = "job"
    card: Card = field(default_factory=Card)

    def __post_init__(self) -> None:
        require_layers(self.hidden)
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
            *([0] if len(self.hidden) == LAYERS[0] else []),  # no third layer
            *codes,
        ]
        norm = self.norm.copy()
        norm[np.isin(self.recipe.inputs, OWN_DOING), 2:] = -np.inf, np.inf
        return Net(self.weights.copy(), np.array(plan, dtype=np.int64), norm)  # each run may change its own

    @property
    def sha256(self) -> str:
        """Return the hash of all that decides, which names this model whatever its card says."""
        return json_hash(self.deciding())

    def deciding(self) -> dict[str, Any]:
        """Return all that decides the order of jobs, as plain values that a file can hold."""
        return {
            "kind": self.recipe.kind,
            "recipe": self.recipe.name,
            "inputs": list(self.recipe.inputs),
            "hidden": list(self.hidden),
            "activation": "relu",
            "norm": [[float(f"{v:.9g}") for v in row] for row in self.norm.tolist()],
            "base": self.base,
            "drift": self.drift,
            "weights": base64.b64encode(self.weights.astype("<f4").tobytes()).decode(),
        }

    def with_card(self, **entries: Any) -> Model:
        """Replace entries of the card."""
        return replace(self, card=replace(self.card, **entries))

    def __repr__(self) -> str:
        return "\n".join(["Model", *(f"  {name}: {value}" for name, value in self._told())])

    def _repr_html_(self) -> str:
        rows = (f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in self._told())
        return f"<table><caption>Model</caption>{''.join(rows)}</table>"

    def _told(self) -> Iterator[tuple[str, str]]:
        """Describe in a few lines what it sees, what it is, and where it comes from."""
        card = self.card
        yield "inputs", ", ".join(self.recipe.inputs)
        yield "layers", " x ".join(map(str, self.sizes))
        yield "base policy", self.base
        yield "taught by", card.taught_by
        if card.estimators:
            yield "estimates", ", ".join(card.estimators)
        if card.held_out and card.held_out.cost_over_base is not None:
            over = f" on {card.held_out.windows} windows" if card.held_out.windows else ""
            yield "held out", f"{card.held_out.cost_over_base:.3f} of {self.base}'s cost{over}"
        yield "sha256", self.sha256


def require_layers(hidden: tuple[int, ...]) -> None:
    """Refuse a network that the core does not evaluate."""
    if len(hidden) not in LAYERS or min(hidden) < 1:
        raise InputError(f"a network has two hidden layers or three of one unit or more, not {list(hidden)}")


def n_weights(inputs: int, hidden: tuple[int, ...]) -> int:
    """Count the weights and biases of the actor."""
    sizes = (inputs, *hidden, 1)
    return sum((a + 1) * b for a, b in pairwise(sizes))


def json_hash(content: dict[str, Any]) -> str:
    """Return the SHA-256 of plain values, as JSON with sorted keys and no spaces."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
