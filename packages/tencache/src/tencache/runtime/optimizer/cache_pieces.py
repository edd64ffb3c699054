"""Updates of large parameters in pieces: what an optimizer makes on the way stays in the processor's cache.

torch's optimizers compute element by element, so pieces change no bit. Those that are not fused make several tensors of
a parameter's size on the way, and take half the time in pieces.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from tencache.runtime.optimizer.stand_in import StandIn
from tencache.runtime.tensors.parameter_entry import ParameterEntry, cut_pieces, flat

Members = Sequence[Sequence[Any]]


def may_be_cut(entry: ParameterEntry, gradient: Tensor | None, state: Any, group: dict[str, Any]) -> bool:
    """Return whether a parameter's update can be cut into pieces, and is worth it."""
    return (
        gradient is not None
        and bool(state)
        and not group.get("fused")
        and entry.is_dense()
        and len(cut_pieces(entry.shape.numel(), entry.dtype.itemsize)) > 1
        and (gradient.shape, gradient.stride(), gradient.dtype) == (entry.shape, entry.stride, entry.dtype)
        and all(is_piecewise(value, entry) for value in state.values())
    )


def step_in_pieces(
    stand_in: StandIn,
    members: Members,
    entry: ParameterEntry,
    data: Tensor,
    gradient: Tensor,
    state: dict[str, Any],
    before: Callable[[int], None] = lambda _: None,
    after: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Update one parameter, given by its elements in a row, and return its state.

    `members` has, for each group, something for each time that the parameter is in it. `before` and `after` are called
    with the number of each piece.
    """
    new = state
    for number, (begin, end) in enumerate(cut_pieces(data.numel(), data.element_size())):
        before(number)
        piece = data[begin:end]
        piece.grad = gradient[begin:end]
        # What is one number for all of the parameter, as the count of steps, each piece makes anew.
        new = {key: _cut(value, entry, begin, end) for key, value in state.items()}
        states = defaultdict(dict, {piece: new})
        stand_in.step([[piece for _ in some] for some in members], states)
        new = states[piece]
        after(number)
    return {key: state[key] if is_whole(state.get(key), entry) else value for key, value in new.items()}


def is_whole(value: Any, entry: ParameterEntry) -> bool:
    """Return whether a part of the state has an element for each of the parameter's, at the same place."""
    return isinstance(value, Tensor) and (value.shape, value.stride()) == (entry.shape, entry.stride)


def is_piecewise(value: Any, entry: ParameterEntry) -> bool:
    """Return whether a part of the state can be cut into pieces, or is one number."""
    return is_whole(value, entry) or not isinstance(value, Tensor) or value.numel() == 1


def _cut(value: Any, entry: ParameterEntry, begin: int, end: int) -> Any:
    if is_whole(value, entry):
        return flat(value)[begin:end]
    return value.clone() if isinstance(value, Tensor) else value
