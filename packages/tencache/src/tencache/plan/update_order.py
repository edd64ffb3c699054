"""In which order the host carries out the optimizer's updates."""

from collections.abc import Sequence


def order_updates(landed_s: Sequence[float], seconds: Sequence[float], begin_s: float = 0.0) -> list[int]:
    """Return the order of updates, given in the order of need with when their gradients land and how long each takes.

    The one that is needed first goes first, unless its gradients are still on their way and another could be done. An
    update takes as long as its upload if that is longer: what goes up is in the way of what comes after it.
    """
    pending = list(range(len(landed_s)))
    order: list[int] = []
    now = begin_s
    while pending:
        ready = next((index for index in pending if landed_s[index] <= now), None)
        chosen = min(pending, key=landed_s.__getitem__) if ready is None else ready
        pending.remove(chosen)
        order.append(chosen)
        now = max(now, landed_s[chosen]) + seconds[chosen]
    return order
