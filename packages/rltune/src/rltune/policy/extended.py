"""A policy with a guard or a search around it, in one name: `saf+guard:24h:4x`, `learned+search:16`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from rltune.engine.guard import Guard, get_guard
from rltune.engine.search import Search, get_search
from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.kernel.build.prepare import Factors, Likeness
from rltune.policy.base import Policy
from rltune.schedule import Settings

_EXTENSION = re.compile(r"\+(guard|search):")


@dataclass(frozen=True)
class Extended:
    """What orders the queue, and what is around it."""

    inner: Policy
    guard: Guard
    search: Search

    @property
    def name(self) -> str:
        """Name all of it."""
        guard = f"+guard:{self.guard}" if self.guard else ""
        search = f"+search:{self.search}" if self.search else ""
        return f"{self.inner.name}{search}{guard}"

    @property
    def code(self) -> int:
        """Score as the policy inside."""
        return self.inner.code

    @property
    def dynamic(self) -> bool:
        """Be ordered anew in every pass: what is around it looks at the time."""
        return True

    def factors(self, jobs: Jobs) -> Factors:
        """Return what the policy inside needs."""
        return self.inner.factors(jobs)

    def likeness(self, jobs: Jobs) -> Likeness | None:
        """Rank as the policy inside."""
        return self.inner.likeness(jobs)

    def __getattr__(self, name: str) -> Any:
        """Have what the policy inside has: a network, or that it learns from earlier jobs."""
        if name.startswith("__") or name == "inner":
            raise AttributeError(name)
        found = getattr(self.inner, name)
        return (lambda before: replace(self, inner=found(before))) if name == "after" else found


def split_extensions(spec: str) -> tuple[str, dict[str, str]]:
    """Take a name apart: the policy's own, and what is around it by kind."""
    name, *parts = _EXTENSION.split(spec)
    kinds, values = parts[::2], parts[1::2]
    if len(set(kinds)) < len(kinds):
        raise InputError(f"policy {spec!r} has two of one kind around it: {', '.join(kinds)}")
    return name, dict(zip(kinds, values, strict=True))


def extended(policy: Policy, guard: str | Guard | None = None, search: str | int | Search | None = None) -> Policy:
    """Put a guard or a search around a policy, or one around what has the other already."""
    guards, searches = get_guard(guard), get_search(search)
    if isinstance(policy, Extended):
        for kind, had, given in (("guard", policy.guard, guards), ("search", policy.search, searches)):
            if had and given:
                raise InputError(f"policy {policy.name} has a {kind} already; {given} was given too")
        return Extended(policy.inner, policy.guard or guards, policy.search or searches)
    return Extended(policy, guards, searches) if guards or searches else policy


def searches(policy: Any) -> bool:
    """Return whether orders are tried out before they are taken: by a policy, or by its name."""
    if isinstance(policy, str):
        return "search" in split_extensions(policy)[1]
    return isinstance(policy, Extended) and bool(policy.search)


def taken_apart(policy: Policy, settings: Settings) -> tuple[Policy, Settings]:
    """Return the policy by itself, and what is around it as settings."""
    if not isinstance(policy, Extended):
        return policy, settings
    return policy.inner, replace(settings, guard=str(policy.guard), search=str(policy.search))
