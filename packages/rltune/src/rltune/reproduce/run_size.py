"""How much is run: a quick look, the paper's own cells, or everything."""

from __future__ import annotations

from dataclasses import dataclass

PAPER_BASES = ("fcfs", "sjf", "f1", "wfp3")
MORE_BASES = ("unicep", "qssf", "multifactor")


@dataclass(frozen=True)
class RunSize:
    """The sizes that an experiment may choose from."""

    name: str
    bases: tuple[str, ...]
    seeds: int
    epochs: int  # at most; a training ends when the validation score has not improved for long
    windows: int  # of 256 jobs, in an epoch
    patience: int
    every: int  # jobs between the starts of held-out windows of 1,024
    synthetic_jobs: int
    ablations: bool
    slurm_jobs: int
    slurm_seeds: int
    long_run: int  # consecutive jobs of Fig. 17
    objectives: tuple[str, ...] = ("wait", "slowdown")  # for which networks are trained under the paper's protocol
    honest_objectives: tuple[str, ...] = ("wait",)
    solver: tuple[str, ...] = ("philly", "helios")  # traces on which the product may choose placement by the solver

    @property
    def all_seeds(self) -> range:
        """Return the seeds of trainings."""
        return range(self.seeds)

    def trained_for(self, metric: str, *, honest: bool = False) -> str:
        """Return the objective of the network that is judged by a metric: its own, or wait."""
        return metric if metric in (self.honest_objectives if honest else self.objectives) else "wait"


QUICK = RunSize(
    name="quick",
    bases=PAPER_BASES,
    seeds=1,
    epochs=6,
    windows=16,
    patience=3,
    every=1024,
    synthetic_jobs=20_000,
    ablations=False,
    slurm_jobs=0,
    slurm_seeds=0,
    long_run=4_000,
    solver=(),
)
PAPER = RunSize(
    name="paper",
    bases=PAPER_BASES,
    seeds=2,
    epochs=10,
    windows=20,
    patience=2,
    every=512,
    synthetic_jobs=60_000,
    ablations=True,
    slurm_jobs=300,
    slurm_seeds=3,
    long_run=10_000,
)
FULL = RunSize(
    name="full",
    bases=(*PAPER_BASES, *MORE_BASES),
    seeds=5,
    epochs=100,
    windows=100,
    patience=8,
    every=256,
    synthetic_jobs=100_000,
    ablations=True,
    slurm_jobs=1024,
    slurm_seeds=3,
    long_run=10_000,
    objectives=("wait", "slowdown", "utilisation"),
    honest_objectives=("wait", "slowdown"),
    solver=("philly", "helios", "pai"),
)
