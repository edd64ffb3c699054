"""From numbers of chunks on classes to the nodes themselves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rltune.placement.greedy import Values
from rltune.placement.program import Option, Program, starts


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


def realise(model: Program, values: Values, rack_of: list[int]) -> tuple[list[Start], int]:
    """Choose nodes for what starts now; if a class cannot be packed, give no starts and that class, else -1.

    On a class the largest chunks choose first, each the fullest node that has room, so that few nodes are touched.
    Untouched nodes of a class are alike but for their racks: a job takes those that keep it in fewest racks.
    """
    taken = [o for o in model.options if o.slot == 0 and any(values[i] for i in starts(o))]
    floor = _Floor(model, _pieces(model, values, taken), rack_of)
    for c in sorted(floor.pieces):
        for piece in sorted(floor.pieces[c], key=lambda p: (-p.takes[0], -p.takes[1], -p.takes[2], p.ask)):
            if not floor.place(piece, c):
                return [], c
    return [_start(model, o, floor.nodes) for o in taken], -1


class _Floor:
    """The nodes of all classes: which are untouched, what the others have left, and where each job is already."""

    def __init__(self, model: Program, pieces: dict[int, list[_Piece]], rack_of: list[int]) -> None:
        self.pieces = pieces
        self.nodes: dict[tuple[int, int], int] = {}  # by job and place
        self._classes = model.snapshot.classes
        self._rack_of = rack_of
        self._unused = {c: list(self._classes[c].nodes) for c in pieces}
        self._free: dict[int, dict[int, tuple[int, int, int]]] = {c: {} for c in pieces}
        self._holds: dict[int, set[int]] = {}
        self._racks: dict[int, set[int]] = {}
        self._chunks = Counter(p.ask for several in pieces.values() for p in several)

    def place(self, piece: _Piece, c: int) -> bool:
        """Find a node of the class for a chunk."""
        free = self._free[c]
        node = _fullest(piece, free, self._holds)
        if node < 0:
            if not self._unused[c]:
                return False
            node = self._untouched(piece.ask, c)
            self._unused[c].remove(node)
            free[node] = self._classes[c].free[0]
        g, cpu, mem = free[node]
        free[node] = (g - piece.takes[0], cpu - piece.takes[1], mem - piece.takes[2])
        self._holds.setdefault(node, set()).add(piece.ask)
        self._racks.setdefault(piece.ask, set()).add(self._rack_of[node])
        self.nodes[piece.ask, piece.place] = node
        return min(free[node]) >= 0

    def _untouched(self, ask: int, c: int) -> int:
        """Return an untouched node of the class: in a rack that the job has, or else the one with room for most of it.

        Of racks with room for as much the one with fewest untouched nodes is taken, then the first.
        """
        unused, mine = self._unused[c], self._racks.get(ask, set())
        if self._chunks[ask] == 1:
            return unused[0]
        near = next((n for n in unused if self._rack_of[n] in mine), -1)
        if near >= 0:
            return near
        wanted = {k: self._unplaced(ask, k) for k in self.pieces}
        room = {k: Counter(self._rack_of[n] for n in self._unused[k]) for k in self.pieces if wanted[k]}

        def merit(rack: int) -> tuple[int, int]:
            fits = sum(min(wanted[k], counts[rack]) for k, counts in room.items())
            return fits, -sum(counts[rack] for counts in room.values())

        best = max(dict.fromkeys(self._rack_of[n] for n in unused), key=merit)
        return next(n for n in unused if self._rack_of[n] == best)

    def _unplaced(self, ask: int, c: int) -> int:
        return sum(p.ask == ask and (p.ask, p.place) not in self.nodes for p in self.pieces[c])


def _pieces(model: Program, values: Values, taken: list[Option]) -> dict[int, list[_Piece]]:
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
    """Return the touched node with the least free GPUs that has room and no other chunk of the job; -1 if none."""
    fits = [
        n
        for n, left in free.items()
        if piece.ask not in holds[n] and all(a >= b for a, b in zip(left, piece.takes, strict=True))
    ]
    return min(fits, key=lambda n: (free[n][0], n), default=-1)


def _start(model: Program, option: Option, nodes: dict[tuple[int, int], int]) -> Start:
    ask = model.snapshot.asks[option.ask]
    form = ask.forms[option.form]
    return Start(ask.job, form.shape, tuple(nodes[option.ask, i] for i in range(sum(k.n for k in form.kinds))))
