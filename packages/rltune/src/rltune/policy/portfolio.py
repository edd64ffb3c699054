"""A portfolio: one of several policies, taken by what each would have made of the jobs before.

It is no network and learns no weights. Who takes is `rltune.trials.portfolio_choice`, wherever there is a history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from rltune.jobs import Jobs
from rltune.kernel.build.prepare import Factors, Likeness
from rltune.policy.base import Policy, Rule

PORTFOLIO = "portfolio"
METRICS = ("wait", "slowdown")


@dataclass(frozen=True)
class Portfolio:
    """Takes its first member unless another served earlier jobs better; a rule where networks cannot order."""

    prior: Rule  # without a history, where a network does not go with the rest
    members: tuple[str, ...]  # names of policies; the first is taken unless another is shown to be better
    first: Callable[[], Policy] = field(repr=False, compare=False)  # reads the first of them
    metric: str = METRICS[0]
    about: str = "the policy that served earlier jobs best; without a history learned"
    source: str = ""

    @property
    def name(self) -> str:
        """Name it in results."""
        return PORTFOLIO if self.metric == METRICS[0] else f"{PORTFOLIO}:{self.metric}"

    @property
    def code(self) -> int:
        """Return the score of the prior."""
        return self.prior.code

    @property
    def dynamic(self) -> bool:
        """Return whether the prior's scores change while a job waits."""
        return self.prior.dynamic

    def factors(self, jobs: Jobs) -> Factors:
        """Return what the prior needs."""
        return self.prior.factors(jobs)

    def likeness(self, jobs: Jobs) -> Likeness | None:
        """Rank as the prior does."""
        return self.prior.likeness(jobs)

    def taking(self, policy: Any) -> Policy:
        """Return the policy under a name that shows both: `portfolio=saf`."""
        taken: Policy = replace(policy, name=f"{self.name}={policy.name}")
        return taken


def settled(policy: Policy, *, networks: bool = True) -> Policy:
    """Return the policy that orders the queue: a portfolio that nobody told of a history takes its first member.

    Where networks do not go with the rest, it takes its rule.
    """
    if not isinstance(policy, Portfolio):
        return policy
    return policy.taking(policy.first() if networks else policy.prior)


def taken_notes(made: Iterable[tuple[str, Iterable[str]]]) -> tuple[str, ...]:
    """Return what portfolios took: of each label, with the policy of each of its windows by name."""
    return tuple(note for label, policies in made if (note := _taken_note(label, policies)))


def _taken_note(label: str, policies: Iterable[str]) -> str:
    taken = Counter(name.partition("=")[2] for name in policies if name.startswith(PORTFOLIO) and "=" in name)
    if not taken:
        return ""
    if len(taken) == 1:
        return f"{label} took {next(iter(taken))}."
    return f"{label} took {', '.join(f'{name} in {count}' for name, count in taken.most_common())} windows."
