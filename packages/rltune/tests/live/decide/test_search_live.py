"""Search on a running cluster: another order if it serves those who wait better, and the same again in a replay."""

import pytest
from live_cases import MemoryCluster, decide_by, impatient, job, nodes, running, settings, snapshot

from rltune.engine import search
from rltune.live.controller import Controller
from rltune.live.decide.decide import Known, Situation
from rltune.live.journal.packing import pack_decision
from rltune.live.journal.store import Journal
from rltune.live.pinned_pipeline import pin_pipeline
from rltune.live.replay_cycle import replay

BLOCKED = (job(1, 3, 100), job(2, 2, 5), job(3, 2, 5))  # in order of age the first keeps both others out
CROWD = (running(100, "n0", 1), *(job(i, 1 + i % 4, 10 + 7 * i % 90) for i in range(1, 20)))


def decided(jobs, policy, on, rollouts=0, timer=lambda: 0.0):
    wanted = settings(pipeline={"policy": policy})
    return decide_by(wanted, Situation(snapshot(jobs, on)), Known(rollouts=rollouts), timer)


def _hash(policy):
    return pin_pipeline(settings(pipeline={"policy": policy})).sha256


def test_a_better_order_is_taken_and_becomes_numbers():
    """Two short jobs first: they start, and rank and number say so too."""
    plain, searched = (decided(BLOCKED, policy, nodes(4)) for policy in ("fcfs", "fcfs+search:8"))
    assert [w.job for w in plain.starts] == [1]
    assert sorted(w.job for w in searched.starts) == [2, 3]
    assert searched.by_job[2].number > searched.by_job[1].number
    assert searched.work["search_changed"] == 1


@pytest.mark.parametrize("policy", ["saf", "wfp3", "learned"])
def test_the_same_search_is_made_again_however_slow_the_machine(policy):
    """By the clock five orders could be tried; with another clock a replay that is told so gives every byte."""
    spec = f"{policy}+search:64:5ms"
    first = decided(CROWD, spec, nodes(4, 4), timer=impatient(4))
    tried = first.work[search.ROLLOUTS]
    assert 1 < tried <= 6
    assert pack_decision(decided(CROWD, spec, nodes(4, 4), tried)) == pack_decision(first)
    assert decided(CROWD, spec, nodes(4, 4), timer=impatient(1000)).work[search.ROLLOUTS] > tried


def test_a_journal_replays_a_search_by_the_clock(monkeypatch, tmp_path):
    """The number of orders tried is in the journal."""
    monkeypatch.setattr("rltune.live.controller.perf_counter", impatient(5))
    cluster = MemoryCluster(snapshot(CROWD, nodes(4, 4)))
    journal = Journal.create(tmp_path / "j.db")
    wanted = settings(pipeline={"policy": "learned+search:64:5ms"})
    controller = Controller(cluster, journal, wanted)
    number = controller.cycle().cycle
    assert replay(journal, number).same


def test_a_model_is_known_by_its_hash_whatever_is_around_it():
    """So a replay by another model is refused."""
    assert _hash("learned+search:8:5ms+guard:24h") == _hash("learned") != ""
