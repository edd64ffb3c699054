"""Passes with the solver: what is skipped, and one pass for live use."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshots import snapshots
from strategies import BACKFILLS, POLICIES, cases

from rltune.cluster import Cluster, NodeGroup
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.estimate import Given, Oracle
from rltune.jobs import Jobs
from rltune.kernel.backfill.scheduling_pass import make_pass
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.state import arrays as core
from rltune.placement.adaptive_k import COST_MS, Adaptive
from rltune.placement.greedy import greedy, started
from rltune.placement.highs import Effort, Solver
from rltune.placement.look_ahead import LookAhead
from rltune.placement.program import build_program

SOLVER = Solver(Effort(nodes=10_000, ties=True))


def starts_of(machine: Machine, *, always: bool) -> np.ndarray:
    ahead = LookAhead(machine.arrays, machine.options, 4, always=always)
    while advance(machine.w, machine.s, machine.options):
        ahead.make_pass()
    return machine.state.life.start


@settings(max_examples=25)
@given(case=cases(), policy=st.sampled_from(POLICIES), backfill=st.sampled_from(BACKFILLS))
def test_skipping_loses_nothing(case, policy, backfill):
    """A run that never skips the solver gives the same schedule, to the second: only idle solves are skipped."""
    order = np.argsort(case.jobs.submit_s, kind="stable")
    made = parse_pipeline(policy, backfill, "milp:4")
    jobs, estimate = case.jobs.take(order), Given(case.estimate_s[order])
    skip, never = (starts_of(Machine.of(jobs, case.cluster, made, estimate), always=always) for always in (False, True))
    np.testing.assert_array_equal(skip, never)


@given(seen=snapshots(max_nodes=4, max_jobs=4))
def test_settled_means_one_answer(seen):
    """Where a program is skipped because there is one way, its best answer starts what best fit starts, and there."""
    model = build_program(seen.first(len(seen.asks)))
    first = greedy(model)
    sure = build_program(type(seen)(seen.slots_s, seen.asks, seen.classes, seen.groups, sure=started(model, first)))
    if sure.settled:
        best, plain = SOLVER.answer(sure).values, greedy(sure)
        now = [i for o in sure.options if o.slot == 0 for columns in o.puts for i in columns]
        assert [best[i] for i in now] == [plain[i] for i in now]


def contended_machine() -> Machine:
    """Stop before a pass in which best fit would give the first job the only CPUs for the second."""
    jobs = Jobs.from_arrays(
        submit_s=[0, 0, 1, 1],
        duration_s=[100, 100, 10, 10],
        gpus=[6, 5, 2, 2],
        cpus=[8, 14, 1, 4],
        nodes=[1, 1, 1, 1],
    )
    cluster = Cluster((NodeGroup(count=2, gpus=8, cpus=16),))
    m = Machine.of(jobs, cluster, parse_pipeline("fcfs", placement="milp:8"), Oracle())
    advance(m.w, m.s, m.options)
    make_pass(m.w, m.s, m.options)
    advance(m.w, m.s, m.options)
    return m


def pass_on(m: Machine, **how):
    ahead = LookAhead(m.arrays, m.options, **{"k": 8, **how})
    ahead.make_pass()
    return ahead.work, np.flatnonzero(m.state.life.status == core.RUNNING).tolist()


def test_one_pass_is_a_pass_of_a_run():
    """It starts what the solver chose, as a pass of a simulation does, and says what it did."""
    work, running = pass_on(contended_machine())
    assert running == [0, 1, 2, 3]
    assert (work.solved, work.started_by_solver, work.more_starts, len(work.ms)) == (1, 2, 1, 1)
    assert work.to_dict()["milp_out_of_time"] == 0


def test_a_pass_without_time_can_be_made_again():
    """Without time best fit decides and the solve is named; with that told the same comes out without a clock."""
    hurried, running = pass_on(contended_machine(), seconds=0.0)
    assert running == [0, 1, 2]
    assert hurried.given_up == [0]
    assert hurried.to_dict()["milp_out_of_time"] == 1
    again, same = pass_on(contended_machine(), given_up=hurried.given_up)
    assert (again.given_up, same) == ([0], running)


def test_time_enough_changes_nothing():
    """A clock that does not run out leaves the pass what it is."""
    work, running = pass_on(contended_machine(), seconds=60.0)
    assert (work.given_up, running) == ([], [0, 1, 2, 3])


@pytest.mark.parametrize(("seconds", "learns"), [(60.0, True), (float("inf"), False)])
def test_the_cost_of_solves_is_learnt_live_alone(seconds, learns):
    """Under a clock K adapts to what solves take here; in simulation to nothing but the table."""
    depth = Adaptive()
    pass_on(contended_machine(), k=depth, seconds=seconds)
    assert (depth.cost_ms != COST_MS) == learns
