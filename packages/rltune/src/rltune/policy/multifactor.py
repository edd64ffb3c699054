"""Slurm's multifactor priority, with GPUs in place of CPUs.

Formulas: SchedMD, 'Multifactor Priority Plugin' and 'Classic Fairshare Algorithm'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.jobs import Floats, Jobs
from rltune.kernel.build.job_shapes import distinct_rows
from rltune.kernel.build.prepare import Factors, Likeness
from rltune.kernel.score.rules import MULTIFACTOR
from rltune.kernel.state.fair_share import ON
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
        for table in ("user_shares", "account_shares"):
            for name, share in getattr(self, table).items():
                if not 0 < share < np.inf:
                    raise InputError(f"multifactor: {table} of {name!r} should be above 0, not {share}")

    def on(self, cluster: Cluster) -> Multifactor:
        """Return the policy with the weights of the cluster's file, unless it was given others than the usual ones."""
        weights = cluster.scheduler.weights if cluster.scheduler else {}
        return replace(self, **weights) if weights and self == Multifactor() else self

    def factors(self, jobs: Jobs) -> Factors:
        """Return weights, and per job the factors that do not change while it waits."""
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
        by_name = {name.casefold(): value for name, value in self.partition_priority.items()}
        partitions = Labels(jobs.vc.codes, tuple(name.casefold() for name in jobs.vc.names))
        partition = _factor(partitions, by_name, default=1.0)
        qos = _factor(jobs.qos, self.qos_priority, default=0.0)
        return Factors(parameters, np.stack([partition, qos], axis=1), *self._shares(jobs))

    def likeness(self, jobs: Jobs) -> Likeness | None:  # noqa: ARG002
        """Rank by the run's estimates."""
        return None

    def _shares(self, jobs: Jobs) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Assign numbers to users within accounts; return their shares of the account, and the accounts' shares.

        One user of two accounts is two, as in Slurm's associations. A user without account stands beside the accounts.
        """
        of_job, pairs = distinct_rows((jobs.user.codes, jobs.account.codes))
        user, account = pairs.T
        nobody = (user < 0) & (account < 0)
        share = np.array([*(self.user_shares.get(name, 1.0) for name in jobs.user.names), 1.0])[user]
        of_account = np.array([self.account_shares.get(name, 1.0) for name in jobs.account.names])
        machine = of_account.sum() + share[(account < 0) & ~nobody].sum()
        within = np.bincount(account[account >= 0], share[account >= 0], minlength=len(of_account))
        siblings = np.append(within, machine)[account]
        return (
            np.where(nobody, -1, np.arange(len(pairs)))[of_job],
            np.where(nobody, 1.0, share / np.where(nobody, 1.0, siblings)),
            of_account / machine if len(of_account) else np.ones(1),
        )


def _factor(labels: Labels, priority: Mapping[str, float], default: float) -> Floats:
    """Return the priority of each job's label, relative to the highest."""
    given = np.array([*(priority.get(name, default) for name in labels.names), default])
    highest = max([default, *priority.values()])
    return given[labels.codes] / highest if highest > 0 else np.zeros(len(labels))


def paper() -> Multifactor:
    """Return the variant of the RLTune paper's section 5.4: all weights 1000, requested time as the job's attribute."""
    return Multifactor(
        name="multifactor-paper",
        job_size=0.0,
        time=1000.0,
        about="multifactor with all weights 1000 and requested time as the job's attribute",
        source="RLTune, section 5.4",
    )
