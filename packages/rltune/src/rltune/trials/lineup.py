"""Who is evaluated: every policy under every backfilling and placement, and pipelines named one by one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltune.engine.run import BACKFILLS
from rltune.errors import InputError
from rltune.model.model_file import SUFFIX
from rltune.placement.placers import get_placer
from rltune.policy import get_policy
from rltune.policy.base import Scored
from rltune.policy.extended import Extended, split_extensions
from rltune.trials.runs import Contender

if TYPE_CHECKING:
    from collections.abc import Sequence

FCFS, BEST_FIT = "fcfs", "best-fit"
FORM = "POLICY, POLICY + BACKFILL, or POLICY + BACKFILL, PLACEMENT"


def line_up(
    policies: Sequence[Any],
    backfills: Sequence[str],
    placements: Sequence[str],
    pipelines: Sequence[str] = (),
) -> tuple[Contender, ...]:
    """Make all pipelines; FCFS without backfilling, by best fit, is first whether it was asked for or not."""
    crossed = [contender(*parts) for parts in itertools.product(policies, backfills, placements)]
    given = crossed + [read_pipeline(text) for text in pipelines]
    if not given:
        raise InputError("nothing to evaluate: give at least one policy, one backfilling and one placement")
    labels = [p.label for p in given]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise InputError(f"listed twice: {', '.join(twice)}")
    return unique([contender(FCFS), *given])


def contender(spec: Any, backfill: str = "none", placement: str = BEST_FIT) -> Contender:
    """Make a pipeline, named as tables show it."""
    tail = f" + {backfill}" if backfill != "none" else ""
    where = f", {placement}" if placement != BEST_FIT else ""
    return Contender(portable(spec), backfill, placement, f"{name_of(spec)}{tail}{where}")


def read_pipeline(text: str) -> Contender:
    """Read a pipeline as tables name it: `learned:philly + easy, milp:8`."""
    front, _, placement = (part.strip() for part in text.partition(","))
    policy, _, backfill = (part.strip() for part in front.partition(" + "))
    if not policy or backfill not in {"", *BACKFILLS} or "," in placement:
        raise InputError(f"pipeline {text!r} is not understood; write {FORM}, as in 'saf + easy, milp:8'")
    get_placer(placement or BEST_FIT)
    return contender(policy, backfill or "none", placement or BEST_FIT)


def portable(spec: Any) -> Any:
    """Return a policy that can be sent to another machine: a model itself, not its file; a user's function by name."""
    policy = get_policy(spec)
    inner = policy.inner if isinstance(policy, Extended) else policy
    return spec if isinstance(inner, Scored) else policy


def name_of(spec: Any) -> str:
    """Name a policy as a table can show it: a model's file without folder and suffix."""
    if not isinstance(spec, str):
        return str(getattr(spec, "name", None) or getattr(spec, "__name__", spec))
    name = split_extensions(spec)[0]
    return Path(name).stem + spec.removeprefix(name) if name.endswith(SUFFIX) else spec


def unique(pipelines: Sequence[Contender]) -> tuple[Contender, ...]:
    """Keep the first pipeline of each label."""
    kept: dict[str, Contender] = {}
    for pipeline in pipelines:
        kept.setdefault(pipeline.label, pipeline)
    return tuple(kept.values())
