from dataclasses import replace

from live_cases import NOW, job, nodes, settings, snapshot

from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.drift import drifted
from rltune.live.see.health import Look, problems, too_much_meddling, too_slow
from rltune.live.see.holdings import Holdings, Intent

HEALTH = settings().advanced.health


def look(after_s, jobs=(), on=None, jump_s=0.0):
    """Look at a cluster so long after the first look."""
    return Look(snapshot(jobs, on, at=NOW + after_s + jump_s), after_s)


def found(last, now):
    return list(problems(last, now, HEALTH))


def test_a_cluster_that_goes_on_is_healthy():
    """A minute later by both clocks, a job more and a job fewer: nothing is wrong."""
    assert not found(None, look(0, [job(1)]))
    assert not found(look(0, [job(1), job(2)]), look(60, [job(2), job(3)]))


def test_data_that_stand_still_are_stale():
    """Time passed here and none did there."""
    assert "stale" in found(look(0), look(60, jump_s=-60))[0]


def test_a_clock_that_jumps_is_noticed_both_ways():
    """An hour forward or back within a minute."""
    assert "jumped" in found(look(0), look(60, jump_s=3600))[0]
    assert "stale" in found(look(0), look(60, jump_s=-3600))[0]


def test_a_look_that_takes_long_is_no_jump():
    """The snapshot is of some moment between the beginning and the end of the look."""
    slow = Look(snapshot([], at=NOW + 10), 100.0, took_s=95.0)
    assert not found(look(0), slow)
    assert not found(slow, Look(snapshot([], at=NOW + 160), 160.0))
    assert "jumped" in found(look(0), Look(snapshot([], at=NOW + 10), 100.0))[0]


def test_a_slow_cycle_is_no_jump():
    """Ten minutes between looks, by both clocks."""
    assert not found(look(0), look(600))


def test_jobs_that_vanish_are_noticed():
    """Most of the queue is gone and was not seen to end; seen to end, it is no problem."""
    queue = [job(i) for i in range(50)]
    ended = [replace(j, state="CANCELLED") for j in queue]
    assert "50 of 50 jobs are gone" in found(look(0, queue), look(60))[0]
    assert not found(look(0, queue), look(60, ended))
    assert not found(look(0, queue), look(600))  # Slurm forgets ended jobs after five minutes
    assert not found(look(0, queue), look(60, queue[5:]))


def test_nodes_that_vanish_are_noticed():
    """Half the GPUs are listed no more; a node that is down is still listed."""
    assert "lists 4 GPUs, 8" in found(look(0), look(60, on=nodes(4)))[0]
    down = tuple(replace(n, up=False) for n in nodes(4, 4))
    assert not found(look(0), look(60, on=down))
    assert found(None, look(0, on=())) == ["Slurm shows no nodes"]


def test_a_slow_decision_is_noticed():
    """Ten seconds is the bound."""
    assert not list(too_slow(9.0, HEALTH))
    assert list(too_slow(11.0, HEALTH))


def holding(one, value=50, before=0):
    return Holdings.after([Intent(Change(one.id, ChangeKind.SITE_FACTOR, value=value), one.submit_s, before)])


def test_a_change_by_another_hand_is_told_from_one_that_was_lost():
    """A number that is neither ours nor the old one was set by somebody; the old one means ours never arrived."""
    one = job(1, site_factor=50)
    assert not drifted(snapshot([one]), holding(one))
    assert [d.by_hand for d in drifted(snapshot([replace(one, site_factor=99)]), holding(one))] == [True]
    assert [d.by_hand for d in drifted(snapshot([replace(one, site_factor=0)]), holding(one))] == [False]
    assert not drifted(snapshot([replace(one, site_factor=None)]), holding(one))


def test_a_priority_that_slurm_took_back_is_lost_and_one_set_anew_is_by_hand():
    """Set by hand to another value: somebody; not by hand any more: lost; held: nobody can tell."""
    one = job(1, priority=77, priority_by_hand=True)
    held = Holdings.after([Intent(Change(1, ChangeKind.PRIORITY, value=77), one.submit_s, 20_000)])
    assert not drifted(snapshot([one]), held)
    assert [d.by_hand for d in drifted(snapshot([replace(one, priority=78)]), held)] == [True]
    assert [d.by_hand for d in drifted(snapshot([replace(one, priority_by_hand=False)]), held)] == [False]
    assert not drifted(snapshot([replace(one, priority=0, held=True, priority_by_hand=False)]), held)


def test_meddling_with_many_jobs_means_a_second_controller():
    """One job changed by an administrator is respected; half of them is alarming."""
    held = Holdings()
    for i in range(40):
        held.take(Intent(Change(i, ChangeKind.SITE_FACTOR, value=5), 0.0, 0))
    assert not list(too_much_meddling(1, held, HEALTH))
    assert list(too_much_meddling(20, held, HEALTH))
