"""A model's file: JSON that is refused if it is damaged, contradicts itself or is of a later version."""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import Any

import numpy as np

from rltune.errors import InputError
from rltune.model.card import Card
from rltune.model.feature_sets import KNOWN, Recipe
from rltune.model.learned_model import Model, json_hash
from rltune.whole_file import write_whole

FORMAT = "rltune-model"
VERSION = 2  # 1: a card without types or lessons, and a sha256 of the whole file
SUFFIX = ".rltune"
_WHOLE = {1: "sha256", 2: "file_sha256"}  # by version, the hash of all the rest of the file


def save_model(model: Model, path: str | Path) -> None:
    """Write a model; a file that is there is replaced only when the new one is whole."""
    body = {"format": FORMAT, "version": VERSION, **model.deciding(), "card": model.card.to_dict()}
    body["sha256"] = model.sha256
    text = json.dumps({**body, "file_sha256": json_hash(body)}, indent=1)
    write_whole(path, text + "\n")


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
    if not isinstance(body.get("version"), int) or body["version"] not in _WHOLE:
        raise InputError(f"model {name} is of version {body.get('version')}; this rltune reads up to {VERSION}")
    if body.pop(_WHOLE[body["version"]], None) != json_hash(body):
        raise InputError(f"model {name} is damaged: its contents do not match its hash")
    try:
        return _model(body)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise InputError(f"model {name} is damaged: {error}") from error


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
    hidden = tuple(int(n) for n in body["hidden"])
    model = Model(recipe, hidden, weights, norm, body["base"], body["drift"], _card(body))
    if body["version"] > 1 and body["sha256"] != model.sha256:
        raise ValueError("what decides does not match its hash")
    return model


def _card(body: dict[str, Any]) -> Card:
    if not isinstance(body["card"], dict):
        raise TypeError("it has no card")
    return Card.from_first_version(body["card"]) if body["version"] == 1 else Card.from_dict(body["card"])
