"""Finds places for the units an operation needs: the one routine that plans and on-demand loads share."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tencache.plan.address_map import AddressMap, AddressWindow

PlaceScore = Callable[[AddressWindow], Any]


class NoRoomError(Exception):
    """The needed units do not fit beside those that views hold."""


def place_all(
    addresses: AddressMap,
    sizes: Mapping[int, int] | Sequence[int],
    needed: Collection[int],
    held: Collection[int],
    score: PlaceScore,
    free_since: Callable[[int], int],
) -> list[tuple[int, AddressWindow]]:
    """Place the missing units of `needed` without moving `held`; return what must be loaded, and where.

    When the needed units themselves cut the arena into pieces too small, they are laid out anew from its beginning.
    """
    missing = [unit for unit in needed if unit not in addresses]
    placed: list[tuple[int, AddressWindow]] = []
    for unit in sorted(missing, key=lambda unit: -sizes[unit]):
        window = min(addresses.windows(sizes[unit], needed.__contains__), key=score, default=None)
        if window is None:
            for new, place in placed:  # what lay there before was used until then, not the newcomer
                addresses.remove(new, place.ready_since(free_since))
            return _lay_out_anew(addresses, sizes, needed, held, free_since)
        addresses.place(unit, window, free_since)
        placed.append((unit, window))
    return placed


def _lay_out_anew(
    addresses: AddressMap,
    sizes: Mapping[int, int] | Sequence[int],
    needed: Collection[int],
    held: Collection[int],
    free_since: Callable[[int], int],
) -> list[tuple[int, AddressWindow]]:
    moving = sorted((unit for unit in needed if unit not in held), key=lambda unit: -sizes[unit])
    for unit in moving:
        if unit in addresses:
            addresses.remove(unit, free_since(unit))
    placed: list[tuple[int, AddressWindow]] = []
    for unit in moving:
        window = next(iter(addresses.windows(sizes[unit], needed.__contains__)), None)
        if window is None:
            raise NoRoomError
        addresses.place(unit, window, free_since)
        placed.append((unit, window))
    return placed
