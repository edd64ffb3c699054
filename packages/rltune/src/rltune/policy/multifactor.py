"""Slurm's multifactor priority, with GPUs in place of CPUs.

Formulas: SchedMD, 'Multifactor Priority Plugin' and 'Classic Fairshare Algorithm'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rltune.core.prepare import Factors, Likeness
from rltune.core.scores import MULTIFACTOR
from rltune.core.share import ON
from rltune.errors import InputError
from rltune.jobs import Floats, Jobs
from rltune.labels import Labels

_DAY = 86400.0


@dataclass(frozen=True)
class Multifactor:
    """Weights as in slurm.conf (PriorityWeight...), each times a factor from 0 to 1.

    `time` is no factor of Slurm's: it favours short requests, for the preset `multifactor-paper`.
    """

    name: str = "multifactor"
    age: float = 1000.0
    fairshare: float = 1000.0
    job_size: float = 1000.0
    partition: float = 1000.0
    qos: float = 1000.0
    time: float = 0.0
    max_age_s: float = 7 * _DAY  # PriorityMaxAge
    half_life_s: float = 7 * _DAY  # PriorityDecayHalfLife
    dampening: float = 1.0  # FairShareDampeningFactor
    time_scale_s: float = 7 * _DAY  # a request of this length or longer has time factor 0
    favor_small: bool = False  # PriorityFavorSmall
    partition_priority: Mapping[str, float] = field(default_factory=dict)  # PriorityJobFactor by VC
    qos_priority: Mapping[str, float] = field(default_factory=dict)
    user_shares: Mapping[str, float] = field(default_factory=dict)  # 1 where not given
    account_shares: Mapping[str, float] = field(default_factory=dict)
    code: int = MULTIFACTOR
    dynamic: bool = True
    about: str = "Slurm's weighted sum of age, fair share, size, partition and QOS"
    source: str = "SchedMD"

    def __post_init__(self) -> None:
        for constant in ("max_age_s", "half_life_s", "dampening", "time_scale_s"):
            if not getattr(self, constant) > 0:
                raise InputError(f"multifactor: {constant} should be above 0, not {getattr(self, constant)}")

    def factors(self, jobs: Jobs) -> Factors:
        """Give weights, and per job the factors that do not change while it waits."""
        parameters = np.zeros(ON + 1)
        parameters[:] = (
            self.age,
            self.fairshare,
            self.job_size,
            self.partition,
            self.qos,
            self.time,
            self.max_age_s,
            self.half_life_s,
            self.dampening,
            self.time_scale_s,
            float(self.favor_small),
            1.0,
        )
        of_job = np.stack([_factor(jobs.vc, self.partition_priority), _factor(jobs.qos, self.qos_priority)], axis=1)
        return Factors(
            parameters,
            np.ascontiguousarray(of_job),
            self._shares_within_accounts(jobs),
            _shares(jobs.account, self.account_shares),
        )

    def likeness(self, jobs: Jobs) -> Likeness | None:  # noqa: ARG002
        """Rank by the run's estimates."""
        return None

    def _shares_within_accounts(self, jobs: Jobs) -> Floats:
        """Normalise each user's share by the users of the same account (its first one, if it has several)."""
        share = np.array([self.user_shares.get(u, 1.0) for u in jobs.user.names] or [1.0])
        account = np.full(len(share), -1)
        has_user = jobs.user.codes >= 0
        users, first = np.unique(jobs.user.codes[has_user], return_index=True)
        account[users] = jobs.account.codes[has_user][first]
        siblings = np.array([share[account == a].sum() for a in account])
        return np.asarray(share / siblings)


def _shares(labels: Labels, given: Mapping[str, float]) -> Floats:
    share = np.array([given.get(name, 1.0) for name in labels.names] or [1.0])
    return np.asarray(share / share.sum())


def _factor(labels: Labels, priority: Mapping[str, float]) -> Floats:
    """Give each job its label's priority, relative to the highest."""
    highest = max(priority.values(), default=0.0)
    if highest <= 0:
        return np.zeros(len(labels))
    table = np.array([priority.get(name, 0.0) / highest for name in labels.names] + [0.0])
    return table[labels.codes]


def paper() -> Multifactor:
    """Give the variant of the RLTune paper's section 5.4: all weights 1000, requested time as the job's attribute."""
    return Multifactor(
        name="multifactor-paper",
        job_size=0.0,
        time=1000.0,
        about="multifactor with all weights 1000 and requested time as the job's attribute",
    )
