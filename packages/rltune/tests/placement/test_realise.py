"""From classes to nodes, and what is promised for later."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from snapshots import apart, ask, gpus, snapshot, snapshots

from rltune.placement.highs import Effort, Solver
from rltune.placement.program import build_program
from rltune.placement.promise import early, kept_early
from rltune.placement.realise import realise
from rltune.placement.solver_view import ChunkKind, Form

SOLVER = Solver(Effort(nodes=10_000, ties=True))


def racks_of(nodes: tuple[int, ...], rack_of: list[int]) -> int:
    return len({rack_of[n] for n in nodes})


@given(rack_of=st.lists(st.integers(0, 3), min_size=2, max_size=8), chunks=st.integers(2, 8))
def test_a_gang_on_alike_nodes_takes_fewest_racks(rack_of, chunks):
    """Same rack before across racks: no choice of the class's nodes is in fewer."""
    chunks = min(chunks, len(rack_of))
    seen = snapshot([ask(Form(0, (ChunkKind(chunks, 8, -1, -1),)))], [(8,)] * len(rack_of))
    model = build_program(seen)
    (start,), broken = realise(model, SOLVER.answer(model).values, rack_of)
    assert broken < 0
    fewest = min(racks_of(c, rack_of) for c in itertools.combinations(range(len(rack_of)), chunks))
    assert racks_of(start.nodes, rack_of) == fewest


def test_a_gang_on_two_classes_stays_in_a_rack():
    """The rack that has room for both kinds of its chunks, though another has the first node."""
    seen = snapshot([ask(gpus(8, 4))], [(8,), (4,), (8,), (4,)])
    model = build_program(seen)
    (start,), _ = realise(model, SOLVER.answer(model).values, [0, 1, 2, 2])
    assert start.nodes == (2, 3)


@given(seen=snapshots(sizes=(1, 2, 3, 4), max_nodes=5, max_jobs=4), rack_of=st.lists(st.integers(0, 2), min_size=5))
def test_racks_never_cost_a_start(seen, rack_of):
    """Whatever the racks, the same jobs start: they only choose among nodes alike."""
    model = build_program(seen)
    values = SOLVER.answer(model).values
    near, far = (realise(model, values, racks) for racks in (rack_of, [0] * 5))
    assert near[1] == far[1]
    assert [(s.job, s.shape) for s in near[0]] == [(s.job, s.shape) for s in far[0]]


def over_promised():
    """Two nodes of four GPUs later on: a gang of two times two must use both, so nobody gets four beside it."""
    jobs = [ask(gpus(4), slots=2), ask(Form(0, (ChunkKind(2, 2, -1, -1),)), slots=2), ask(gpus(4), slots=2)]
    return build_program(snapshot(jobs, [(0, 4), (0, 4)], size=4, slots=(0.0, 10.0)))


def test_a_gang_is_not_promised_what_nodes_cannot_hold():
    """The class has room for the gang and a large job, no two nodes have: the promise counts for one of them."""
    model = over_promised()
    values = SOLVER.answer(model).values
    assert early(model, values) == 2
    assert kept_early(model, values, []) == 1


@given(seen=snapshots(sizes=(1, 2, 3, 4), max_nodes=4, max_jobs=4))
def test_promises_are_kept_at_most(seen):
    """Checked on nodes a promise never grows; and with every node a class of its own all that is promised is kept."""
    for model in (build_program(seen), build_program(apart(seen))):
        values = SOLVER.answer(model).values
        now, broken = realise(model, values, [0] * 5)
        if broken < 0:
            assert kept_early(model, values, now) <= early(model, values)
    assert broken >= 0 or kept_early(model, values, now) == early(model, values)
