"""A model that was trained on the jobs it is tested on proves nothing; its card tells."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from rltune.engine.pipeline import Pipeline
from rltune.jobs import Jobs
from rltune.trials.parts import Part


def leaks(pipelines: Iterable[Pipeline], jobs: Jobs, parts: Iterable[Part]) -> tuple[str, ...]:
    """Name the models that were trained on jobs of these parts of this very trace."""
    cards = {p.policy_name: card for p in pipelines if (card := _card(p.policy))}
    if not cards:
        return ()
    trace = fingerprint(jobs)
    same = {name: card for name, card in cards.items() if card.get("trace_sha256") == trace}
    return tuple(note for part in parts for name, card in same.items() for note in _note(name, card, part))


def fingerprint(jobs: Jobs) -> str:
    """Return the hash by which a model's card names its trace; the jobs are in order of submit."""
    made = hashlib.sha256()
    for column in (jobs.submit_s, jobs.duration_s, jobs.gpus, jobs.vc.codes, jobs.user.codes):
        made.update(np.ascontiguousarray(column).tobytes())
    return made.hexdigest()


def _card(policy: Any) -> dict[str, Any]:
    return getattr(getattr(policy, "model", None), "card", None) or {}


def _note(name: str, card: dict[str, Any], part: Part) -> Iterator[str]:
    first, end = card.get("trained_on_jobs", (0, 0))
    shared = min(end, part.end) - max(first, part.first)
    if shared > 0:
        seen = f"{name} was trained on {shared:,} of the {len(part):,} jobs of the {part.name} part"
        yield f"{seen}, so it has seen what it is judged by: give the --holdout that it was trained with."
