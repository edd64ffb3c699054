"""What a training notes of the jobs that it used: by PPO, by evolution or by a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rltune.jobs import Jobs
from rltune.model.card import Card, Lessons
from rltune.trials.parts import Part, split


def with_lessons(
    card: Card, traces: Sequence[tuple[str, Jobs]], holdout: float, begun_with: Card | None = None
) -> Card:
    """Note on a card which jobs teach; each trace is in order of submit, with its name.

    The training part teaches, the validation part chooses, the test part does neither. With `begun_with`, the card of
    the model that the training goes on from, the jobs that had taught that one count as well.
    """
    parts = [(name, jobs, split(len(jobs), holdout)) for name, jobs in traces]
    lessons = Lessons.of(
        [(name, _rows(jobs, of.training)) for name, jobs, of in parts],
        [(name, _rows(jobs, of.validation)) for name, jobs, of in parts],
    )
    if begun_with and begun_with.lessons:
        lessons = lessons.after(begun_with.lessons)
    missing = f"it began with a model, and {begun_with.unknown}" if begun_with and begun_with.unknown else ""
    return replace(card, lessons=lessons, unknown=missing)


def _rows(jobs: Jobs, part: Part) -> Jobs:
    return jobs.window(part.first, len(part))
