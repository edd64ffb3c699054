"""The rules of taking turns, one by one and by hand: docs/reference/preemption.md says them in words.

Nodes have 4 GPUs, and so few jobs have ended that levels part at 3,600 and 36,000 GPU-seconds: a job of 4 GPUs comes to
the second after 900 s. Run times are known. A spell lasts 600 s at least, and ticks come every 300 s.
"""

from dataclasses import replace

import pytest

import rltune
from rltune.cluster import Cluster, Limit, Maintenance, NodeGroup, Outage
from rltune.jobs import Jobs

ONE = Cluster.uniform(nodes=1, gpus=4)
TWO = Cluster.uniform(nodes=2, gpus=4)
BEARS = {"preemptible": True, "checkpoint_s": 0.0, "restart_s": 0.0}  # loses nothing


def taking_turns(jobs: Jobs, cluster: Cluster, preempt: str = "las", **settings) -> rltune.Schedule:
    return rltune.simulate(jobs, cluster, estimator="oracle", preempt=preempt, **settings)


def spells_of(schedule: rltune.Schedule, job: int) -> list[tuple[float, float]]:
    told = schedule.spells
    rows = zip(told.job.tolist(), told.start_s.tolist(), told.end_s.tolist(), strict=True)
    return [(start, end) for whose, start, end in rows if whose == job]


def test_a_gang_stops_as_a_whole_and_what_is_left_goes_to_the_next_in_the_same_pass():
    """One of its two nodes is claimed; the other is the next job's at once."""
    jobs = Jobs.from_arrays([0, 1000, 1000], [20000, 500, 500], [8, 4, 4], nodes=[2, 1, 1], **BEARS)
    schedule = taking_turns(jobs, TWO, backfill="fit-first")
    assert schedule.start_s.tolist() == [0.0, 1000.0, 1000.0]
    assert schedule.preemptions.tolist() == [1, 0, 0]


def test_nobody_is_displaced_if_one_gpu_is_held_by_who_is_no_victim():
    """Half of the node is a job's that may not be displaced, so the other half is not taken in vain."""
    jobs = Jobs.from_arrays([0, 0, 5000], [30000, 20000, 100], [2, 2, 4], preemptible=[True, False, True])
    schedule = taking_turns(jobs, ONE)
    assert schedule.preemptions.tolist() == [1, 0, 0]  # only when the other has ended
    assert schedule.start_s[2] == 20000


def test_a_victim_may_be_the_head_of_easy_and_has_a_reservation():
    """It waits with the age that it had, and who would run beyond its turn may not overtake it."""
    jobs = Jobs.from_arrays(
        [0, 1000, 1010], [6000, 500, 5000], [4, 2, 2], preemptible=[True, True, False], checkpoint_s=0.0
    )
    schedule = taking_turns(jobs, ONE, backfill="easy")
    assert spells_of(schedule, 0)[1][0] == 1500
    assert schedule.start_s[2] == schedule.end_s[0]


@pytest.mark.parametrize(("backfill", "start_s"), [("easy", 5100.0), ("fit-first", 1600.0)])
def test_a_claimant_may_not_delay_a_reservation(backfill, start_s):
    """A gang has both nodes reserved at 5,000 s, and a long job may not claim one of them; with fit-first it may."""
    jobs = Jobs.from_arrays(
        [0, 0, 1500, 1600],
        [4500, 5000, 100, 20000],
        [4, 4, 8, 4],
        nodes=[1, 1, 2, 1],
        preemptible=[True, False, False, True],
        checkpoint_s=0.0,
    )
    schedule = taking_turns(jobs, TWO, backfill=backfill)
    assert schedule.start_s[3] == start_s
    assert schedule.preemptions[0] == (backfill == "fit-first")


def test_a_spell_counts_after_its_restart():
    """It starts again at 1,500 s, works from 1,560 s on, and may be displaced from 2,160 s on: at the next tick."""
    jobs = Jobs.from_arrays(
        [0, 1000, 1600], [20000, 500, 500], [4, 4, 4], preemptible=True, checkpoint_s=0.0, restart_s=60.0
    )
    assert taking_turns(jobs, ONE).start_s.tolist() == [0.0, 1000.0, 2400.0]


