"""Where an evolution stands, as a file: text, each number with all its digits, so that it goes on to the same model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.errors import InputError
from rltune.learn.cma_es import Cma, Evolution, Told
from rltune.learn.same_training import none_to_resume, require_same
from rltune.whole_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from rltune.learn.cma_es import EvolveSettings

VERSION = 1  # raised, too, when the same settings come to give other weights
ARRAYS = ("mean", "c", "path_s", "path_c")


def save_evolution(path: Path, at: Evolution, identity: dict[str, str]) -> None:
    """Write where it stands; what was there before stays until the new one is on disk."""
    cma = at.cma
    state = {
        "version": VERSION,
        "identity": identity,
        "cma": {"t": cma.t, "sigma": cma.sigma, **{name: getattr(cma, name).tolist() for name in ARRAYS}},
        "random": cma.rng.bit_generator.state,
        "best": at.best.tolist(),
        "best_score": at.best_score,
        "stale": at.stale,
        "at_train": at.at_train,
        "generation": at.generation,
        "told": [vars(news) for news in at.told],
    }
    write_whole(path, json.dumps(state))


def read_evolution(path: Path, settings: EvolveSettings, identity: dict[str, str]) -> Evolution:
    """Read where it stood, if the same jobs and settings got it there; more generations may be asked for."""
    state = _parsed(path)
    require_same(path, state["identity"], identity)
    try:
        return _restored(state, settings)
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(path) from error


def _parsed(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise none_to_resume(path) from None
    except OSError as error:
        raise InputError(f"checkpoint {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise _unreadable(path) from error
    if not isinstance(state, dict) or state.get("version") != VERSION or not isinstance(state.get("identity"), dict):
        raise _unreadable(path)
    return state


def _restored(state: dict[str, Any], settings: EvolveSettings) -> Evolution:
    rng = np.random.default_rng()
    rng.bit_generator.state = state["random"]
    kept = {name: np.array(state["cma"][name], dtype=np.float64) for name in ARRAYS}
    cma = Cma(kept["mean"], float(state["cma"]["sigma"]), settings.tried, rng, int(state["cma"]["t"]))
    cma.c, cma.path_s, cma.path_c = kept["c"], kept["path_s"], kept["path_c"]
    return Evolution(
        cma,
        np.array(state["best"], dtype=np.float64),
        float(state["best_score"]),
        int(state["stale"]),
        float(state["at_train"]),
        int(state["generation"]),
        [Told(**news) for news in state["told"]],
    )


def _unreadable(path: Path) -> InputError:
    return InputError(f"{path} is no checkpoint of an evolution that this version can resume; start without --resume")
