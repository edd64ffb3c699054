"""What an experiment consists of, and the folder in which it grows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import split_around
from rltune.engine.turns import Turns, get_turns
from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.lab.experiment.fine_tuning_jobs import make_jobs
from rltune.lab.experiment.job_profiles import PLAIN, JobProfile, profile_of
from rltune.lab.testbed.slurm_conf import PEOPLE
from rltune.whole_file import write_whole

FASTEST = 60  # of a clock, if a cycle takes a minute: a cycle of the controller needs a second of the machine's time
ALONE = "multifactor"  # the arm that is Slurm without us
# Chosen in the simulator on seeds 101 to 104, which no experiment uses.
TURNS_ARMS = ("learned:slurm-five", "sjf+preempt:policy:most=20")
USERS = PEOPLE[1:]  # all but root
_FILE = "plan.json"


@dataclass(frozen=True)
class Arm:
    """One way to run the jobs; without a policy it is Slurm alone."""

    name: str
    policy: str = ""
    placement: str = "best-fit"
    preempt: str = ""  # by which order running jobs that agreed give way, as in `policy:most=20`; "" = nobody does

    @classmethod
    def driven(cls, policy: str, placement: str = "best-fit") -> Arm:
        """Make an arm of the controller, named by its policy, or by the file that holds it."""
        own, around = split_around(policy)
        preempt = around.pop("preempt", "")
        bare = own + "".join(f"+{kind}:{told}" for kind, told in around.items())
        name = Path(policy).stem if "/" in policy else policy
        return cls(re.sub(r"[^\w.-]+", "-", name), bare, placement, preempt)

    @property
    def turns(self) -> Turns:
        """Return the order by which jobs give way; how cost is weighed is not the controller's to choose."""
        turns = get_turns(self.preempt or None)
        if turns != Turns(turns.order, turns.min_run_s, turns.max_preemptions, late_s=turns.late_s):
            told = f"the controller takes an order, run=, most= and late=, not {self.preempt!r}"
            raise InputError(f"arm {self.name}: {told}")
        return turns


@dataclass(frozen=True)
class ExperimentPlan:
    """What is run: arms, seeds, and all that the arms share."""

    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    jobs: int = 1024
    load: float = 1.2
    nodes: str = "slurm-five"  # a preset, or a TOML file
    factor: int = FASTEST
    cycle_s: float = 60.0
    estimator: str = "user"
    channel: str = "site-factor"
    steer: str = "exclude"
    band: int = 10_000  # numbers.band of the controller: how much the policy's order counts beside Slurm's factors
    profile: str = PLAIN  # of the jobs

    def __post_init__(self) -> None:
        fastest = int(max(FASTEST, self.cycle_s))
        if not 1 <= self.factor <= fastest:
            told = f"1 to {fastest} times as fast, not {self.factor}: a cycle must take a second of this machine's time"
            raise InputError(f"the experiment's clock may run {told}")
        if not self.arms or not self.seeds:
            raise InputError("an experiment needs at least one arm and one seed")
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise InputError(f"each arm needs a name of its own: {', '.join(names)}")
        takers = [arm for arm in self.arms if arm.turns]
        if takers and not self.jobs_profile.willing:
            raise InputError(f"arm {takers[0].name}: no job of profile {self.profile} agrees to give way")

    @property
    def cluster(self) -> Cluster:
        """Load the cluster."""
        return Cluster.load(self.nodes)

    def workload(self, seed: int) -> Jobs:
        """Make the jobs of one seed, the same for all arms."""
        return self.jobs_profile.shape(make_jobs(self.cluster, self.jobs, self.load, seed, USERS), seed)

    @property
    def jobs_profile(self) -> JobProfile:
        """Return what jobs are like."""
        return profile_of(self.profile)

    def runs(self) -> Iterator[tuple[Arm, int]]:
        """List the runs: all arms of a seed before the next seed, so that what there is can be compared."""
        return ((arm, seed) for seed in self.seeds for arm in self.arms)

    def keep_in(self, folder: Path) -> None:
        """Write the plan down, or make sure that the folder holds the same one; more seeds and arms may be added."""
        file = folder / _FILE
        if file.exists() and _fixed(_read(file)) != _fixed(self):
            raise InputError(f"{folder}: holds an experiment with other settings; name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(asdict(self), indent=1) + "\n")


def read_plan(folder: Path) -> ExperimentPlan:
    """Read the plan of an experiment's folder."""
    return _read(folder / _FILE)


def path_of(folder: Path, arm: Arm, seed: int) -> Path:
    """Return where the record of a run lies."""
    return folder / f"{arm.name}-{seed}.json"


def _read(file: Path) -> ExperimentPlan:
    try:
        told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        arms = tuple(Arm(**arm) for arm in told.pop("arms"))
        return ExperimentPlan(arms=arms, seeds=tuple(told.pop("seeds")), **told)
    except (OSError, ValueError, TypeError, KeyError):
        raise InputError(f"{file}: is not the plan of an experiment") from None


def _fixed(plan: ExperimentPlan) -> dict[str, Any]:
    """Return what all runs of a folder must share."""
    return {key: value for key, value in asdict(plan).items() if key not in {"arms", "seeds"}}