def test_a_spell_that_ends_within_its_restart_adds_no_work():
    """An outage cuts it short after 190 of 600 s; the next has all of the restart before it."""
    jobs = Jobs.from_arrays([0, 1000], [20000, 10], [4, 4], preemptible=True, checkpoint_s=0.0, restart_s=600.0)
    schedule = taking_turns(jobs, replace(ONE, outages=(Outage(node=0, down_s=1200.0, up_s=1300.0),)))
    assert spells_of(schedule, 0) == [(0.0, 1000.0), (1010.0, 1200.0), (1300.0, 1300.0 + 600.0 + 19000.0)]
    assert schedule.lost_s[0] == 190.0 + 600.0


@pytest.mark.parametrize(("checkpoint_s", "kept_s"), [(300.0, 900.0), (0.0, 1000.0), (float("inf"), 0.0)])
def test_an_outage_goes_back_to_the_last_checkpoint_and_is_no_turn(checkpoint_s, kept_s):
    """After 1,000 s of work; a restart comes first, as after any stop."""
    jobs = Jobs.from_arrays([0], [20000], [4], preemptible=True, checkpoint_s=checkpoint_s, restart_s=60.0)
    schedule = taking_turns(jobs, replace(ONE, outages=(Outage(node=0, down_s=1000.0, up_s=1100.0),)))
    assert schedule.end_s[0] == 1100 + 60 + 20000 - kept_s
    assert (schedule.preemptions[0], schedule.requeues[0]) == (0, 1)


def test_checkpoints_count_work_over_all_spells():
    """Of 1,000 and then 1,400 s of work between checkpoints of 700 s, 700 and then 2,100 are kept."""
    jobs = Jobs.from_arrays(
        [0, 1000, 2410], [20000, 10, 10], [4, 4, 4], preemptible=True, checkpoint_s=700.0, restart_s=0.0
    )
    schedule = taking_turns(jobs, ONE)
    assert spells_of(schedule, 0)[:2] == [(0.0, 1000.0), (1010.0, 2410.0)]
    assert schedule.lost_s[0] == 300.0 + (700.0 + 1400.0 - 2100.0)


def test_work_is_time_times_speed():
    """On a node twice as fast a restart of 60 s takes 30, and 1,000 s have done 2,000 s of work."""
    fast = Cluster((NodeGroup(count=1, gpus=4, gpu_type="A"),), speed={"A": 2.0})
    jobs = Jobs.from_arrays([0, 1000], [20000, 500], [4, 4], preemptible=True, checkpoint_s=0.0, restart_s=60.0)
    schedule = taking_turns(jobs, fast)
    assert spells_of(schedule, 0) == [(0.0, 1000.0), (1250.0, 1250.0 + 30.0 + 18000.0 / 2)]


def test_limits_are_tested_with_the_victims_gone():
    """A user may have 4 GPUs: of two jobs of theirs one gives way to the other, since then the limit allows it."""
    limited = replace(ONE, limits=(Limit(scope="user", name="a", max_gpus=4),))
    jobs = Jobs.from_arrays([0, 1000], [20000, 500], [4, 4], user=["a", "a"], **BEARS)
    assert taking_turns(jobs, limited).start_s.tolist() == [0.0, 1000.0]


def test_dependants_wait_for_the_last_end():
    """Not for the end of a spell."""
    jobs = Jobs.from_arrays([0, 1000, 1000], [20000, 500, 10], [4, 4, 1], after=[[], [], [0]], **BEARS)
    schedule = taking_turns(jobs, ONE)
    assert spells_of(schedule, 0)[0] == (0.0, 1000.0)
    assert schedule.start_s[2] == schedule.end_s[0]


