"""The ways to place a job, against everything that could be tried on a small cluster."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from ways_of_job import can_schedule_now, num_ways, ways

from rltune.cluster import Cluster, NodeGroup
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.kernel.state import arrays as core


def machine_with(free: list[int], gpus: int, size: int = 4, per_rack: int = 2) -> Machine:
    """A machine of alike nodes with these GPUs free, and one waiting job."""
    cluster = Cluster((NodeGroup(count=len(free), gpus=size, nodes_per_rack=per_rack),))
    jobs = Jobs.from_arrays(submit_s=[0.0], duration_s=[10.0], gpus=[gpus])
    machine = Machine.of(jobs, cluster, parse_pipeline("fcfs", placement="milp"), get_estimator("oracle"))
    s = machine.state
    s.node.gpu = free
    s.bits[:] = 0
    s.level[:] = 0
    for node, level in enumerate(free):
        s.bits[level] |= 1 << node
        s.level[level] += 1
    assert s.bits.size == size + 1
    return machine


def everything(free: list[int], sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every choice of distinct nodes for chunks of these sizes."""
    nodes = range(len(free))
    return [
        p for p in itertools.permutations(nodes, len(sizes)) if all(free[n] >= g for n, g in zip(p, sizes, strict=True))
    ]


def leaves(free: list[int], chosen: tuple[int, ...], sizes: tuple[int, ...]) -> list[int]:
    left = list(free)
    for n, g in zip(chosen, sizes, strict=True):
        left[n] -= g
    return left


@given(free=st.lists(st.integers(0, 4), min_size=1, max_size=5), gpus=st.integers(1, 4))
def test_ways_of_one_chunk(free, gpus):
    """There is a way where there is a place; packing leaves the most compact rest; cut jobs break no idle node."""
    machine = machine_with(free, gpus)
    found = ways(machine.w, machine.s, 0, 10.0)
    narrow = everything(free, (gpus,))
    cuts = [(a, gpus - a) for a in range((gpus + 1) // 2, gpus)]
    wider = [(c, p) for c in cuts for p in everything(free, c) if all(free[n] < 4 for n in p)]
    assert can_schedule_now(machine.w, machine.s, 0, 10.0) == bool(narrow or wider) == bool(found)
    assert num_ways(machine.w, machine.s, 0, 10.0) == len(found)
    assert any(w.tier == 1 for w in found) == bool(narrow)
    squares = [sum(x * x for x in leaves(free, p, (gpus,))) for p in narrow]
    for way in found:
        if way.tier == 1:
            assert way.nodes in narrow
            left = leaves(free, way.nodes, (gpus,))
            assert (way.largest_left, way.idle_left) == (max(left), left.count(4))
            if way.rule == "pack":
                assert sum(x * x for x in left) == max(squares)
            if way.rule == "spread":
                assert sum(x * x for x in left) == min(squares)
        else:
            assert len(set(way.nodes)) == 2
            assert way.nodes in [p for _, p in wider]


@given(free=st.lists(st.integers(0, 4), min_size=2, max_size=6))
def test_ways_of_a_gang(free):
    """Eight GPUs on nodes of four: two idle nodes; hierarchical finds them in one rack if any rack has them."""
    machine = machine_with(free, 8)
    found = [w for w in ways(machine.w, machine.s, 0, 10.0) if w.tier == 1]
    idle = [n for n, f in enumerate(free) if f == 4]
    assert bool(found) == (len(idle) >= 2)
    if found:
        best = min(len({n // 2 for n in pair}) for pair in itertools.combinations(idle, 2))
        assert min(w.racks for w in found) == best


def test_nodes_alike_are_one_way():
    """Of ten idle nodes it does not matter which."""
    machine = machine_with([4, 4, 4, 4], 2)
    assert num_ways(machine.w, machine.s, 0, 10.0) == 1


def test_packing_and_spreading_are_two_ways():
    """A hole that fits, or an idle node."""
    machine = machine_with([2, 4], 2)
    assert [(w.rule, w.nodes) for w in ways(machine.w, machine.s, 0, 10.0)] == [("pack", (0,)), ("spread", (1,))]


def test_one_more_node():
    """Two holes take what no single node has room for, unless one of them is an idle node."""
    assert [w.tier for w in ways(*_handles(machine_with([2, 2], 4)), 0, 10.0)] == [2]
    assert [w.tier for w in ways(*_handles(machine_with([2, 1], 4)), 0, 10.0)] == []


def test_a_user_who_names_nodes_gets_them():
    """A job that says how many nodes it wants is never cut otherwise."""
    jobs = Jobs.from_arrays(submit_s=[0.0, 0.0], duration_s=[10.0, 10.0], gpus=[4, 4], nodes=[1, 0])
    pipeline = parse_pipeline("fcfs", placement="milp")
    machine = Machine.of(jobs, Cluster.uniform(3, 4), pipeline, get_estimator("oracle"))
    named, free = machine.world.shape[machine.world.job.asks]
    assert named.wider_lo == named.wider_hi
    assert free.wider_hi - free.wider_lo == 2
    assert np.all(machine.state.life.status == core.FUTURE)


def _handles(machine: Machine):
    return machine.w, machine.s
