"""What Slurm holds beside what was meant: another order is a fault unless its own factors moved a little."""

from dataclasses import replace

import pytest
from live_cases import MemoryCluster, decide_by, job, running, settings, snapshot

from rltune.live.act.read_back import Cause, read_back
from rltune.live.decide.decide import Situation
from rltune.live.see.backend import ChangeKind
from rltune.live.see.holdings import Hold, Holdings
from rltune.live.see.snapshot import PriorityParts

FULL = (running(100, "n0", 4), running(101, "n1", 4))
QUEUE = (job(1, 1, 60), job(2, 1, 30), job(3, 1, 10))
BEARABLE = 1250  # an eighth of the band


def after(moved, written=None, holdings=None, unsure=()):
    """Read back when every number was taken and Slurm's own factors moved since the look."""
    look = snapshot((*FULL, *QUEUE))
    meant = decide_by(settings(), Situation(look, Holdings()))
    held = {}
    for one in QUEUE:
        number = (written or {}).get(one.id, meant.by_job[one.id].number)
        others = one.priority + moved.get(one.id, 0)
        held[one.id] = PriorityParts(others + number, number, others, by_hand=False)
    return read_back(meant, look, held, holdings or Holdings(), (), 64, unsure)


def test_what_was_meant_is_what_is_held():
    """Ages go on, for all alike."""
    found = after({1: 300, 2: 300, 3: 300})
    assert not found
    assert found.drift == 0


def test_a_small_move_of_slurms_own_factors_is_told_and_is_no_fault():
    """Two jobs next to each other have changed places; the next cycle mends it."""
    look = snapshot((*FULL, *QUEUE))
    meant = decide_by(settings(), Situation(look, Holdings()))
    near = {job.id: meant.by_job[3].number - place for place, job in enumerate(reversed(QUEUE))}
    found = after({2: 40, 3: -10}, written=near)
    assert set(found.wrong.values()) == {Cause.FACTORS}
    assert found.drift == 50
    assert not found.is_disorder(BEARABLE)
    assert found.is_disorder(49)


def test_numbers_that_are_wrong_by_themselves_are_a_fault_however_little_moved():
    """Ours were written in another order than was meant: that is no move of Slurm's factors, and must trip."""
    look = snapshot((*FULL, *QUEUE))
    meant = decide_by(settings(), Situation(look, Holdings()))
    turned = {1: meant.by_job[3].number, 2: meant.by_job[2].number, 3: meant.by_job[1].number}
    for moved in ({}, {2: 3}):
        found = after(moved, written=turned)
        assert found.misnumbered
        assert found.is_disorder(BEARABLE)


def test_a_large_one_is():
    """Numbers of such a band order nothing there."""
    found = after({1: 9000})
    assert found.misplaced
    assert found.is_disorder(BEARABLE)


def test_an_order_that_another_hand_made_is_a_fault_whatever_else_moved():
    """A number was replaced right after ours."""
    hold = Hold(ChangeKind.SITE_FACTOR, 1, 0, QUEUE[0].submit_s)
    found = after({2: 3}, {1: 20_000}, Holdings({1: {hold.kind: hold}}))
    assert found.wrong == {1: Cause.ANOTHER_HAND}
    assert found.is_disorder(BEARABLE)


def test_a_change_that_nobody_knows_to_be_made_is_no_other_hands_work():
    """Slurm did not answer in time: it is told as that, and is a fault all the same if the order is wrong."""
    hold = Hold(ChangeKind.SITE_FACTOR, 1, 0, QUEUE[0].submit_s)
    found = after({2: 3}, {1: 20_000}, Holdings({1: {hold.kind: hold}}), unsure={1})
    assert found.wrong == {1: Cause.UNSURE}
    assert found.is_disorder(BEARABLE)


@pytest.mark.parametrize("weight", [1, 20])
def test_nobody_is_left_right_below_a_job_that_is_not_ours(weight):
    """An SLA job loses some of its priority as its user's share goes: ours do not stand above it then."""
    sla = job(9, 1, 600, priority=25_000 * weight, qos="sla")
    lifted = replace(QUEUE[2], priority=24_999 * weight, other_factors=24_999 * weight)
    cluster = MemoryCluster(snapshot((*FULL, sla, *QUEUE[:2], lifted)))
    ours = settings(scope={"partitions": ["gpu"], "not_qos": ["sla"]})
    made = decide_by(ours, Situation(cluster.now, Holdings()))
    heights = {w.job: cluster.now.job_by_id[w.job].priority + (w.number or 0) for w in made.waiting}
    assert max(heights[one.id] for one in QUEUE) == heights[9] - 100
