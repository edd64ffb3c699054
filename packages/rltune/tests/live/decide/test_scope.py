import pytest
from live_cases import job, settings, snapshot

from rltune.live.control_settings import Canary, Scope
from rltune.live.decide.scope import (
    in_canary,
    left_to_slurm,
    not_touched,
    out_of_scope,
    tasks_that_may_start,
)
from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.holdings import Holdings, Intent


@pytest.mark.parametrize(
    ("scope", "one", "reason"),
    [
        ({"partitions": ["gpu"]}, {}, ""),
        ({"partitions": ["other"]}, {}, "partition gpu has not opted in"),
        ({"partitions": ["*"]}, {}, ""),
        ({"partitions": ["*"], "not_partitions": ["gpu"]}, {}, "partition gpu has not opted in"),
        ({"partitions": ["gpu"]}, {"partitions": ("gpu", "sla")}, "partition sla has not opted in"),
        ({"accounts": ["chem"]}, {"account": "bio"}, "account bio has not opted in"),
        ({"accounts": ["chem"]}, {}, "account (none) has not opted in"),
        ({"partitions": ["gpu"], "qos": ["normal"]}, {"qos": "sla"}, "QOS sla has not opted in"),
        ({"partitions": ["gpu"], "not_qos": ["sla"]}, {"qos": "sla"}, "QOS sla has not opted in"),
        ({"partitions": ["gpu"], "not_qos": ["sla"]}, {"qos": "normal"}, ""),
    ],
)
def test_whose_jobs_may_be_touched(scope, one, reason):
    """Every list that names something must be met, by all partitions of a job; being excluded wins."""
    assert out_of_scope(job(1, **one), Scope(**scope)) == reason


def test_a_canary_is_a_share_of_the_jobs_and_always_the_same():
    """About a fifth, the same in every cycle, tasks of one array together, more for a larger share."""
    some = {i for i in range(2000) if in_canary(job(i), Canary(share=0.2))}
    assert 320 < len(some) < 480
    assert some < {i for i in range(2000) if in_canary(job(i), Canary(share=0.5))}
    assert len({in_canary(job(i, array_id=7), Canary(share=0.2)) for i in range(50)}) == 1
    assert all(in_canary(job(i), Canary(share=1.0)) for i in range(50))
    assert not any(in_canary(job(i), Canary(share=0.0)) for i in range(50))


def test_a_canary_can_be_a_partition():
    """Jobs of other partitions of the scope are not acted on."""
    both = settings(scope={"partitions": ["gpu", "sla"]}, canary={"partition": "gpu"})
    assert not not_touched(job(1), both, Holdings())
    assert not_touched(job(1, partitions=("sla",)), both, Holdings()) == "it is not among the canary's jobs"


def test_a_priority_set_by_hand_is_somebodys_will():
    """It is not touched, unless it was set here."""
    one = job(1, priority_by_hand=True)
    ours = Holdings.after([Intent(Change(1, ChangeKind.PRIORITY, value=one.priority), one.submit_s, 1)])
    assert not_touched(one, settings(), Holdings()) == "its priority was set by hand"
    assert not not_touched(one, settings(numbers={"channel": "priority"}), ours)


def test_a_nice_would_be_lost_by_a_priority():
    """Slurm forgets Nice when Priority is set, so such jobs are ordered by SiteFactor only."""
    assert not_touched(job(1, nice=5), settings(numbers={"channel": "priority"}), Holdings())
    assert not not_touched(job(1, nice=5), settings(), Holdings())


def test_bad_constraints_are_undone_if_they_are_our_doing():
    """A pin that cannot be met is ours to clear; a user's own is left to Slurm."""
    one = job(1, reason="BadConstraints")
    pinned = Holdings.after([Intent(Change(1, ChangeKind.REQUIRE_NODES, nodes=("n0",)), one.submit_s, ())])
    assert left_to_slurm(one, snapshot([one]), Holdings()) == "Slurm says BadConstraints"
    assert not left_to_slurm(one, snapshot([one]), pinned)


def test_a_job_for_which_nodes_are_not_available_waits_for_its_turn():
    """Slurm says so of merely busy nodes too."""
    for reason in ("ReqNodeNotAvail, UnavailableNodes:n1", "Resources", "Priority", "None"):
        one = job(1, reason=reason)
        assert not left_to_slurm(one, snapshot([one]), Holdings())


def test_no_more_tasks_of_an_array_are_looked_at_than_could_start():
    """Ten thousand tasks on eight GPUs are eight jobs to the core."""
    many = job(1, array_id=1, array_tasks="1-10000", array_waiting=10_000)
    assert tasks_that_may_start(many, snapshot([many]), most=8) == 8
    assert tasks_that_may_start(job(1), snapshot([]), most=8) == 1


def test_a_number_of_the_sites_own_is_called_what_it_is():
    """By Slurm's commands it is a SiteFactor, through slurmrestd a Nice."""
    one = job(1, site_factor=-20)
    rest = {"rest": "http://127.0.0.1:6820", "token": "t"}
    assert not_touched(one, settings(), Holdings()) == "it has a SiteFactor that is not ours"
    assert not_touched(one, settings(slurm=rest), Holdings()) == "it has a Nice that is not ours"
