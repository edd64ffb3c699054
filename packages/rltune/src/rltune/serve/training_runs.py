"""Trainings and evolutions of a folder: how the held-out score went, and what the model's card says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rltune.errors import InputError
from rltune.model.card import Card
from rltune.model.curve_file import STEPS, SUFFIX, read_curve
from rltune.model.model_file import SUFFIX as MODEL_SUFFIX
from rltune.model.model_file import parse_model, read_model
from rltune.policy.by_name import MODELS
from rltune.serve.line_chart import LineChart, Point, line_chart

_MOST_RUNS = 50
# what is drawn, and under which name; each chart has one or two of these
_CHARTS = (
    (
        "Cost over the base policy's; below 1 is better",
        (("held_out", "held-out windows"), ("train", "training windows")),
    ),
    ("Reward", (("reward", "reward"),)),
    ("Entropy of the choice", (("entropy", "entropy"),)),
)
Curve = Sequence[dict[str, float]]


@dataclass(frozen=True)
class TrainingChart:
    """One chart of a training."""

    title: str
    drawn: LineChart


@dataclass(frozen=True)
class TrainingRun:
    """One training: its curves, and its model if there is one yet."""

    name: str
    step: str  # epoch or generation
    steps: int
    best: float | None  # held-out score
    best_step: int
    last: float | None
    charts: tuple[TrainingChart, ...]
    card: Card | None
    error: str = ""


@dataclass(frozen=True)
class ModelLine:
    """A model in one line."""

    name: str
    card: Card


def training_runs(folder: Path) -> tuple[TrainingRun, ...]:
    """Read the curves and models of a folder, the newest first."""
    names = {path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}")}
    names |= {path.name for path in folder.glob(f"*{MODEL_SUFFIX}")}
    newest = sorted(names, key=lambda name: (-_changed_s(folder, name), name))
    return tuple(_run(folder, name) for name in newest[:_MOST_RUNS])


def _changed_s(folder: Path, name: str) -> float:
    paths = (folder / name, folder / f"{name}{SUFFIX}")
    return max(path.stat().st_mtime for path in paths if path.exists())


def _run(folder: Path, name: str) -> TrainingRun:
    curve_path, model_path = folder / f"{name}{SUFFIX}", folder / name
    try:
        curve = read_curve(curve_path) if curve_path.exists() else []
        card = read_model(model_path).card if model_path.exists() else None
    except InputError as error:
        return TrainingRun(name, "", 0, None, 0, None, (), None, str(error))
    step = next((key for key in STEPS if curve and key in curve[0]), "")
    scores = [(entry["held_out"], int(entry[step])) for entry in curve if "held_out" in entry]
    best, best_step = min(scores, default=(None, 0))
    charts = [TrainingChart(title, drawn) for title, keys in _CHARTS if (drawn := _chart(curve, step, keys))]
    steps = int(curve[-1][step]) if curve else 0
    return TrainingRun(name, step, steps, best, best_step, scores[-1][0] if scores else None, tuple(charts), card)


def _chart(curve: Curve, step: str, keys: Sequence[tuple[str, str]]) -> LineChart | None:
    series: list[tuple[str, int, list[Point]]] = [
        (name, colour, [(entry[step], entry[key]) for entry in curve if key in entry])
        for colour, (key, name) in enumerate(keys)
    ]
    shown = [one for one in series if len(one[2]) > 1]
    return line_chart(shown) if shown else None


@cache
def shipped_cards() -> tuple[ModelLine, ...]:
    """Return the models that come with the package."""
    models = [path for path in MODELS.iterdir() if path.name.endswith(MODEL_SUFFIX)]
    return tuple(
        ModelLine(path.name.removesuffix(MODEL_SUFFIX), parse_model(path.read_text(encoding="utf-8"), path.name).card)
        for path in sorted(models, key=lambda path: path.name)
    )
