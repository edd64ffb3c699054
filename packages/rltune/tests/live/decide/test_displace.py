"""Which running jobs give way on a live cluster: those who agreed, by the core's own rules, and nobody else."""

import math
from dataclasses import replace

import pytest
from live_cases import NOW, decide_by, job, nodes, running, settings, snapshot

from rltune.errors import InputError
from rltune.live.decide.decide import Situation
from rltune.live.journal.packing import pack_decision, unpack_decision

AGREED = {"qos": "scavenge", "requeue": True}
LONG_S = 8 * 3600.0  # of running: by least attained service behind any job that is new


def by_turns(**preempt):
    return settings(preempt={"order": "las", "qos": ["scavenge"], **preempt})


def displacements(jobs, on=None, **preempt):
    return decide_by(by_turns(**preempt), Situation(snapshot(jobs, on))).displacements


def victims(turns):
    return {turn.claimant: sorted(v.job for v in turn.victims) for turn in turns}


def test_a_job_that_agreed_gives_way_to_one_that_is_new():
    """Its spell is named exactly, with the reason and where the other one starts."""
    old = running(1, "n0", 4, 600, LONG_S, restarts=2, **AGREED)
    (turn,) = displacements([old, job(5, 4, **AGREED)], nodes(4))
    assert (turn.claimant, turn.nodes) == (5, ("n0",))
    (victim,) = turn.victims
    assert (victim.job, victim.start_s, victim.restarts, victim.submit_s) == (1, NOW - LONG_S, 2, old.submit_s)
    assert "by las it stands at 0 and they at 2" in turn.reason


@pytest.mark.parametrize(
    "more",
    [
        {"qos": "normal", "requeue": True},  # Slurm's default is no consent
        {"qos": "scavenge", "requeue": False},
        {"qos": "scavenge", "requeue": True, "het_id": 7},
        {"qos": "scavenge", "requeue": True, "partitions": ("sla",)},  # not in the controller's scope
        {"qos": "scavenge", "requeue": True, "state": "COMPLETING"},
        {"qos": "scavenge", "requeue": True, "displaced": 5, "restarts": 5},
        {"qos": "scavenge", "requeue": True, "displaced_today": 3, "restarts": 5},
    ],
)
def test_nobody_else_gives_way(more):
    assert displacements([replace(running(1, "n0", 4, 600, LONG_S), **more), job(5, 4)], nodes(4)) == ()


@pytest.mark.parametrize(("by", "more"), [({"comment": "yields"}, {"comment": "a job that yields"}),
                                          ({"partitions": ["gpu"]}, {})])  # fmt: skip
def test_consent_by_comment_or_partition(by, more):
    jobs = [running(1, "n0", 4, 600, LONG_S, requeue=True, **more), job(5, 4)]
    on = settings(preempt={"order": "las", **by})
    assert victims(decide_by(on, Situation(snapshot(jobs, nodes(4)))).displacements) == {5: [1]}


def test_a_spell_lasts_its_least_time_after_its_restart():
    young = running(1, "n0", 4, 600, 700.0, served_s=LONG_S, restarts=1, **AGREED)
    assert displacements([young, job(5, 4)], nodes(4)) == ()  # 120 s of restart, then 600 s
    older = replace(young, start_s=NOW - 721.0)
    assert victims(displacements([older, job(5, 4)], nodes(4))) == {5: [1]}


def test_service_of_earlier_spells_counts():
    """Who came back from being displaced is not new: another old job does not give way to it."""
    back = job(5, 4, served_s=LONG_S, restarts=1, first_submit_s=NOW - 2 * LONG_S, **AGREED)
    assert displacements([running(1, "n0", 4, 600, LONG_S, **AGREED), back], nodes(4)) == ()


def test_who_has_been_away_for_as_long_as_it_may_comes_first():
    """It takes the nodes of one that came before it in the order; one that is not due does not."""
    young = running(1, "n0", 4, 600, 3600.0, **AGREED)
    back = job(5, 4, served_s=LONG_S, restarts=1, first_submit_s=NOW - 2 * LONG_S, **AGREED)
    new = job(6, 4, **AGREED)
    away, due = (replace(back, due_s=NOW + late) for late in (1.0, -1.0))
    assert victims(displacements([young, away, new], nodes(4))) == {6: [1]}
    assert victims(displacements([young, due, new], nodes(4))) == {5: [1]}
    made = decide_by(by_turns(), Situation(snapshot([young, due, new], nodes(4))))
    assert [w.job for w in made.waiting] == [5, 6]


