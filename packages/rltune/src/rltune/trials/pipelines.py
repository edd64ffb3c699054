"""Who is compared: every policy under every backfilling and placement, and pipelines named one by one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rltune.engine.guard import Guard
from rltune.engine.parse_pipeline import parse_pipeline, read_pipeline
from rltune.engine.pipeline import Pipeline
from rltune.engine.search import Search
from rltune.engine.turns import Turns
from rltune.errors import InputError, unknown
from rltune.schedule import Settings


@dataclass(frozen=True)
class Contender:
    """A pipeline as results know it: its label, and its parts by name."""

    label: str
    settings: Settings

    @property
    def policy_name(self) -> str:
        """Name the policy with what is around it."""
        return self.settings.policy

    @property
    def backfill(self) -> str:
        """Name the backfilling."""
        return self.settings.backfill

    @property
    def placement(self) -> str:
        """Name the placement."""
        return self.settings.placement


def line_up(
    policies: Sequence[Any],
    backfills: Sequence[str],
    placements: Sequence[str],
    pipelines: Sequence[str | Pipeline] = (),
    *,
    guard: str | Guard | None = None,
    search: str | int | Search | None = None,
    preempt: str | Turns | None = None,
    remaining: str | None = None,
    estimators: Sequence[str | None] = (),
    **settings: Any,
) -> tuple[Pipeline, ...]:
    """Make all pipelines, under the same settings (head, view, cycle_s, commit, seed).

    Every policy is crossed with every backfilling and placement, with the guard, the search, the turns and the
    remainders around it. `pipelines` are further ones, as they are or as tables name them; `estimators` says which of
    these know run times in a way of their own, so that one may be there twice.
    """
    policies, backfills, placements = (_listed(given) for given in (policies, backfills, placements))
    around = {"guard": guard, "search": search, "preempt": preempt, "remaining": remaining, **settings}
    crossed = [parse_pipeline(*parts, **around) for parts in itertools.product(policies, backfills, placements)]
    given = crossed + [p if isinstance(p, Pipeline) else read_pipeline(p, **settings) for p in pipelines]
    if not given:
        raise InputError("nothing to compare: give at least one policy, one backfilling and one placement")
    _require_names(estimators, len(pipelines))
    own = [*(None for _ in crossed), *(estimators or (None for _ in pipelines))]
    named = [(p.label, known) for p, known in zip(given, own, strict=True)]
    twice = sorted({label for label, known in named if named.count((label, known)) > 1})
    if twice:
        raise InputError(f"listed twice: {', '.join(twice)}")
    return tuple(given)


def _require_names(estimators: Sequence[str | None], pipelines: int) -> None:
    """Refuse estimators of single pipelines that are no names, or not one a pipeline."""
    if isinstance(estimators, str) or not all(one is None or isinstance(one, str) for one in estimators):
        raise InputError("estimators holds names, or None, one a pipeline; numbers a job are for all, as estimator")
    if len(estimators) not in {0, pipelines}:
        raise InputError(f"estimators holds {len(estimators)} for {pipelines} pipelines; give one a pipeline, or none")


def _listed(given: Sequence[Any]) -> Sequence[Any]:
    """Take a list with commas apart: `"fcfs,saf"` is what the command line calls a list."""
    return [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else given


def unique(pipelines: Sequence[Pipeline]) -> tuple[Pipeline, ...]:
    """Keep the first pipeline of each label."""
    kept: dict[str, Pipeline] = {}
    for pipeline in pipelines:
        kept.setdefault(pipeline.label, pipeline)
    return tuple(kept.values())


def contenders_of(settings: Sequence[Settings], *, by_estimator: bool = False) -> tuple[Contender, ...]:
    """Name what made schedules; equal labels are told apart by the settings that differ, or else by a number.

    With `by_estimator` every label says what is known of run times.
    """
    labels = [f"{s.label} ({s.estimator})" if by_estimator else s.label for s in settings]
    return tuple(Contender(_apart(i, labels, settings), s) for i, s in enumerate(settings))


def _apart(which: int, labels: Sequence[str], settings: Sequence[Settings]) -> str:
    alike = [i for i, label in enumerate(labels) if label == labels[which]]
    if len(alike) == 1:
        return labels[which]
    differing = [name for name, value in vars(settings[which]).items() if _differs(name, value, alike, settings)]
    told = ", ".join(f"{name.removesuffix('_s')} {getattr(settings[which], name)}" for name in differing)
    same = [i for i in alike if settings[i] == settings[which]]
    number = f" #{same.index(which) + 1}" if len(same) > 1 else ""
    return f"{labels[which]} ({told}){number}" if told else f"{labels[which]}{number}"


def _differs(name: str, value: Any, among: Sequence[int], settings: Sequence[Settings]) -> bool:
    return any(getattr(settings[i], name) != value for i in among)


def find_pipeline(contenders: Sequence[Contender] | Sequence[Pipeline], name: str | None) -> int:
    """Find a pipeline by its label, or else the first with that policy; the first of all if no name is given."""
    labels = [c.label for c in contenders]
    bare = [c.settings.label if isinstance(c, Contender) else c.label for c in contenders]
    policies = [c.policy_name for c in contenders]
    if name is None:
        return 0
    for names in (labels, bare, policies):
        if name in names:
            return names.index(name)
    raise unknown("pipeline", name, labels, "to compare with")
