"""The program: exact on tiny cases, never worse than greedy, and every term of its objective matters."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import best
from snapshots import apart, ask, gpus, snapshot, snapshots, wider

from rltune.placement.greedy import finish, greedy, started, worth
from rltune.placement.highs import Effort, Solver, feasible
from rltune.placement.program import Program, Weights, build_program, starts
from rltune.placement.realise import realise
from rltune.placement.solver_view import ChunkKind, Form

SOLVER = Solver(Effort(nodes=10_000, ties=True))


def expected(model: Program, terms: tuple[int, ...]) -> int:
    """Weigh the oracle's terms as the model does, who counts the largest request from what is safe."""
    w = model.weights
    now, early, idle, largest, nodes, racks, fit = terms
    most = now * w.start + early * w.early + idle * w.whole + nodes * w.node + racks * w.rack + fit * w.fit
    return most + (largest - sum(model.safe.values())) * w.largest


def total(model: Program) -> int:
    """Solve, and count the largest request from nothing again."""
    return SOLVER.answer(model).worth + sum(model.safe.values()) * model.weights.largest


def chosen(model: Program, values: list[int]) -> dict[int, tuple[int, int, tuple[int, ...]]]:
    """Give per job that starts: slot, form, classes."""
    taken = [o for o in model.options if any(values[i] for i in starts(o))]
    return {
        o.ask: (o.slot, o.form, tuple(model.puts[i].node_class for k in o.puts for i in k if values[i])) for o in taken
    }


def solve(seen, **weights):
    model = build_program(seen, replace(Weights.of(seen), **weights))
    return chosen(model, SOLVER.answer(model).values)


@given(seen=snapshots())
def test_optimal_on_single_nodes(seen):
    """With every node a class of its own the answer is the best there is."""
    model = build_program(apart(seen))
    answer = SOLVER.answer(model)
    assert answer.worth == expected(model, best(seen))


@given(seen=snapshots(cpus=True, max_jobs=2))
def test_optimal_with_cpus(seen):
    """CPUs are a limit of their own."""
    model = build_program(apart(seen))
    assert SOLVER.answer(model).worth == expected(model, best(seen))


@given(seen=snapshots(), rack_of=st.lists(st.integers(0, 1), min_size=3, max_size=3))
def test_optimal_with_racks(seen, rack_of):
    """Where classes know their racks, the answer is the best there is in racks, too."""
    racked = apart(seen, rack_of)
    model = build_program(racked)
    assert SOLVER.answer(model).worth == expected(model, best(racked))


@given(seen=snapshots(max_nodes=5, gangs=False))
def test_alike_nodes_are_one_class(seen):
    """Jobs of one chunk whose sizes divide one another lose nothing when nodes alike are only counted."""
    together, single = build_program(seen), build_program(apart(seen))
    assert total(together) == total(single)
    assert len(together.cost) <= len(single.cost)


@given(seen=snapshots(sizes=(1, 2, 3, 4), max_nodes=4))
def test_counting_nodes_forbids_nothing(seen):
    """Whatever is possible on the nodes is possible on the classes; the converse is checked when nodes are chosen."""
    assert total(build_program(seen)) >= total(build_program(apart(seen)))


@given(seen=st.one_of(snapshots(sizes=(1, 2, 3, 4), max_nodes=6, max_jobs=6), snapshots(cpus=True, max_jobs=5)))
def test_never_worse_than_greedy(seen):
    """Whatever the limits of the solver, its answer is feasible and its objective at least that of the greedy one."""
    model = build_program(seen)
    first = greedy(model)
    assert feasible(model, first)
    for nodes in (0, 1, 1000):
        answer = Solver(Effort(nodes=nodes)).answer(model)
        assert answer.worth >= worth(model, first) == answer.greedy_worth
        assert feasible(model, answer.values)
        assert started(model, answer.values) >= started(model, first)


@given(seen=snapshots(sizes=(1, 2, 3), cpus=True, max_nodes=5, max_jobs=5))
def test_answers_are_packed_on_nodes(seen):
    """What starts fits its nodes, gangs on distinct ones; classes that cannot be packed are found out."""
    model = build_program(seen)
    values = SOLVER.answer(model).values
    nodes, broken = realise(model, values, [0] * 10)
    if broken >= 0:
        model = build_program(apart(seen))
        values = SOLVER.answer(model).values
        nodes, broken = realise(model, values, [0] * 10)
    assert broken < 0
    assert len(nodes) == started(model, values)
    left = {n: list(c.free[0]) for c in seen.classes for n in c.nodes}
    for start in nodes:
        form = next(f for f in seen.asks[start.job].forms if f.shape == start.shape)
        assert len(set(start.nodes)) == len(start.nodes)
        for node, kind in zip(start.nodes, (k for k in form.kinds for _ in range(k.n)), strict=True):
            for r, amount in enumerate(seen.groups[0].takes(kind)):
                left[node][r] -= amount
    assert min((min(v) for v in left.values()), default=0) >= 0


