"""From a snapshot to a mixed-integer program, without a solver. Integer variables count chunks on classes of nodes.

Columns, per job j, form f, kind of chunk k, class c and slot s:
  start   1 if the job starts at the slot in the form (only for forms of several chunks; else the count says it)
  put     how many of its chunks of the kind are on nodes of the class
  touch   how many nodes of the class get something now
  spare   1 if a node of the class stays untouched and is the largest request still possible in its group
  rack    1 if the job, in several chunks, starts now on nodes of the rack (only where classes know their racks)

Of nodes alike only the number is decided, so packing within a class is a row per size d of chunk: what is placed on n
nodes with f GPUs free counts floor(g / d) units each, of n x floor(f / d). Every packing satisfies these rows; and if
the sizes divide one another, as 1, 2, 4, 8 do, whatever satisfies them can be packed. Otherwise, and for CPUs and
memory, the answer is checked on the nodes themselves (realise.py).

The objective is lexicographic by weight: jobs started now, in order of priority (a job may start only with all before
it, so their number says it); then slots by which the others start early; then idle nodes of the largest size kept
idle, and the largest single-node request that an untouched node of a group could still take; then fewest nodes; then
fewest racks, where a rack more costs something; and where all that is equal, the holes that fit best.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rltune.kernel.state.arrays import UNLIMITED
from rltune.placement.solver_view import Ask, ChunkKind, Form, SolverView

MOST_CLASSES = (12, 4)  # that a chunk may choose from: now, and at later slots
WORST_FIT = 3  # GPUs left over on a node, beyond which one fit is as bad as another
MOST_CUT = 3  # jobs that may be cut for one node more: the first that do not fit


class Put(NamedTuple):
    """A column that counts chunks."""

    ask: int
    form: int
    kind: int
    node_class: int
    slot: int


@dataclass(slots=True)
class ProgramRow:
    """Sum of coefficient x column, at most (or, `equal`, exactly) the bound."""

    terms: list[tuple[int, int]]
    bound: int
    equal: bool = False


@dataclass(slots=True)
class Packing:
    """A row of what fits on a class now: at most `unit` on each of its nodes."""

    row: int
    unit: int


@dataclass(slots=True)
class Option:
    """A job starting at a slot in a form: its start column (-1 if it is one chunk), and the columns of each kind."""

    ask: int
    form: int
    slot: int
    start: int
    puts: tuple[tuple[int, ...], ...]
    needs: tuple[int, ...]


@dataclass(slots=True)
class Program:
    """The program: maximise cost x column. `packing[c]` are the rows that say how many nodes of class c are touched."""

    snapshot: SolverView
    cost: list[int] = field(default_factory=list)
    upper: list[int] = field(default_factory=list)
    rows: list[ProgramRow] = field(default_factory=list)
    puts: dict[int, Put] = field(default_factory=dict)
    options: list[Option] = field(default_factory=list)
    packing: dict[int, list[Packing]] = field(default_factory=dict)
    touch: dict[int, int] = field(default_factory=dict)
    spare: dict[int, int] = field(default_factory=dict)
    racks: dict[int, list[int]] = field(default_factory=dict)  # by column: the puts of a job that are in the rack
    weights: Weights = field(default_factory=lambda: Weights(1, 1, 1, 1, 1))
    safe: dict[int, int] = field(default_factory=dict)  # by group: the request that stays possible in any case
    slot_rows: list[int] = field(default_factory=list)  # about capacity; the others tie columns together
    uses: list[list[tuple[int, int]]] = field(default_factory=list)  # by column: its part in rows about capacity

    def column(self, upper: int, cost: int = 0) -> int:
        """Add a column."""
        self.cost.append(cost)
        self.upper.append(upper)
        self.uses.append([])
        return len(self.cost) - 1

    def row(self, terms: list[tuple[int, int]], bound: int, *, equal: bool = False) -> int:
        """Add a row."""
        self.rows.append(ProgramRow(terms, bound, equal))
        return len(self.rows) - 1

    def limit(self, terms: list[tuple[int, int]], bound: int) -> int:
        """Add a row about capacity."""
        row = self.row(terms, bound)
        self.slot_rows.append(row)
        for column, amount in terms:
            self.uses[column].append((row, amount))
        return row

    @property
    def settled(self) -> bool:
        """Return whether what starts now, and on which classes, is the same in every answer: there is but one way.

        So it is if nobody could start now but those who surely do, and each of them has one class to go to.
        """
        now = [o for o in self.options if o.slot == 0]
        return all(o.ask < self.snapshot.sure and all(len(columns) == 1 for columns in o.puts) for o in now)


@dataclass(frozen=True, slots=True)
class Weights:
    """Of each term; one unit of a term outweighs all that the later ones can reach."""

    start: int
    early: int
    whole: int
    largest: int
    node: int
    fit: int = 1
    rack: int = 0

    @classmethod
    def of(cls, snapshot: SolverView) -> Weights:
        """Scale the terms by what the snapshot lets them reach."""
        chunks = sum(max(sum(k.n for k in f.kinds) for f in a.forms) for a in snapshot.asks)
        largest = {c.group: snapshot.groups[c.group].gpus for c in snapshot.classes}
        fits = WORST_FIT * chunks + 1
        rack, node = (fits, fits * (chunks + 1)) if snapshot.counts_racks else (0, fits)
        of_largest = node * (chunks + 1)
        whole = of_largest * (sum(largest.values()) + 1)
        early = whole * (chunks + 1)
        start = early * (len(snapshot.asks) * (len(snapshot.slots_s) - 1) + 1)
        return cls(start, early, whole, of_largest, node, rack=rack)


def build_program(snapshot: SolverView, weights: Weights | None = None) -> Program:
    """Make the program of a snapshot."""
    model = Program(snapshot, weights=weights or Weights.of(snapshot))
    order = [_best_fit_order(snapshot, s) for s in range(len(snapshot.slots_s))]
    now_is_open = True
    for j, ask in enumerate(snapshot.asks):
        options = [o for o in _options(model, order, j, ask, now=now_is_open) if all(o.puts)]
        model.options += options
        now_is_open = now_is_open and any(o.slot == 0 for o in options)
        _once(model, options, surely=j < snapshot.sure)
    _in_order(model)
    _pack_now(model)
    _pack_later(model)
    _keep_largest(model)
    return model


def _best_fit_order(snapshot: SolverView, slot: int) -> list[int]:
    """Order the classes as best fit does: least free GPUs, then the lowest node."""
    return sorted(range(len(snapshot.classes)), key=lambda c: (snapshot.classes[c].free[slot][0], c))


def _options(model: Program, order: list[list[int]], j: int, ask: Ask, *, now: bool) -> Iterator[Option]:
    """Make the columns of a job: later in the narrow form, now also cut, if it is one of the first that would not fit.

    Jobs that are sure to start now have no later slots: whatever is best starts them, as it starts most jobs.
    """
    ahead = j - model.snapshot.sure
    forms = ask.forms if 0 <= ahead < MOST_CUT else ask.forms[:1]
    for slot in range(0 if now else 1, 1 if ahead < 0 else len(model.snapshot.slots_s)):
        for f, form in enumerate(forms if slot == 0 else ask.forms[:1]):
            classes = [_candidates(model.snapshot, order[slot], ask, form, kind, slot) for kind in form.kinds]
            if all(classes):
                yield _option(model, Option(j, f, slot, -1, (), tuple(k.n for k in form.kinds)), form, classes)


def _candidates(
    snapshot: SolverView, order: list[int], ask: Ask, form: Form, kind: ChunkKind, slot: int
) -> list[tuple[int, int]]:
    """Return the classes that a chunk may go to, best fit first, and how many of the kind each could take."""
    found: list[tuple[int, int]] = []
    nodes = 0
    wanted = 2 * kind.n
    most = MOST_CLASSES[min(slot, 1)]
    takes: dict[int, tuple[int, int, int]] = {}
    piece = kind.gpus < form.pieces_below
    for c in order:
        node_class = snapshot.classes[c]
        g = node_class.group
        gpus, cpu, mem = node_class.free[slot]
        if gpus < kind.gpus or not ask.open[g][slot]:
            continue
        if piece and gpus == snapshot.groups[g].gpus:
            continue  # a piece of a job that is cut for one node more must not break up an idle node
        if g not in takes:
            takes[g] = snapshot.groups[g].takes(kind)
        if takes[g][1] <= cpu and takes[g][2] <= mem:
            found.append((c, min(kind.n, node_class.count)))
            nodes += node_class.count
            if len(found) >= most and nodes >= wanted:
                break
    return found if nodes >= kind.n else []


def _option(model: Program, option: Option, form: Form, classes: list[list[tuple[int, int]]]) -> Option:
    slots = len(model.snapshot.slots_s)
    weights = model.weights
    gain = weights.start if option.slot == 0 else weights.early * (slots - option.slot)
    chunks = sum(k.n for k in form.kinds)
    if chunks > 1:
        option.start = model.column(1, gain)
    puts = []
    for k, candidates in enumerate(classes):
        columns = []
        for c, most in candidates:
            over = min(WORST_FIT, model.snapshot.classes[c].free[0][0] - form.kinds[k].gpus)
            cost = weights.node + weights.fit * over + weights.rack * (chunks == 1) if option.slot == 0 else 0
            column = model.column(most, (gain if chunks == 1 else 0) - cost)
            model.puts[column] = Put(option.ask, option.form, k, c, option.slot)
            columns.append(column)
        if chunks > 1:
            model.row([*((i, 1) for i in columns), (option.start, -form.kinds[k].n)], 0, equal=True)
        puts.append(tuple(columns))
    option.puts = tuple(puts)
    if chunks > 1:
        _distinct_nodes(model, option)
        if option.slot == 0 and weights.rack:
            _count_racks(model, option)
    return option


def _distinct_nodes(model: Program, option: Option) -> None:
    """Let a gang have one chunk on a node: on a class at most as many as it has nodes."""
    by_class: dict[int, list[int]] = {}
    for column in (i for columns in option.puts for i in columns):
        by_class.setdefault(model.puts[column].node_class, []).append(column)
    for c, columns in by_class.items():
        if sum(model.upper[i] for i in columns) > model.snapshot.classes[c].count:
            model.limit([(i, 1) for i in columns], model.snapshot.classes[c].count)


def _count_racks(model: Program, option: Option) -> None:
    """Count the racks of a gang that starts now."""
    by_rack: dict[int, list[int]] = {}
    for column in (i for columns in option.puts for i in columns):
        by_rack.setdefault(model.snapshot.classes[model.puts[column].node_class].rack, []).append(column)
    for puts in by_rack.values():
        used = model.column(1, -model.weights.rack)
        model.racks[used] = puts
        model.row([*((i, 1) for i in puts), (used, -min(sum(option.needs), sum(model.upper[i] for i in puts)))], 0)


def starts(option: Option) -> tuple[int, ...]:
    """Return the columns that say that an option is taken; they add up to 0 or 1."""
    return (option.start,) if option.start >= 0 else option.puts[0]


def _once(model: Program, options: list[Option], *, surely: bool) -> None:
    """Start a job at most once, or surely."""
    terms = [(i, 1) for o in options for i in starts(o)]
    if terms:
        model.row(terms, 1, equal=surely)


def _in_order(model: Program) -> None:
    """Start a job now only with all before it: who is behind a blocked job is left to backfilling."""
    now: dict[int, list[tuple[int, int]]] = {}
    for o in model.options:
        if o.slot == 0:
            now.setdefault(o.ask, []).extend((i, 1) for i in starts(o))
    for j in sorted(now)[1:]:
        if j > model.snapshot.sure:
            model.row(now[j] + [(i, -1) for i, _ in now[j - 1]], 0)


def _pack_now(model: Program) -> None:
    """Let what starts now fit its nodes, and count the nodes that it touches."""
    snapshot = model.snapshot
    by_class: dict[int, list[int]] = {}
    for column, put in model.puts.items():
        if put.slot == 0:
            by_class.setdefault(put.node_class, []).append(column)
    model.safe = _safe(snapshot, set(by_class))
    largest = max((snapshot.groups[c.group].gpus for c in snapshot.classes), default=0)
    for c, columns in sorted(by_class.items()):
        node_class = snapshot.classes[c]
        idle = node_class.free[0][0] == snapshot.groups[node_class.group].gpus == largest > 0
        if idle or node_class.free[0][0] > model.safe.get(node_class.group, 0):
            model.touch[c] = model.column(node_class.count, -model.weights.whole if idle else 0)
        model.packing[c] = []
        for terms, unit in _loads(model, columns, c, 0):
            model.packing[c].append(Packing(model.limit(terms, unit * node_class.count), unit))


def _safe(snapshot: SolverView, used: set[int]) -> dict[int, int]:
    """Return per group the largest request that stays possible whatever is chosen: on classes that cannot run out."""
    chunks = sum(max(sum(k.n for k in f.kinds) for f in a.forms) for a in snapshot.asks)
    safe: dict[int, int] = {}
    for i, c in enumerate(snapshot.classes):
        if i not in used or c.count > chunks:
            safe[c.group] = max(safe.get(c.group, 0), c.free[0][0])
    return safe


def _loads(model: Program, columns: list[int], c: int, slot: int) -> Iterator[tuple[list[tuple[int, int]], int]]:
    """Return the rows of a class at a slot: what each column loads on it, and how much one of its nodes takes."""
    snapshot = model.snapshot
    node_class = snapshot.classes[c]
    group = snapshot.groups[node_class.group]
    takes = []
    for column in columns:
        put = model.puts[column]
        takes.append(group.takes(snapshot.asks[put.ask].forms[put.form].kinds[put.kind]))
    free = node_class.free[slot]
    sizes = {g for g, _, _ in takes if g > 0}
    if any(g % min(sizes) for g in sizes):
        sizes.add(1)
    for d in sorted(sizes):
        yield [(i, g // d) for i, (g, _, _) in zip(columns, takes, strict=True) if g >= d], free[0] // d
    for r in (1, 2):
        if free[r] < UNLIMITED // 2 and any(t[r] for t in takes):
            yield [(i, t[r]) for i, t in zip(columns, takes, strict=True) if t[r]], free[r]


def _pack_later(model: Program) -> None:
    """Let what runs at each later slot fit beside the running jobs that will not have ended."""
    slots = model.snapshot.slots_s
    by_class: dict[int, list[int]] = {}
    for column, put in model.puts.items():
        by_class.setdefault(put.node_class, []).append(column)
    for c, columns in sorted(by_class.items()):
        node_class = model.snapshot.classes[c]
        speed = model.snapshot.groups[node_class.group].speed
        for s in range(1, len(slots)):
            there = []
            for column in columns:
                put = model.puts[column]
                end = slots[put.slot] + model.snapshot.asks[put.ask].length_s / speed
                if put.slot == s or (put.slot < s and end > slots[s]):
                    there.append(column)
            if any(model.puts[i].slot > 0 for i in there):
                for terms, unit in _loads(model, there, c, s):
                    model.limit(terms, unit * node_class.count)


def _keep_largest(model: Program) -> None:
    """Reward, per group, the largest request that an untouched node could still take."""
    snapshot = model.snapshot
    groups: dict[int, list[int]] = {}
    for c, touched in model.touch.items():
        node_class = snapshot.classes[c]
        more = node_class.free[0][0] - model.safe.get(node_class.group, 0)
        if more <= 0:
            continue
        column = model.column(1, model.weights.largest * more)
        model.spare[c] = column
        model.row([(column, 1), (touched, 1)], node_class.count)
        groups.setdefault(node_class.group, []).append(column)
    for columns in groups.values():
        model.row([(i, 1) for i in columns], 1)
    for c, packing in model.packing.items():
        if c in model.touch:
            for p in packing:
                row = model.rows[p.row]
                row.terms.append((model.touch[c], -p.unit))
                row.bound = 0
