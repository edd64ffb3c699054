"""From numbers of chunks on classes to the nodes themselves."""

from __future__ import annotations

from dataclasses import dataclass

from rltune.placement.greedy import Values
from rltune.placement.model import Model, Option, starts


@dataclass(frozen=True, slots=True)
class Start:
    """A job that starts now: in which shape, and on which nodes in order of its chunks."""

    job: int
    shape: int
    nodes: tuple[int, ...]


@dataclass(slots=True)
class _Piece:
    """A chunk that is to find its node."""

    ask: int
    place: int  # among the chunks of its job
    takes: tuple[int, int, int]


def realise(model: Model, values: Values, rack_of: list[int]) -> tuple[list[Start], int]:
    """Choose nodes for what starts now; if a class cannot be packed, give no starts and that class, else -1.

    On a class the largest chunks choose first, each the fullest node that has room, so that few nodes are touched;
    among untouched nodes one in a rack that the job has already.
    """
    taken = [o for o in model.options if o.slot == 0 and any(values[i] for i in starts(o))]
    pieces = _pieces(model, values, taken)
    nodes: dict[tuple[int, int], int] = {}
    racks: dict[int, set[int]] = {}
    for c in sorted(pieces):
        members = model.snapshot.classes[c]
        free: dict[int, tuple[int, int, int]] = {}
        holds: dict[int, set[int]] = {}
        unused = list(members.nodes)
        for piece in sorted(pieces[c], key=lambda p: (-p.takes[0], -p.takes[1], -p.takes[2], p.ask)):
            node = _fullest(piece, free, holds)
            if node < 0:
                if not unused:
                    return [], c
                node = _next(unused, rack_of, racks.get(piece.ask, set()))
                unused.remove(node)
                free[node] = members.free[0]
            g, cpu, mem = free[node]
            free[node] = (g - piece.takes[0], cpu - piece.takes[1], mem - piece.takes[2])
            if min(free[node]) < 0:
                return [], c
            holds.setdefault(node, set()).add(piece.ask)
            racks.setdefault(piece.ask, set()).add(rack_of[node])
            nodes[piece.ask, piece.place] = node
    return [_start(model, o, nodes) for o in taken], -1


def _pieces(model: Model, values: Values, taken: list[Option]) -> dict[int, list[_Piece]]:
    """List the chunks of each class."""
    pieces: dict[int, list[_Piece]] = {}
    for option in taken:
        place = 0
        kinds = model.snapshot.asks[option.ask].forms[option.form].kinds
        for kind, columns in zip(kinds, option.puts, strict=True):
            for column in columns:
                c = model.puts[column].node_class
                takes = model.snapshot.groups[model.snapshot.classes[c].group].takes(kind)
                for _ in range(values[column]):
                    pieces.setdefault(c, []).append(_Piece(option.ask, place, takes))
                    place += 1
    return pieces


def _fullest(piece: _Piece, free: dict[int, tuple[int, int, int]], holds: dict[int, set[int]]) -> int:
    """Give the touched node with the least free GPUs that has room and holds no other chunk of the job; -1 if none."""
    fits = [
        n
        for n, left in free.items()
        if piece.ask not in holds[n] and all(a >= b for a, b in zip(left, piece.takes, strict=True))
    ]
    return min(fits, key=lambda n: (free[n][0], n), default=-1)


def _next(unused: list[int], rack_of: list[int], racks: set[int]) -> int:
    return next((n for n in unused if rack_of[n] in racks), unused[0])


def _start(model: Model, option: Option, nodes: dict[tuple[int, int], int]) -> Start:
    ask = model.snapshot.asks[option.ask]
    form = ask.forms[option.form]
    return Start(ask.job, form.shape, tuple(nodes[option.ask, i] for i in range(sum(k.n for k in form.kinds))))
