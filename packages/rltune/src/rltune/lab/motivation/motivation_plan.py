"""What section 2's experiment consists of: nine jobs on two nodes, four arms, and how priorities are shuffled.

The paper does not print its jobs. These were chosen, by simulation, so that each of its four effects can be seen: one
user's jobs of one GPU, of several, and of both nodes, with limits from 1.25 to 4 times their run times. Slurm's order
is that of submission (weights on age and fair share alone), as consecutive numbers in the paper's figures suggest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.lab.experiment.experiment_plan import FASTEST, USERS
from rltune.lab.experiment.fine_tuning_jobs import CPUS_A_GPU
from rltune.whole_file import write_whole

GAP_S = 60.0  # from one submission to the next
_FIVE, _P100 = "slurm-five", "p100"
_FILE = "plan.json"


@dataclass(frozen=True)
class MotivationJob:
    """One job: GPUs on each of its nodes, minutes it takes, minutes it asks for."""

    name: str
    gpus: int
    nodes: int
    minutes: int
    limit_min: int


@dataclass(frozen=True)
class MotivationArm:
    """One of the four: whether jobs have nodes to themselves, and which jobs exchange priorities."""

    name: str
    figure: int  # of the paper
    whole_nodes: bool
    order: tuple[str, ...] = ()  # these jobs, as they shall stand: they share out the priorities they have


JOBS = (
    MotivationJob("1 bert", 2, 1, 10, 20),
    MotivationJob("2 whisper", 1, 1, 40, 50),
    MotivationJob("3 resnet", 2, 1, 10, 40),
    MotivationJob("4 diffusion", 1, 1, 20, 30),
    MotivationJob("5 vit", 2, 1, 40, 80),
    MotivationJob("6 llama", 4, 2, 10, 30),
    MotivationJob("7 llama-lora", 4, 2, 25, 100),
    MotivationJob("8 bert-serve", 1, 1, 40, 160),
    MotivationJob("9 vit", 2, 1, 20, 80),
)
_SWAPPED = ("5 vit", "4 diffusion")
_RAISED = ("8 bert-serve", "6 llama", "7 llama-lora")
ARMS = (
    MotivationArm("whole-nodes", 1, whole_nodes=True),
    MotivationArm("whole-nodes-shuffled", 2, whole_nodes=True, order=_SWAPPED),
    MotivationArm("packed", 3, whole_nodes=False),
    MotivationArm("packed-shuffled", 4, whole_nodes=False, order=_RAISED),
)


@dataclass(frozen=True)
class MotivationPlan:
    """What is run."""

    jobs: tuple[MotivationJob, ...] = JOBS
    arms: tuple[MotivationArm, ...] = ARMS
    factor: int = FASTEST
    estimator: str = "user"

    def __post_init__(self) -> None:
        names = [job.name for job in self.jobs]
        if len(set(names)) < len(names):
            raise InputError(f"each job needs a name of its own: {', '.join(names)}")
        for arm in self.arms:
            if strange := set(arm.order) - set(names):
                raise InputError(f"arm {arm.name} moves jobs that are not there: {', '.join(sorted(strange))}")

    @property
    def cluster(self) -> Cluster:
        """Return the two P100 nodes of the paper's five."""
        five = Cluster.preset(_FIVE)
        return Cluster(tuple(group for group in five.groups if group.gpu_type == _P100), name="slurm-two")

    def workload(self, seed: int = 0) -> Jobs:  # noqa: ARG002  every run has the same jobs
        """Make the jobs."""
        gpus = [job.gpus * job.nodes for job in self.jobs]
        return Jobs.from_arrays(
            submit_s=[i * GAP_S for i in range(len(self.jobs))],
            duration_s=[job.minutes * 60.0 for job in self.jobs],
            gpus=gpus,
            nodes=[job.nodes for job in self.jobs],
            gpus_per_node=[job.gpus for job in self.jobs],
            cpus=[count * float(CPUS_A_GPU) for count in gpus],
            limit_s=[job.limit_min * 60.0 for job in self.jobs],
            user=[USERS[0]] * len(self.jobs),
            name=[job.name for job in self.jobs],
            gpu_types=[_P100] * len(self.jobs),
        )

    def arm(self, name: str) -> MotivationArm:
        """Return an arm by its name."""
        return next(arm for arm in self.arms if arm.name == name)

    def rows(self, names: Sequence[str]) -> list[int]:
        """Return where these jobs stand in the workload."""
        return [[job.name for job in self.jobs].index(name) for name in names]

    def keep_in(self, folder: Path) -> None:
        """Write the plan down, or make sure that the folder holds the same one."""
        told = json.dumps(asdict(self), indent=1) + "\n"
        file = folder / _FILE
        if file.exists() and file.read_text(encoding="utf-8") != told:
            raise InputError(f"{folder}: holds an experiment with other settings; name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(file, told)


def shuffle(priority: Mapping[int, float], order: Sequence[int]) -> dict[int, float]:
    """Return by how much to change priorities so that these jobs stand in this order, each at another's place."""
    places = sorted((priority[job] for job in order), reverse=True)
    if len(set(places)) < len(places):
        raise InputError(f"two of the jobs {', '.join(map(str, order))} have the same priority: they cannot be moved")
    return {job: place - priority[job] for job, place in zip(order, places, strict=True)}
