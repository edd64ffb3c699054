"""The guard on a running cluster: a job that is owed its start is first in its tier, whatever else is said."""

from dataclasses import replace

import pytest
from live_cases import NOW, decide_by, job, nodes, running, settings, snapshot

from rltune.live.control_settings import Canary
from rltune.live.decide.decide import Situation
from rltune.live.decide.scope import in_canary
from rltune.live.journal.chronicle import Chronicle

DAY_S = 86_400.0
FULL = (running(100, "n0", 4), running(101, "n1", 4))


def old(id, gpus=4, minutes=600, waited_s=2.5 * DAY_S, **more):  # noqa: A002
    """Make a large job that has waited for long."""
    return job(id, gpus, minutes, submit_s=NOW - waited_s, **more)


def decided(jobs, guard="24h:4x", on=None, **sections):
    return decide_by(settings(safety={"guard": guard}, **sections), Situation(snapshot(jobs, on)))


def order(decision):
    return [w.job for w in decision.waiting if w.competes]


def test_by_default_nobody_is_overtaken_for_ever():
    """Smallest area first would leave it last: after a day, and four times its own limit, it is first."""
    queue = [*FULL, old(1), job(2), job(3)]
    assert order(decided(queue)) == [1, 2, 3]
    assert order(decided(queue, "off")) == [2, 3, 1]
    assert order(decided([*FULL, old(1, waited_s=1.5 * DAY_S), job(2), job(3)])) == [2, 3, 1]  # four times ten hours


def test_owed_jobs_come_the_oldest_first_and_nothing_delays_them():
    """The head has a reservation; a small job that would run into it waits."""
    queue = [running(100, "n0", 4, minutes=60), old(1), old(2, waited_s=3 * DAY_S), job(3, 4, 600)]
    d = decided(queue, on=nodes(4, 4))
    assert order(d) == [2, 1, 3]
    assert d.by_job[2].starts
    assert d.by_job[3].reason == "no room for it now"


def test_a_policys_own_guard_wins():
    """`saf+guard:1h` is told by the policy's name; the setting is for those that have none."""
    queue = [*FULL, job(1, 4, 600, submit_s=NOW - 7200), job(2)]
    assert order(decided(queue, pipeline={"policy": "saf+guard:1h"})) == [1, 2]
    assert order(decided(queue, pipeline={"policy": "saf"})) == [2, 1]


def test_bounds_on_ranks_do_not_undo_it():
    """Slurm has the owed job last and nobody may move by more than one place: it is first all the same."""
    queue = [*FULL, *(job(i, 1, 100 - i, priority=30_000 - i) for i in range(2, 7)), old(1, priority=10)]
    for limits in ({"max_ranks": 1}, {"max_ranks_per_cycle": 1}):
        assert order(decided(queue, limits=limits)) == [1, 3, 2, 5, 4, 6]


@pytest.mark.parametrize("channel", ["site-factor", "priority"])
def test_weights_larger_than_the_band_do_not_undo_it(channel):
    """A job of a heavy QOS is 200,000 ahead: the owed job's number is as large as it takes, and no larger."""
    queue = [*FULL, old(1, priority=100), job(2, priority=200_000), job(3)]
    d = decided(queue, numbers={"channel": channel})
    assert order(d)[0] == 1
    height = d.by_job[1].number + (100 if channel == "site-factor" else 0)
    other = d.by_job[2].number + (200_000 if channel == "site-factor" else 0)
    assert height == other + 100 or channel == "priority"  # a hundredth of the band
    assert height > other


def test_it_is_first_of_its_tier_only():
    """Jobs of a higher tier stay ahead, and a job that is not ours keeps its place before it."""
    queue = [*FULL, old(1, priority=500), job(2), job(3, partitions=("sla",)), job(4, priority=90_000, account="other")]
    d = decided(queue, scope={"partitions": ["gpu"], "not_accounts": ["other"]})
    assert order(d) == [3, 4, 1, 2]
    assert d.by_job[4].number is None


def test_it_is_protected_behind_a_higher_tier_too():
    """Without EASY whatever fits starts: not if it would delay an owed job that waits, whoever came before that one."""
    sla, small = job(3, 1, 10, partitions=("sla",)), job(2, 1, 600)
    queue = [running(100, "n0", 2), sla, old(1), small]
    plain, guarded = (
        decided(queue, guard, nodes(4), pipeline={"backfill": "fit-first"}) for guard in ("off", "24h:4x")
    )
    assert [w.job for w in plain.starts] == [3, 2]
    assert [w.job for w in guarded.starts] == [3]
    assert order(guarded) == [3, 1, 2]
    assert guarded.by_job[2].reason == "would delay job 1"