@pytest.mark.parametrize(("restart_s", "again_s"), [(0.0, 1500.0), (60.0, 4000.0)])
def test_maintenance_tests_what_remains_and_the_restart(restart_s, again_s):
    """1,500 s are left at 1,500 s, and the window begins at 3,000 s: with a restart it does not end before."""
    kept = replace(ONE, maintenance=(Maintenance(start_s=3000.0, end_s=4000.0),))
    jobs = Jobs.from_arrays([0, 1000], [2500, 500], [4, 4], preemptible=True, checkpoint_s=0.0, restart_s=restart_s)
    schedule = taking_turns(jobs, kept, "las:once=0:each=0")
    assert spells_of(schedule, 0)[1][0] == again_s


def test_a_job_stops_or_starts_at_most_once_a_pass():
    """Who is displaced would fit on the other node at once, and stands first; the next gets it in this very pass."""
    jobs = Jobs.from_arrays(
        [0, 0, 2000, 2000],
        [20000, 30000, 500, 20000],
        [2, 2, 4, 2],
        preemptible=[True, False, True, False],
        checkpoint_s=0.0,
    )
    schedule = taking_turns(jobs, TWO, backfill="fit-first", placement="spread")
    assert schedule.start_s.tolist() == [0.0, 0.0, 2000.0, 2000.0]
    assert spells_of(schedule, 0)[1][0] == 2500


def test_a_victim_keeps_its_age_for_the_guard():
    """Small jobs pass it until it is owed, an hour after it was submitted and not after it was displaced."""
    jobs = Jobs.from_arrays([0, *range(1000, 9000, 500)], [20000] + [500] * 16, [4] * 17, **BEARS)
    schedule = taking_turns(jobs, ONE, "las:late=off", guard="1h")
    assert [start for start, _ in spells_of(schedule, 0)] == [0.0, 4000.0]


@pytest.mark.parametrize(("duration_s", "starts"), [(19490.0, True), (19491.0, False)])
def test_a_running_job_holds_its_nodes_to_its_expected_end_with_its_restart(duration_s, starts):
    """A gang has both nodes reserved at 21,100 s, when the restart of 600 s and what is left are over."""
    jobs = Jobs.from_arrays(
        [0, 0, 1000, 1600, 1610],
        [20000, 1550, 500, 5000, duration_s],
        [4, 4, 4, 8, 4],
        nodes=[1, 1, 1, 2, 1],
        preemptible=[True, False, True, False, False],
        checkpoint_s=0.0,
        restart_s=[600.0, 0.0, 0.0, 0.0, 0.0],
    )
    schedule = taking_turns(jobs, TWO, backfill="easy")
    assert spells_of(schedule, 0) == [(0.0, 1000.0), (1500.0, 21100.0)]
    assert (schedule.start_s[4] == 1610) == starts


def test_a_limit_in_the_trace_bounds_work():
    """A job that asked for as much as it needs is run to its end, though its nodes are held for longer in all."""
    jobs = Jobs.from_arrays(
        [0, 1000],
        [20000, 500],
        [4, 4],
        limit_s=[20000.0, 500.0],
        preemptible=True,
        checkpoint_s=300.0,
        restart_s=60.0,
    )
    schedule = rltune.simulate(jobs, ONE, estimator="user", preempt="las")
    assert spells_of(schedule, 0) == [(0.0, 1000.0), (1500.0, 1500.0 + 60.0 + 20000.0 - 900.0)]


def test_what_was_in_vain_is_asked_again_when_a_job_is_due():
    """It may be away for an hour; at 4,000 s, between two ticks, it claims the node that it could not claim before."""
    jobs = Jobs.from_arrays([0, 1000], [20000, 20000], [4, 4], **BEARS)
    schedule = taking_turns(jobs, ONE, "las:late=3600")
    assert spells_of(schedule, 0)[:2] == [(0.0, 1000.0), (4000.0, 23000.0)]


def test_what_was_in_vain_is_asked_again_when_a_job_comes_to_a_higher_level():
    """At 900 s of service it has had its level's share: by the tick then, though nothing has happened since 10 s."""
    jobs = Jobs.from_arrays([0, 10], [20000, 20000], [4, 4], **BEARS)
    assert taking_turns(jobs, ONE).start_s.tolist() == [0.0, 900.0]
