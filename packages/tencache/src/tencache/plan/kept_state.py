"""Optimizer state that stays on the device for good: what of it pays, by replay.

A parameter that is kept has its gradient and its state on the device, too. Nothing of it moves any more, and the device
updates it. That pays where the budget holds more than the parameters: below that, a byte of state takes the place of a
parameter that would have to be sent again.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tencache.plan.address_map import aligned
from tencache.plan.step_trace import Op, StepTrace, Update

# Of the room that is left, for state that stays.
SHARES = (1.0, 0.5, 0.25)


@dataclass(frozen=True)
class KeepCandidate:
    """A parameter, or a pack, that can be kept: its unit, in all its forms, and its bytes with and without state."""

    units: tuple[int, ...]
    own_bytes: int
    # With its gradient and its optimizer state.
    kept_bytes: int


@dataclass(frozen=True)
class KeepOffer:
    """What can be kept, and the room for its gradients and state: what the budget has beside a place for everything."""

    candidates: tuple[KeepCandidate, ...]
    room_bytes: int


def keep_offer(trace: StepTrace, budget_bytes: int) -> KeepOffer:
    """Return what can be kept of a step in a budget."""
    everything = sum(aligned(unit.bytes) for unit in trace.units)
    return KeepOffer(tuple(_candidates(trace)), max(budget_bytes - everything, 0))


def _candidates(trace: StepTrace) -> list[KeepCandidate]:
    """Return what can be kept of a step whose updates are of one unit each, as those that are made from shapes."""
    grads = {grad.unit: grad.bytes for grad in trace.grads}
    found = []
    for update in trace.updates:
        # A second copy would be of the parameter and of what state is in memory.
        state_bytes = update.second_bytes + update.file_bytes
        if len(update.units) == 1 and update.units[0] in grads and state_bytes:
            (unit,) = update.units
            found.append(KeepCandidate((unit,), trace.units[unit].bytes, grads[unit] + state_bytes))
    return found


def choices(trace: StepTrace, offer: KeepOffer) -> list[tuple[KeepCandidate, ...]]:
    """Return the sets of parameters to keep that are worth a try, none of them larger than the room.

    Kept, a parameter takes its gradient and its state from the room; its own place it has anyway.
    """
    first = {unit: uses[0] for unit, uses in trace.uses.items()}
    used = [one for one in offer.candidates if any(unit in first for unit in one.units)]
    # Those that the next forward needs first are waited for most; those that it needs last come down first.
    in_order = sorted(used, key=lambda one: min(first[unit] for unit in one.units if unit in first))
    found = {}
    for order in (in_order, in_order[::-1]):
        for share in SHARES:
            chosen = tuple(_filling(order, int(share * offer.room_bytes)))
            found[frozenset(chosen)] = chosen
    return [chosen for chosen in found.values() if chosen]


def _filling(order: Iterable[KeepCandidate], room_bytes: int) -> Iterator[KeepCandidate]:
    for one in order:
        added = aligned(one.kept_bytes) - aligned(one.own_bytes)
        if added <= room_bytes:
            room_bytes -= added
            yield one


def with_kept(trace: StepTrace, kept: Sequence[KeepCandidate], candidates: Sequence[KeepCandidate]) -> StepTrace:
    """Return the step without what moves for kept parameters; an update without units is the device's own."""
    gone = frozenset(unit for one in kept for unit in one.units)
    weights = {unit: one.kept_bytes for one in candidates for unit in one.units[:1]}
    shares = [_share(update, gone, weights) for update in trace.updates]
    staying = (_cut(update, gone, 1 - share) for update, share in zip(trace.updates, shares, strict=True))
    on_device_s = sum(update.compute_s * share for update, share in zip(trace.updates, shares, strict=True))
    return StepTrace(
        trace.units,
        tuple(_without(op, gone) for op in trace.ops),
        tuple(grad for grad in trace.grads if grad.unit not in gone),
        (*(update for update in staying if update.units), Update((), on_device_s)),
        trace.saves,
    )


def kept_bytes(kept: Iterable[KeepCandidate]) -> int:
    """Return the device's memory that kept parameters take, each tensor aligned as parameters are."""
    return sum(aligned(one.kept_bytes) for one in kept)


def _share(update: Update, gone: Collection[int], weights: dict[int, int]) -> float:
    """Return how much of an update is of kept parameters."""
    total = sum(weights.get(unit, 0) for unit in update.units)
    return sum(weights.get(unit, 0) for unit in update.units if unit in gone) / total if total else 0.0


def _cut(update: Update, gone: Collection[int], share: float) -> Update:
    return Update(
        tuple(unit for unit in update.units if unit not in gone),
        update.compute_s * share,
        round(update.file_bytes * share),
        round(update.second_bytes * share),
    )


def _without(op: Op, gone: Collection[int]) -> Op:
    touched, held = ([unit for unit in units if unit not in gone] for units in (op.touched, op.held))
    return replace(op, touched=tuple(touched), held=tuple(held))
