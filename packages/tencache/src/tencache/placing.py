"""Finds places for the units an operation needs: the one routine that plans and on-demand loads share."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tencache.layout import Layout, Window

Score = Callable[[Window], Any]


class NoRoomError(Exception):
    """The needed units do not fit beside those that views hold."""


def place_all(
    layout: Layout,
    sizes: Mapping[int, int] | Sequence[int],
    needed: Collection[int],
    held: Collection[int],
    score: Score,
    free_since: Callable[[int], int],
) -> list[tuple[int, Window]]:
    """Place what is missing of `needed`, never moving `held`; return what must be loaded, and where.

    When the needed units themselves cut the arena into pieces too small, they are laid out anew from its beginning.
    """
    missing = [unit for unit in needed if unit not in layout]
    placed: list[tuple[int, Window]] = []
    for unit in sorted(missing, key=lambda unit: -sizes[unit]):
        window = min(layout.windows(sizes[unit], needed.__contains__), key=score, default=None)
        if window is None:
            for new, place in placed:  # what lay there before was used until then, not the newcomer
                layout.remove(new, place.ready_since(free_since))
            return _lay_out_anew(layout, sizes, needed, held, free_since)
        layout.place(unit, window, free_since)
        placed.append((unit, window))
    return placed


def _lay_out_anew(
    layout: Layout,
    sizes: Mapping[int, int] | Sequence[int],
    needed: Collection[int],
    held: Collection[int],
    free_since: Callable[[int], int],
) -> list[tuple[int, Window]]:
    moving = sorted((unit for unit in needed if unit not in held), key=lambda unit: -sizes[unit])
    for unit in moving:
        if unit in layout:
            layout.remove(unit, free_since(unit))
    placed: list[tuple[int, Window]] = []
    for unit in moving:
        window = next(iter(layout.windows(sizes[unit], needed.__contains__)), None)
        if window is None:
            raise NoRoomError
        layout.place(unit, window, free_since)
        placed.append((unit, window))
    return placed
