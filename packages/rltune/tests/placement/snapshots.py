"""Small snapshots by hand and at random."""

from collections.abc import Sequence

from hypothesis import strategies as st

from rltune.kernel.state.arrays import UNLIMITED
from rltune.placement.solver_view import Ask, ChunkKind, Form, NodeClass, PoolGroup, SolverView

FREE = UNLIMITED


def gpus(*sizes: int, n: int = 1) -> Form:
    """A form of chunks of these sizes."""
    return Form(0, tuple(ChunkKind(n, g, -1, -1) for g in sizes))


def wider(narrow: int, *sizes: int) -> Form:
    """A cut of a job of one chunk into pieces."""
    kinds = tuple(ChunkKind(sizes.count(g), g, -1, -1) for g in sorted(set(sizes), reverse=True))
    return Form(1, kinds, pieces_below=narrow)


def ask(*forms: Form, length_s: float = 100.0, slots: int = 1, groups: int = 1) -> Ask:
    return Ask(0, length_s, forms, ((True,) * slots,) * groups)


def snapshot(asks, frees, *, size: int = 8, slots=(0.0,), cpu: int = FREE, mem: int = FREE) -> SolverView:
    """One group; `frees` are per node the free GPUs at each slot, or (GPUs, CPUs, memory) at each."""
    by_free: dict = {}
    for node, free in enumerate(frees):
        vector = tuple((f, cpu, mem) if isinstance(f, int) else f for f in free)
        by_free.setdefault(vector, []).append(node)
    classes = tuple(NodeClass(0, tuple(nodes), vector) for vector, nodes in by_free.items())
    numbered = tuple(Ask(i, a.length_s, a.forms, a.open) for i, a in enumerate(asks))
    return SolverView(tuple(slots), numbered, classes, (PoolGroup(size, cpu, mem, 1.0),))


def apart(seen: SolverView, rack_of: Sequence[int] = ()) -> SolverView:
    """The same with every node a class of its own, in its rack if told."""
    racks = dict(enumerate(rack_of))
    classes = tuple(NodeClass(c.group, (n,), c.free, racks.get(n, -1)) for c in seen.classes for n in c.nodes)
    return SolverView(seen.slots_s, seen.asks, tuple(sorted(classes, key=lambda c: c.nodes)), seen.groups)


@st.composite
def asks(draw, i: int, sizes: tuple[int, ...], slots: int, cpus: bool, gangs: bool) -> Ask:
    size = draw(st.sampled_from(sizes))
    cpu = draw(st.sampled_from((1000, 3000))) if cpus else -1
    n = draw(st.sampled_from((1, 1, 2))) if gangs else 1
    forms = [Form(i, (ChunkKind(n, size, cpu, -1),))]
    if gangs and n == 1 and size % 2 == 0 and draw(st.booleans()):
        forms.append(Form(9, (ChunkKind(2, size // 2, cpu, -1),), pieces_below=size))
    length = draw(st.sampled_from((5.0, 15.0, 100.0)))
    return Ask(i, length, tuple(forms), ((True,) * slots,))


@st.composite
def snapshots(draw, sizes=(1, 2, 4), cpus: bool = False, gangs: bool = True, max_nodes: int = 3, max_jobs: int = 3):
    """Draw up to three slots, a few jobs (`gangs`: some of two chunks, some that may be cut) and nodes of 4 GPUs."""
    slots = draw(st.sampled_from(((0.0,), (0.0, 10.0), (0.0, 10.0, 20.0))))
    jobs = [draw(asks(i, sizes, len(slots), cpus, gangs)) for i in range(draw(st.integers(1, max_jobs)))]
    frees = []
    for _ in range(draw(st.integers(1, max_nodes))):
        free = sorted(draw(st.lists(st.integers(0, 4), min_size=len(slots), max_size=len(slots))))
        cpu = draw(st.sampled_from((2000, 4000))) if cpus else FREE
        frees.append(tuple((g, cpu, FREE) for g in free))
    return snapshot(jobs, frees, size=4, slots=slots, cpu=4000 if cpus else FREE)
