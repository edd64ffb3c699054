"""Evolve a policy on windows of a trace: what `rltune evolve` does. Needs no torch."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from math import nan
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.turns import get_turns
from rltune.errors import InputError, unknown
from rltune.estimate import get_estimator
from rltune.learn.cma_es import PLAIN, Evolution, EvolveSettings, Told, evolve, gate_of, two_scores
from rltune.learn.evolution_checkpoint import read_evolution, save_evolution
from rltune.learn.input_scaling import Queues, Scaling
from rltune.learn.replayed_windows import Stage, mean_delay, mean_slowdown, mean_wait
from rltune.learn.same_training import spelled_out, trace_hash
from rltune.learn.training_windows import TrainingWindow, Variation, Windows
from rltune.learn.what_taught import with_lessons
from rltune.model.card import Card, HeldOut
from rltune.model.feature_sets import Recipe, get_recipe
from rltune.model.learned_model import Model
from rltune.opt_in import for_replay
from rltune.parallel import Here
from rltune.policy.learned import Learned
from rltune.trials.parts import split, usual_size
from rltune.trials.warm_start import Knowledge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rltune.cluster import Cluster
    from rltune.engine.run import Machine
    from rltune.jobs import Jobs

Floats = NDArray[np.float64]
COSTS: dict[str, Callable[[Machine], float]] = {"wait": mean_wait, "slowdown": mean_slowdown, "delay": mean_delay}
# Where the search begins: a job's size against it, more or less as smallest-area-first has it.
START = {"job_size": -1.0, "gpus": -0.7, "requested_time": -0.5}


@dataclass(frozen=True)
class EvolvePlan:
    """What is evolved, and on what."""

    base: str = "saf"
    objective: str = "wait"
    estimators: tuple[str, ...] = ("history",)
    backfill: str = "none"
    placement: str = "best-fit"
    head: str = "pool"
    commit: bool = False
    cycle_s: float = 0.0  # how often the policy is asked; 0 = in every pass
    guard: str = "off"  # around the policy, and around the base policy
    preempt: str = "off"  # by which order running jobs give way; the policy orders those who are equal in it
    features: str = "wide"
    hidden: tuple[int, ...] = (8, 6)
    bends: int = 0  # see `two_scores`
    pool: int = 120  # windows to draw from
    size: int = 1024
    held_windows: int = 20
    contended_s: float = 600.0
    holdout: float = 0.0
    variation: Variation = field(default_factory=Variation)
    evolve: EvolveSettings = field(default_factory=EvolveSettings)

    def __post_init__(self) -> None:
        if self.objective not in COSTS:
            raise unknown("objective", self.objective, COSTS, "to evolve for")
        if self.preempt != "off" and self.objective != "delay":
            raise InputError(f"preempt {self.preempt}: a job may wait several times; evolve for the objective delay")
        if gate_of(get_recipe(self.features)) not in get_recipe(self.features).inputs:
            raise InputError(
                "evolution needs the feature can_schedule_now, or runs: try --features wide, or giving-way"
            )
        if "runs" in get_recipe(self.features).inputs and get_turns(self.preempt).order != "policy":
            raise InputError(
                f"features {self.features}: they say who gives way, which preempt {self.preempt} does not ask; "
                "take preempt=policy:each=0.05, or other features"
            )
        if len(self.hidden) != 2:
            raise InputError(f"evolution moves networks of two hidden layers, not {'x'.join(map(str, self.hidden))}")
        if min(self.hidden) < PLAIN + self.bends:
            behind = f" with {self.bends} bends" if self.bends else ""
            raise InputError(
                f"evolution{behind} needs layers of {PLAIN + self.bends} units or more, "
                f"not {self.hidden[0]}x{self.hidden[1]}"
            )


@dataclass(frozen=True)
class Evolved:
    """A model, and how it came to be."""

    model: Model
    told: tuple[Told, ...]
    complete: bool = True  # False after Ctrl-C: it is the best of the generations that were made

    @property
    def best(self) -> Told:
        """Return the validation that the model was kept for."""
        return best_of(self.told)


def best_of(told: Sequence[Told]) -> Told:
    """Return the validation that was best."""
    return min(told, key=lambda news: news.validation)


def evolve_policy(
    sources: Sequence[tuple[Jobs, Cluster]],
    plan: EvolvePlan,
    tell: Callable[[Told], None] = lambda _: None,
    names: Sequence[str] = (),
    checkpoint: Path | None = None,
    *,
    resume: bool = False,
) -> Evolved:
    """Evolve on the first part of traces, choose by the next part of each; the last is not looked at.

    `names` are those of the traces, for the model's card. Where it stands is written to `checkpoint` after every
    generation; with `resume` it goes on from there, to the model that it would have come to unbroken.
    """
    ordered = [(for_replay(jobs, cluster).sorted(), cluster) for jobs, cluster in sources]
    cut = [_cut(jobs, cluster, plan) for jobs, cluster in ordered]
    training, held = ([window for parts in cut for window in parts[i]] for i in range(2))
    recipe = get_recipe(plan.features)
    norm = Scaling.of(Queues.under_base(held, recipe, plan.base)).norm
    weights, matrix = two_scores(recipe, plan.hidden, norm, np.random.default_rng(plan.evolve.seed), plan.bends)
    start = _start(recipe, norm, weights, matrix)
    model = Model(recipe, plan.hidden, weights + matrix @ start, norm, plan.base)
    identity = _identity(ordered, plan, norm)
    at = Evolution.begin(start, plan.evolve)
    if checkpoint is not None and resume:
        at = read_evolution(checkpoint, plan.evolve, identity)

    def keep(now: Evolution) -> None:
        if checkpoint is not None:
            save_evolution(checkpoint, now, identity)

    cost = COSTS[plan.objective]
    stages = _staged(training, model, cost), _staged(held, model, cost)
    found, whole = evolve(weights, matrix, at, *stages, plan.evolve, cost, tell, keep)
    told = at.told
    called = [*names, *[""] * (len(ordered) - len(names))]
    card = _card(plan, [(name, jobs) for name, (jobs, _) in zip(called, ordered, strict=True)], told, held)
    return Evolved(replace(model, weights=found, card=card), tuple(told), whole)


def _start(recipe: Recipe, norm: Floats, weights: Floats, matrix: Floats) -> Floats:
    """Return where the search begins: at smallest area first, or at Gittins' order, with its score as GPU-seconds."""
    n = len(recipe.inputs)
    start = np.zeros(matrix.shape[1])
    if "index" in recipe.inputs:
        at = recipe.inputs.index("index")
        start[at] = -1.0 / norm[at, 1]
        weights[-1] = -norm[at, 0]
    else:
        start[:n] = [START.get(name, 0.0) for name in recipe.inputs]
        start[2 * n] = 1.0
    return start