@pytest.mark.parametrize("more", [{"settled": True}, {"toll_s": 172_400.0}, {"toll_s": 3600.0, "late": 3600.0}])
def test_who_has_paid_all_it_may_gives_way_no_more(more):
    """A job that is settled, or for which another stop would cost more than the bound, runs on."""
    late = {"late": more.pop("late")} if "late" in more else {}
    old = running(1, "n0", 4, 600, LONG_S + 300.0, **AGREED)
    assert victims(displacements([replace(old, toll_s=160_000.0), job(5, 4)], nodes(4))) == {5: [1]}
    assert displacements([replace(old, **more), job(5, 4)], nodes(4), **late) == ()
    assert victims(displacements([replace(old, toll_s=1e9), job(5, 4)], nodes(4), late="inf")) == {5: [1]}


def test_the_cheapest_victim_and_no_more_than_needed():
    """Job 2 wrote a checkpoint just now, job 1 would lose nine minutes."""
    one = running(1, "n0", 4, 600, LONG_S + 540.0, **AGREED)
    two = running(2, "n1", 4, 600, LONG_S, **AGREED)
    assert victims(displacements([one, two, job(5, 4)])) == {5: [2]}


def test_a_job_on_several_nodes_gives_way_as_a_whole():
    wide = running(1, "n0", 8, 600, LONG_S, node_names=("n0", "n1"), gpus_by_node=(4, 4), nodes=2, **AGREED)
    assert victims(displacements([replace(wide, node_names=("n0", "n1")), job(5, 2)])) == {5: [1]}
    uneven = replace(wide, gpus=6, gpus_by_node=(4, 2))
    assert displacements([uneven, job(5, 4)]) == ()  # the core cannot say what it has, so it is left alone


def test_no_needless_victim():
    """Half of the room that job 5 needs is held by one who did not agree."""
    jobs = [running(1, "n0", 2, 600, LONG_S, **AGREED), running(2, "n0", 2, 600, LONG_S), job(5, 4)]
    assert displacements(jobs, nodes(4)) == ()


def test_at_most_so_many_give_way_in_a_cycle():
    jobs = [running(i, f"n{i}", 4, 600, LONG_S, **AGREED) for i in range(3)] + [job(i, 4) for i in (5, 6, 7)]
    assert len(displacements(jobs, nodes(4, 4, 4), per_cycle=2)) == 2
    assert len(displacements(jobs, nodes(4, 4, 4), per_cycle=3)) == 3
    wide = [running(i, "n0", 2, 600, LONG_S, **AGREED) for i in (1, 2)] + [job(5, 4)]
    assert displacements(wide, nodes(4), per_cycle=1) == ()


def test_jobs_out_of_scope_displace_nobody():
    jobs = [running(1, "n0", 4, 600, LONG_S, **AGREED), job(5, 4, partitions=("sla",))]
    assert displacements(jobs, nodes(4)) == ()


def test_without_an_order_nobody_gives_way():
    jobs = [running(1, "n0", 4, 600, LONG_S, **AGREED), job(5, 4)]
    assert decide_by(settings(), Situation(snapshot(jobs, nodes(4)))).displacements == ()


def test_a_decision_with_turns_is_kept_as_it_was():
    jobs = [running(1, "n0", 4, 600, LONG_S, **AGREED), job(5, 4)]
    made = decide_by(by_turns(), Situation(snapshot(jobs, nodes(4))))
    assert unpack_decision(pack_decision(made)).displacements == made.displacements
    assert made.displacements


@pytest.mark.parametrize(
    ("preempt", "sentence"),
    [
        ({"order": "las"}, "name by what they agree to it: qos, partitions or comment"),
        ({"order": "las", "comment": "two words"}, "comment should be one word"),
        ({"order": "soon", "qos": ["a"]}, "should be 'off', 'las', 'gittins', 'srsf' or 'policy'"),
        ({"order": "las", "qos": ["a"], "restart": math.inf}, "finite"),
    ],
)
def test_settings_that_cannot_be(preempt, sentence):
    with pytest.raises(InputError, match=sentence):
        settings(preempt=preempt)


def test_times_may_be_written_as_people_do():
    assert settings(preempt={"order": "las", "qos": ["a"], "min_run": "30m"}).preempt.min_run == 1800
