"""Pipelines by name: what a user writes, made into objects. Policies, models and functions are read from files here."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from rltune.engine.guard import Guard, get_guard
from rltune.engine.pipeline import BACKFILLS, Pipeline
from rltune.engine.search import Search, get_search
from rltune.engine.turns import Turns, get_turns
from rltune.errors import InputError, unknown
from rltune.estimate.remainders import ENDS_NOW_NAME
from rltune.placement.placers import BEST_FIT, Placement, get_placement
from rltune.policy.base import Policy, Score
from rltune.policy.by_name import get_policy

FORM = "POLICY, POLICY + BACKFILL, or POLICY + BACKFILL, PLACEMENT"
EXAMPLE = ", as in 'saf + easy, milp:8'"
# EASY++ (Tsafrir, Etsion and Feitelson 2007): the shortest is backfilled first, and who outlives an estimate runs on.
NAMED = {"easy++": "fcfs+remaining:history + easy:sjf"}
_Around = TypeVar("_Around", Guard, Search, Turns)
_AROUND = re.compile(r"\+(guard|search|preempt|remaining):")


def parse_pipeline(
    policy: str | Policy | Score = "fcfs",
    backfill: str = "none",
    placement: str | Placement = BEST_FIT,
    *,
    guard: str | Guard | None = None,
    search: str | int | Search | None = None,
    preempt: str | Turns | None = None,
    remaining: str | None = None,
    **settings: Any,
) -> Pipeline:
    """Make a pipeline of names or objects; `saf+search:16+guard:24h` names what is around a policy, too."""
    name, around = split_around(policy) if isinstance(policy, str) else (policy, {})
    return Pipeline(
        policy=get_policy(name),
        backfill=backfill,
        placement=get_placement(placement),
        guard=_one_of("guard", policy, get_guard(around.get("guard")), get_guard(guard)),
        search=_one_of("search", policy, get_search(around.get("search")), get_search(search)),
        turns=_one_of("preempt", policy, get_turns(around.get("preempt")), get_turns(preempt)),
        remaining=_remaining(policy, around.get("remaining"), remaining or ENDS_NOW_NAME),
        **settings,
    )


def read_pipeline(text: str, **settings: Any) -> Pipeline:
    """Read a pipeline as tables name it: `learned:philly + easy, milp:8`; or by a name of its own, `easy++`."""
    front, _, placement = (part.strip() for part in NAMED.get(text.strip(), text).partition(","))
    policy, _, backfill = (part.strip() for part in front.partition(" + "))
    if policy and backfill not in {"", *BACKFILLS}:
        raise unknown("backfilling", backfill, BACKFILLS, f"(in pipeline {text!r})", more=EXAMPLE)
    if not policy or "," in placement:
        raise InputError(f"pipeline {text!r} is not understood; write {FORM}{EXAMPLE}")
    return parse_pipeline(policy, backfill or "none", placement or BEST_FIT, **settings)


def split_around(spec: str) -> tuple[str, dict[str, str]]:
    """Take a policy's name apart: the policy's own, and what is around it by kind."""
    name, *parts = _AROUND.split(spec)
    kinds, values = parts[::2], parts[1::2]
    if len(set(kinds)) < len(kinds):
        raise InputError(f"policy {spec!r} has two of one kind around it: {', '.join(kinds)}")
    return name, dict(zip(kinds, values, strict=True))


def _remaining(policy: Any, named: str | None, given: str) -> str:
    if named is not None and given != ENDS_NOW_NAME:
        raise InputError(f"policy {policy} says what running jobs have left already; {given} was given too")
    return named or given


def _one_of(kind: str, policy: Any, named: _Around, given: _Around) -> _Around:
    if named and given:
        raise InputError(f"policy {policy} has a {kind} already; {given} was given too")
    return named or given
