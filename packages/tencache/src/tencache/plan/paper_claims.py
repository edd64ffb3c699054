"""10Cache's claims (`paper_claims.toml`), each beside what the same models and budgets give on the virtual clock."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, Protocol

from tencache.plan.policy_costs import cost_of, pinned_bytes
from tencache.plan.rival_policies import POLICIES
from tencache.plan.transformer_shapes import Setting, find_shape, make_trace
from tencache.plan.virtual_clock import Bandwidths, StepCost
from tencache.progress_bar import progress
from tencache.quantity import parse_bandwidth, parse_bytes

LONGEST_CONTEXT = 2048


class MeasuredStep(Protocol):
    """A step under one policy, replayed or measured."""

    @property
    def step_s(self) -> float:
        """Return the seconds of a step."""

    @property
    def hit_rate(self) -> float:
        """Return the share of touches that found their unit on the device or on its way."""

    @property
    def ready_rate(self) -> float:
        """Return the share of touches that did not wait."""


@dataclass(frozen=True)
class ClaimedGain:
    """A number of times by which the paper says to be better, and what of ours is set beside it."""

    key: str
    says: str
    paper: float
    differs: str
    comparisons: tuple[tuple[str, str], ...]  # (what, against)


@dataclass(frozen=True)
class ReplayCase:
    """A model, its budget and machine."""

    model: str
    budget: str
    tokens: int
    link: str
    state_in_file: float = 0.0
    quick: bool = False

    @property
    def label(self) -> str:
        """Return the case in a few words."""
        filed = f", {self.state_in_file:.0%} of the state in a file" if self.state_in_file else ""
        return f"{self.model} in {self.budget}, {self.tokens} tokens, {self.link}{filed}"


@dataclass(frozen=True)
class CaseCosts:
    """What a case costs under each policy."""

    case: ReplayCase
    steps: dict[str, StepCost]
    pinned_exact_bytes: int
    pinned_rounded_bytes: int


@dataclass(frozen=True)
class ClaimRow:
    """One claim beside one comparison of ours: times better, over all cases, and where it is the most."""

    key: str
    says: str
    paper: float
    what: str
    against: str
    replay_most: float
    replay_least: float
    replay_case: str
    device: dict[str, float] = field(default_factory=dict)  # link -> times better, where it was measured

    @property
    def most(self) -> float:
        """Return the most that was seen, replayed or measured."""
        return max(self.replay_most, *self.device.values()) if self.device else self.replay_most

    @property
    def reached(self) -> bool:
        """Return whether ours is at least what the paper says, to its digits."""
        return self.most >= self.paper


STEP_RATIOS: dict[str, Callable[[MeasuredStep, MeasuredStep], float]] = {
    "speed": lambda ours, rival: rival.step_s / ours.step_s,
    "hit": lambda ours, rival: ours.hit_rate / rival.hit_rate,
    "ready": lambda ours, rival: ours.ready_rate / rival.ready_rate,
}


def replay_ratio(costs: CaseCosts, what: str, against: str) -> float:
    """Return how many times better the planned step is in one case."""
    if what == "host":
        return costs.pinned_rounded_bytes / costs.pinned_exact_bytes
    ours, rival = costs.steps["ahead"], costs.steps[against]
    return ours.peak_bytes / rival.peak_bytes if what == "device" else STEP_RATIOS[what](ours, rival)


def claims() -> tuple[ClaimedGain, ...]:
    """Return the paper's claims."""
    return tuple(
        ClaimedGain(**(each | {"comparisons": tuple((c["what"], c["against"]) for c in each["comparisons"])}))
        for each in claims_file()["claim"]
    )


def cases(*, quick: bool) -> tuple[ReplayCase, ...]:
    """Return the cases that are replayed."""
    every = tuple(ReplayCase(**each) for each in claims_file()["case"])
    return tuple(case for case in every if case.quick) if quick else every


def device_setting(*, quick: bool) -> dict[str, Any]:
    """Return what is measured on the simulated device."""
    given: dict[str, Any] = claims_file()["device"]
    return given | claims_file()["quick_device"] if quick else given


@lru_cache
def claims_file() -> dict[str, Any]:
    """Return the file as it is."""
    return tomllib.loads((resources.files("tencache") / "plan" / "paper_claims.toml").read_text(encoding="utf-8"))


def replay_case(case: ReplayCase) -> CaseCosts:
    """Replay one case under every policy."""
    machine = claims_file()["machine"]
    context = min(case.tokens, LONGEST_CONTEXT)
    trace = make_trace(find_shape(case.model), Setting(case.tokens, context, state_in_file=case.state_in_file))
    link, nvme = parse_bandwidth(case.link), parse_bandwidth(machine["nvme"])
    speeds = Bandwidths(link, link, nvme, nvme, staging_bytes=parse_bytes(machine["staging"]))
    budget_bytes = parse_bytes(case.budget, whole=trace.parameter_bytes)
    return CaseCosts(
        case,
        {policy: cost_of(policy, trace, budget_bytes, speeds) for policy in POLICIES},
        pinned_bytes(trace, rounded=False),
        pinned_bytes(trace, rounded=True),
    )


def replay_cases(*, quick: bool) -> list[CaseCosts]:
    """Replay the cases, one after the other."""
    return [replay_case(case) for case in progress(cases(quick=quick), "replaying")]


def claim_rows(replayed: Sequence[CaseCosts], device: Mapping[str, Mapping[str, MeasuredStep]]) -> list[ClaimRow]:
    """Set every claim beside what was replayed and, by link and policy, what was measured on the simulated device."""
    return [_row(claim, what, against, replayed, device) for claim in claims() for what, against in claim.comparisons]


def _row(
    claim: ClaimedGain,
    what: str,
    against: str,
    replayed: Sequence[CaseCosts],
    device: Mapping[str, Mapping[str, MeasuredStep]],
) -> ClaimRow:
    ratios = {costs.case.label: replay_ratio(costs, what, against) for costs in replayed}
    best = max(ratios, key=ratios.__getitem__)
    ratio = STEP_RATIOS.get(what)
    measured = {link: ratio(steps["ahead"], steps[against]) for link, steps in device.items()} if ratio else {}
    return ClaimRow(
        claim.key, claim.says, claim.paper, what, against, ratios[best], min(ratios.values()), best, measured
    )


def as_json(rows: Sequence[ClaimRow], replayed: Sequence[CaseCosts], *, quick: bool) -> dict[str, Any]:
    """Return rows and cases as plain values."""
    differs = {claim.key: claim.differs for claim in claims()}
    return {
        "paper": claims_file()["paper"],
        "quick": quick,
        "rows": [asdict(row) | {"reached": row.reached, "differs": differs[row.key]} for row in rows],
        "cases": [_case_json(costs) for costs in replayed],
        "device": device_setting(quick=quick) if any(row.device for row in rows) else None,
    }


def _case_json(costs: CaseCosts) -> dict[str, Any]:
    kept = ("step_s", "compute_s", "stall_s", "bound_s", "up_bytes", "hit_rate", "ready_rate", "peak_bytes")
    return {
        **asdict(costs.case),
        "label": costs.case.label,
        "pinned_exact_bytes": costs.pinned_exact_bytes,
        "pinned_rounded_bytes": costs.pinned_rounded_bytes,
        "policies": {policy: {name: getattr(cost, name) for name in kept} for policy, cost in costs.steps.items()},
    }
