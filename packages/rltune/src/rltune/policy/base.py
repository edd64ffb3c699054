"""What a policy is, and what it may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rltune.jobs import Floats, Ints, Jobs
from rltune.kernel.build.prepare import Factors, Likeness, Net
from rltune.kernel.score.rules import FCFS, GIVEN
from rltune.kernel.state.fair_share import ON


@dataclass(frozen=True)
class QueueView:
    """The waiting jobs as a policy may see them: copies, oldest first, without the true run times."""

    now_s: float
    submit_s: Floats
    estimate_s: Floats
    limit_s: Floats  # what the user asked for; NaN = nothing
    gpus: Ints
    nodes: Ints  # 0 = the scheduler's choice
    cpus: Floats  # in all; NaN = by GPU share
    mem_gib: Floats
    vc: list[str | None]
    user: list[str | None]
    account: list[str | None]
    qos: list[str | None]
    name: list[str | None]
    node_free_gpus: NDArray[np.int64]
    node_gpus: NDArray[np.int64]

    @property
    def wait_s(self) -> Floats:
        """Return how long each job has waited."""
        return self.now_s - self.submit_s

    def __len__(self) -> int:
        return len(self.submit_s)


Score = Callable[[QueueView], Floats]


@runtime_checkable
class Policy(Protocol):
    """Orders the queue."""

    @property
    def name(self) -> str:
        """Name it in results."""
        ...

    @property
    def code(self) -> int:
        """Return which scores of kernel/score/rules.py it takes."""
        ...

    @property
    def dynamic(self) -> bool:
        """Return whether scores change while a job waits."""
        ...

    def factors(self, jobs: Jobs) -> Factors:
        """Return what only the multifactor rule needs."""
        ...

    def likeness(self, jobs: Jobs) -> Likeness | None:
        """Return the predictor that this policy ranks by, if it has one of its own."""
        ...


@runtime_checkable
class Networked(Policy, Protocol):
    """Orders the queue by a network that the core evaluates."""

    @property
    def net(self) -> Net:
        """Return the network."""
        ...

    @property
    def view(self) -> int:
        """Return how many of the oldest waiting jobs it sees if the run does not say; 0 = all."""
        ...


def no_factors(jobs: Jobs) -> Factors:
    """Return the factors of a policy that needs none."""
    parameters = np.ones(ON + 1)
    parameters[ON] = 0.0
    one = np.ones(1)
    return Factors(parameters, np.zeros((len(jobs), 2)), jobs.user.codes.astype(np.int64), one, one)


@dataclass(frozen=True)
class Rule:
    """A rule by its formula in the core."""

    name: str
    code: int
    dynamic: bool
    about: str
    source: str = ""

    def factors(self, jobs: Jobs) -> Factors:
        """Need none."""
        return no_factors(jobs)

    def likeness(self, jobs: Jobs) -> Likeness | None:  # noqa: ARG002
        """Rank by the run's estimates."""
        return None


FIRST_COME = Rule("fcfs", FCFS, dynamic=False, about="first come, first served")


@dataclass(frozen=True)
class Scored:
    """A user's own function from the queue to scores, lower first."""

    name: str
    score: Score = field(repr=False)
    code: int = GIVEN
    dynamic: bool = True

    def factors(self, jobs: Jobs) -> Factors:
        """Need none."""
        return no_factors(jobs)

    def likeness(self, jobs: Jobs) -> Likeness | None:  # noqa: ARG002
        """Rank by the run's estimates."""
        return None
