"""Which features a network sees, by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rltune.errors import unknown
from rltune.kernel.score import features as core

# In the order of kernel/score/features.py. The first 17 are the paper's Table 3.
FEATURES = (
    "job_id",
    "user",
    "gpus",
    "vc",
    "gpu_type",
    "requested_time",
    "submit_time",
    "req_cpu",
    "req_mem",
    "free_nodes",
    "can_schedule_now",
    "num_ways",
    "demand_supply",
    "job_size",
    "urgency",
    "future_availability",
    "fragmentation",
    "leftover",
    "queue_length",
    "busy",
    "spares",
)
PAPER = FEATURES[:17]
# What an inspector sees besides, see kernel/backfill/inspector.py.
OF_REFUSAL = ("refusals", "queue_delay", "fitting", "accept")
AS_PRINTED = ("demand_supply_eq1", "future_availability_eq2")  # the paper's equations 1 and 2, see features.md
OF_TURNS = ("attained", "displaced", "index", "willing", "runs")  # of jobs that take turns
KNOWN = FEATURES + OF_REFUSAL + AS_PRINTED + OF_TURNS
SLOTS = (
    "gpus",
    "requested_time",
    "can_schedule_now",
    "num_ways or free_nodes",
    "job_size or urgency",
    "demand_supply",
    "future_availability",
    "fragmentation",
    "submit_time",
    *AS_PRINTED,
)
LITERAL = (*SLOTS[:5], *AS_PRINTED, SLOTS[7])
NAIVE = ("job_id", "user", "gpus", "vc", "gpu_type", "requested_time", "submit_time", "req_cpu", "req_mem")
RLSCHEDULER = ("submit_time", "requested_time", "gpus", "user", "can_schedule_now", "busy")
SCHEDINSPECTOR = ("submit_time", "requested_time", "gpus", "refusals", "queue_delay", "busy", "fitting", "accept")
RIVALS = ("rlscheduler", "schedinspector")
WIDE = (
    "gpus",
    "requested_time",
    "job_size",
    "submit_time",
    "can_schedule_now",
    "leftover",
    "free_nodes",
    "demand_supply",
    "future_availability",
    "fragmentation",
    "queue_length",
    "busy",
)
AHEAD = (*WIDE, "spares")
# Of the job alone: what a running job has, too, so that a network can say who gives way to whom.
GIVING_WAY = ("gpus", "requested_time", "job_size", "submit_time", "urgency", *OF_TURNS)
CRITIC = ("submit_time", "requested_time", "gpus", "can_schedule_now", "job_size")


@dataclass(frozen=True)
class Recipe:
    """The inputs of a network: the sampler's slots, or features by name."""

    name: str
    inputs: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Return what the network is asked: who is next, or, as an inspector, whether the rule's choice may start."""
        return self.name if self.name in RIVALS else "learned"

    @property
    def samples(self) -> bool:
        """Return whether the situation decides what fills a slot."""
        return self.name.startswith("sampled") or self.name == "paper-literal"

    def codes(self) -> list[int]:
        """Return the inputs as the core knows them."""
        names = SLOTS if self.samples else KNOWN
        return [names.index(name) for name in self.inputs]

    @property
    def uses_ways(self) -> bool:
        """Return whether ways to place a job must be counted."""
        return any("num_ways" in name for name in self.inputs)

    @property
    def uses_spares(self) -> bool:
        """Return whether the smallest jobs that do not fit must be looked for."""
        return "spares" in self.inputs


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("sampled", SLOTS[:8]),
        Recipe("sampled-7", SLOTS[:6] + SLOTS[7:8]),
        Recipe("sampled-9", SLOTS[:9]),
        Recipe("paper-literal", LITERAL),
        Recipe("naive", NAIVE),
        Recipe("paper-17", PAPER),
        Recipe("wide", WIDE),
        Recipe("ahead", AHEAD),
        Recipe("turns", (*WIDE, *OF_TURNS[:2])),
        Recipe("giving-way", GIVING_WAY),
        Recipe("all", FEATURES),
        Recipe("rlscheduler", RLSCHEDULER),
        Recipe("schedinspector", SCHEDINSPECTOR),
    )
}


def get_recipe(spec: str) -> Recipe:
    """Take a recipe by its name, or as names joined by +: of features, or of recipes that are lists of such."""
    if spec in RECIPES:
        return RECIPES[spec]
    single = FEATURES + AS_PRINTED + OF_TURNS
    lists = {name: recipe.inputs for name, recipe in RECIPES.items() if set(recipe.inputs) <= set(single)}
    names = tuple(dict.fromkeys(name for part in spec.split("+") for name in lists.get(part, (part,))))
    strange = [name for name in names if name not in single]
    if strange:
        raise unknown("features", strange[0], (*RECIPES, *single), more=" (single ones are joined by +)")
    return Recipe("listed", names)


def critic_codes() -> np.ndarray:
    """Return the features that the critic sees as the core knows them."""
    return np.array([FEATURES.index(name) for name in CRITIC], dtype=np.int64)


assert len(KNOWN) == core.N_FEATURES
