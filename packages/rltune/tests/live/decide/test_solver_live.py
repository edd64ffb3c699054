"""The solver on a running cluster: in the time that it is given, and the same again in a replay."""

import pytest
from live_cases import MemoryCluster, decide_by, impatient, job, nodes, running, settings, snapshot

from rltune.live.controller import Controller
from rltune.live.decide.decide import Known, Situation
from rltune.live.journal.packing import pack_decision
from rltune.live.journal.store import Journal
from rltune.live.replay_cycle import replay
from rltune.placement.solver_work import GIVEN_UP

# Best fit gives the first job the only CPUs for the second.
SEEN = (
    running(1, "n0", 6, cpus=8.0),
    running(2, "n1", 5, cpus=14.0),
    job(3, 2, 10, cpus=1.0, nodes=1),
    job(4, 2, 10, cpus=4.0, nodes=1),
)
NODES = nodes(8, 8, cpus=16.0)


def wanted(placement="milp:8", **core):
    pipeline = {"policy": "fcfs", "backfill": "none", "placement": placement}
    return settings(pipeline=pipeline, advanced={"pipeline": core})


def starts(decision):
    return [(w.job, w.nodes) for w in decision.starts]


def decided(asked, known=None, timer=lambda: 0.0):
    return decide_by(asked, Situation(snapshot(SEEN, NODES)), known, timer)


def test_with_time_it_starts_more_than_best_fit():
    """So that the tests below have something to lose."""
    assert [job for job, _ in starts(decided(wanted("best-fit")))] == [3]
    made = decided(wanted())
    assert [job for job, _ in starts(made)] == [3, 4]
    assert GIVEN_UP not in made.work


def test_without_time_best_fit_decides_and_a_replay_says_the_same():
    """A budget of 0; the solve that was given up is in the decision, and no timer is asked in a replay."""
    made = decided(wanted(solver_s=0))
    assert starts(made) == starts(decided(wanted("best-fit")))
    assert made.work[GIVEN_UP] == [0]
    again = decided(wanted(solver_s=0), Known(given_up=(0,)))
    assert pack_decision(again) == pack_decision(made)


def test_time_that_runs_out_counts():
    """By the timer that is handed in, whatever the budget; told of it, a replay comes to the same in no time."""
    made = decided(wanted(solver_s=5), timer=impatient(0))
    assert made.work[GIVEN_UP] == [0]
    assert pack_decision(decided(wanted(solver_s=5), Known(given_up=(0,)))) == pack_decision(made)
    in_time = decided(wanted(solver_s=5), timer=impatient(1000))
    assert [job for job, _ in starts(in_time)] == [3, 4]


@pytest.mark.parametrize("solver_s", [0, 60])
def test_a_journal_replays_it(tmp_path, solver_s):
    """What there was no time for is kept with the decision."""
    journal = Journal.create(tmp_path / "j.db")
    controller = Controller(MemoryCluster(snapshot(SEEN, NODES)), journal, wanted(solver_s=solver_s))
    again = replay(journal, controller.cycle().cycle)
    assert again.same
    assert (GIVEN_UP in again.recorded.work) == (solver_s == 0)