def _identity(sources: Sequence[tuple[Jobs, Cluster]], plan: EvolvePlan, norm: Floats) -> dict[str, str]:
    """Return all that weights depend on; how long it goes on, and on how many threads, does not count."""
    settings = asdict(plan) | {f"evolve.{name}": value for name, value in asdict(plan.evolve).items()}
    free = {"evolve", "evolve.generations", "evolve.patience", "evolve.threads"}
    told = {name: str(value) for name, value in settings.items() if name not in free}
    traces = " ".join(trace_hash(jobs) for jobs, _ in sources)
    clusters = " ".join(spelled_out(cluster) for _, cluster in sources)
    scaling = hashlib.sha256(norm.tobytes()).hexdigest()[:16]  # last: it follows from the rest, which says more
    return {"trace": traces, "cluster": clusters, **told, "scaling": scaling}


def _card(
    plan: EvolvePlan, traces: Sequence[tuple[str, Jobs]], told: Sequence[Told], held: Sequence[TrainingWindow]
) -> Card:
    """Return where the model comes from, for its file."""
    best = best_of(told)
    card = Card(
        trace="; ".join(filter(None, (name for name, _ in traces))),
        estimators=plan.estimators,
        held_out=HeldOut(len(held), len(held[0].jobs), best.validation, generation=best.generation),
        settings={
            "objective": plan.objective,
            "backfill": plan.backfill,
            "placement": plan.placement,
            **({"preempt": plan.preempt} if plan.preempt != "off" else {}),
            "holdout": plan.holdout,
        },
    )
    return with_lessons(card, traces, plan.holdout)


def _cut(jobs: Jobs, cluster: Cluster, plan: EvolvePlan) -> tuple[list[TrainingWindow], list[TrainingWindow]]:
    parts = split(len(jobs), plan.holdout)
    known = Knowledge(jobs, plan.evolve.seed)
    pipeline = parse_pipeline(
        plan.base,
        plan.backfill,
        plan.placement,
        guard=plan.guard,
        preempt=plan.preempt,
        head=plan.head,
        commit=plan.commit,
        cycle_s=plan.cycle_s,
        seed=plan.evolve.seed,
    )
    guesses = tuple(get_estimator(name) for name in plan.estimators)
    training = Windows(
        jobs,
        cluster,
        parts.training,
        usual_size(parts.validation, plan.size),
        pipeline,
        guesses,
        plan.contended_s,
        plan.variation,
    )
    held = replace(training, part=parts.validation).spaced(plan.held_windows, known, Here())
    training = replace(training, size=min(len(held[0].jobs), len(parts.training)))
    return training.draw(plan.pool, (plan.evolve.seed,), known, Here()), held


def _staged(
    windows: list[TrainingWindow], model: Model, cost: Callable[[Machine], float]
) -> tuple[list[Stage], Floats]:
    """Make windows ready to be run again and again, with what the base policy costs in each."""
    stages, base = [], []
    for window in windows:
        machine = _beside(window).machine(window.pipeline.policy)
        machine.run()
        base.append(cost(machine))
        stages.append(Stage.of(window.machine(Learned(model))))
    return stages, np.array(base)


def _beside(window: TrainingWindow) -> TrainingWindow:
    """Return the window as the base policy has it: beside a network that says who gives way stands Gittins' order."""
    turns = window.pipeline.turns
    if turns.order != "policy":
        return window
    usual = replace(turns, order="gittins", margin=nan, cost_each=nan)
    return replace(window, pipeline=replace(window.pipeline, turns=usual))