@pytest.mark.parametrize("channel", ["site-factor", "priority"])
def test_nothing_of_ours_is_lifted_over_a_job_that_is_not_for_us_to_move(channel):
    """One of a QOS out of scope, and one that a human has put first: both stay where they are, guard or not."""
    scope = {"partitions": ["gpu"], "not_qos": ["sla"]}
    by_hand = job(8, 4, 900, priority=20_777, priority_by_hand=True, other_factors=0)
    ours = [job(i, 1, 5, priority=20_000 - i) for i in range(1, 5)]
    queue = [*FULL, by_hand, *ours, job(9, 4, 900, priority=20_500, qos="sla"), old(7, priority=500)]
    d = decided(queue, scope=scope, numbers={"channel": channel})
    assert order(d)[:2] == [8, 9]
    assert order(d)[2] == 7  # owed, so first of ours
    assert d.by_job[8].number is None
    assert d.by_job[9].number is None


def test_the_canarys_jobs_may_pass_the_others():
    """Those jobs would be ours at a larger share: were they kept ahead, a canary could only do worse."""
    jobs = [job(i, 1, 5 if in_canary(job(i), Canary(share=0.5)) else 900) for i in range(1, 9)]
    d = decided([*FULL, *jobs], canary={"share": 0.5})
    assert {w.job for w in d.waiting if w.kept} == {one.id for one in jobs if one.limit_s > 300}
    assert any(w.rank < w.slurm_rank for w in d.waiting if not w.kept)
    assert any(w.rank > w.slurm_rank for w in d.waiting if w.kept)


def test_jobs_of_an_sla_come_before_all_of_ours():
    """By age, before owed ones too."""
    queue = [*FULL, old(1), job(2), job(3, 4, 900, qos="gold"), job(4, 1, 5, qos="gold")]
    assert order(decided(queue, "24h:4x:sla=gold")) == [3, 4, 1, 2]


def test_nothing_of_ours_is_lifted_over_an_sla_job_that_is_not_ours():
    """It keeps its own number, and what Slurm has behind it stays behind it, owed jobs too; what is ahead may stay."""
    gold = job(3, 4, 900, qos="gold", priority=20_100)
    queue = [*FULL, old(1), job(2), gold, job(4, priority=40_000)]
    scope = {"partitions": ["gpu"], "not_qos": ["gold"]}
    assert order(decided(queue, "24h:4x:sla=gold", scope=scope)) == [3, 1, 4, 2]
    assert order(decided(queue, "off", scope=scope))[-1] != 3
    assert order(decided([*FULL, job(2), gold, job(4, priority=40_000)], "sla=gold", scope=scope)) == [4, 3, 2]


def test_the_journal_says_so():
    """Told once when it becomes owed, with the moment since when."""
    chronicle = Chronicle()
    waits = old(1, waited_s=40 * 3600 - 30)  # four times its ten hours in half a minute
    first, second = (snapshot([*FULL, waits, job(2)], at=NOW + later) for later in (0, 60))
    told = [
        n.text for s in (first, second) for n in chronicle.notes(s, decide_by(settings(), Situation(s))) if n.job == 1
    ]
    assert len(told) == 2
    assert "owed" not in told[0]
    assert "owed its start since 2023-11-14 22:13:50Z; rank 1 (Slurm's 1)" in told[1]


def test_a_fit_first_pass_keeps_the_owed_jobs_place():
    """Where everybody may overtake, nobody may delay it."""
    queue = [running(100, "n0", 2, minutes=60), old(1), job(2, 2, 600)]
    d = decided(queue, on=nodes(4), pipeline={"backfill": "fit-first"})
    assert not d.starts
    without = decided(queue, "off", on=nodes(4), pipeline={"backfill": "fit-first"})
    assert [w.job for w in without.starts] == [2]


def test_an_array_is_owed_as_a_whole():
    """Its record waits since its submission."""
    tasks = {"array_id": 9, "array_tasks": "2-6", "array_waiting": 5}
    d = decided([*FULL, replace(old(9), **tasks), job(2)])
    assert order(d) == [9, 2]
    assert d.by_job[9].owed_since_s == NOW - 20 * 3600  # 60 hours ago, and four times ten hours of grace
