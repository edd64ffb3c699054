"""All experiments, the most telling first: `--budget` leaves out from the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltune.errors import unknown
from rltune.reproduce.experiments.against_multifactor import AgainstMultifactor
from rltune.reproduce.experiments.against_qssf import AgainstQssf
from rltune.reproduce.experiments.costs import Costs
from rltune.reproduce.experiments.cpu_trained import CpuTrained
from rltune.reproduce.experiments.feature_count import FeatureCount
from rltune.reproduce.experiments.naive_full import NaiveFull
from rltune.reproduce.experiments.per_base import PerBase
from rltune.reproduce.experiments.rivals import Rivals
from rltune.reproduce.experiments.sla_jobs import SlaJobs
from rltune.reproduce.experiments.slurm_figures import OnRealSlurm, PackOrSpread
from rltune.reproduce.experiments.tencache_claims import Tencache
from rltune.reproduce.experiments.traces import Traces
from rltune.reproduce.experiments.transfer_between_bases import TransferBetweenBases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rltune.reproduce.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    PerBase(),
    TransferBetweenBases(),
    Rivals(),
    AgainstQssf(),
    AgainstMultifactor(),
    Traces(),
    Costs(),
    NaiveFull(),
    FeatureCount(),
    CpuTrained(),
    SlaJobs(),
    Tencache(),
    PackOrSpread(),
    OnRealSlurm(),
)


def names() -> list[str]:
    """List what `--only` takes."""
    return [name for experiment in EXPERIMENTS for name in experiment.names]


def chosen(only: Sequence[str]) -> list[Experiment]:
    """Return the experiments that are asked for, all of them if none is named."""
    for name in only:
        if name not in names():
            raise unknown("experiment", name, names())
    return [e for e in EXPERIMENTS if not only or set(only) & set(e.names)]