def test_start_term():
    """The first job leaves the node with CPUs to the second, though it fits that node best."""
    jobs = [ask(Form(i, (ChunkKind(1, 2, cpu, -1),))) for i, cpu in enumerate((1000, 4000))]
    seen = snapshot(jobs, [((2, 8000, 1 << 40),), ((3, 2000, 1 << 40),)], cpu=16000)
    model = build_program(seen)
    assert started(model, greedy(model)) == 1
    assert solve(seen) == {0: (0, 0, (1,)), 1: (0, 0, (0,))}
    assert set(solve(seen, start=0, early=0)) == set()


def test_early_term():
    """A job keeps off the node that will be idle when a job of whole nodes could start."""
    jobs = [ask(gpus(2), slots=2), ask(gpus(8), slots=2)]
    seen = snapshot(jobs, [(2, 8), (2, 4)], slots=(0.0, 10.0))
    assert solve(seen) == {0: (0, 0, (1,)), 1: (1, 0, (0,))}
    assert solve(seen, early=0)[0] == (0, 0, (0,))


def test_whole_node_term():
    """A job is cut onto two nodes in use rather than breaking up the idle one; fewest nodes alone would not."""
    seen = snapshot([ask(gpus(4), wider(4, 2, 2))], [(8,), (8,), (2,), (2,), (3,)])
    assert solve(seen)[0][1] == 1
    assert solve(seen, whole=0)[0] == (0, 0, (0,))


def test_largest_request_term():
    """A job is cut onto small holes, so that the largest hole stays for others; fewest nodes alone would not."""
    seen = snapshot([ask(gpus(6), wider(6, 3, 3))], [(6,), (3,), (3,)])
    assert solve(seen)[0][1] == 1
    assert solve(seen, largest=0)[0] == (0, 0, (0,))


def test_fewest_nodes_term():
    """Where nothing else tells them apart, one node is better than two."""
    seen = snapshot([ask(gpus(2), wider(2, 1, 1))], [(2,), (1,), (1,), (7,)])
    assert solve(seen)[0] == (0, 0, (0,))
    assert solve(seen, node=-1)[0][1] == 1


def test_fewest_racks_term():
    """A gang stays in the rack of its larger chunk, though the smaller would fit better in another rack."""
    seen = apart(snapshot([ask(gpus(4, 2))], [(4,), (2,), (3,), (7,)]), [0, 1, 0, 2])
    assert solve(seen)[0] == (0, 0, (0, 2))
    assert solve(seen, rack=0)[0] == (0, 0, (0, 1))


def test_best_fit_breaks_ties():
    """Where nothing else tells them apart, the hole that fits best is taken."""
    seen = snapshot([ask(gpus(2))], [(5,), (2,), (7,)])
    assert solve(seen)[0] == (0, 0, (1,))
    assert solve(seen, fit=-1)[0] == (0, 0, (0,))


def test_gangs_are_all_or_nothing():
    """Three chunks and two nodes: none starts, and the job behind is left to backfilling."""
    seen = snapshot([ask(Form(0, (ChunkKind(3, 4, -1, -1),))), ask(gpus(1))], [(8,), (8,)])
    assert solve(seen) == {}


def test_a_time_limit_keeps_the_greedy_answer():
    """Out of time before the first bound, the answer is the greedy one."""
    jobs = [ask(gpus(g), slots=3) for g in (1, 2, 4, 2, 1, 8, 3)]
    seen = snapshot(jobs, [(3, 5, 8), (4, 4, 8), (2, 6, 6), (1, 1, 8)], slots=(0.0, 5.0, 9.0))
    model = build_program(seen)
    answer = Solver().answer(model, seconds=1e-9)
    assert answer.worth >= answer.greedy_worth == worth(model, finish(model, greedy(model)))


@pytest.mark.parametrize("repeat", range(2))
def test_deterministic(repeat):
    """One solver, kept between calls, answers as a new one."""
    jobs = [ask(gpus(g), slots=2) for g in (2, 2, 4, 2, 1, 8)]
    seen = snapshot(jobs, [(3, 8), (4, 8), (2, 6), (5, 8)], slots=(0.0, 5.0))
    assert (
        SOLVER.answer(build_program(seen)).values
        == Solver(Effort(nodes=10_000, ties=True)).answer(build_program(seen)).values
    )
