"""The record in Slurm where Slurm's own numbers of jobs tell nothing of who came first."""

from dataclasses import replace
from itertools import count

import pytest
from live_cases import MemoryCluster, dead, job, snapshot

from rltune.live.give_back import GiveBack
from rltune.live.keeper import FORGED, Keeper, LockedError
from rltune.live.see.backend import BackendError, ChangeKind, UnreachableError
from rltune.live.see.record_text import Claim, Holder


def test_a_dead_lock_with_a_higher_number_is_taken_over_too():
    """Slurm counts its jobs from the first again one day: a lock of before then has the higher number."""
    cluster = MemoryCluster(snapshot((job(1, 1, site_factor=500),)))
    before = Keeper(cluster, me=dead())
    before.take()
    before.note([Claim(1, ChangeKind.SITE_FACTOR, (500,), 0)], cluster.now.taken_s, cluster.now.taken_s)
    cluster.ids = count(7)
    after = Keeper(cluster)
    taken = after.take()
    assert taken.holdings.by_job[1][ChangeKind.SITE_FACTOR].value == 500
    assert set(cluster.records) == {7, 8}  # a lock and a page, both of the one that lives
    assert after.loss(cluster.observe()) == ""


def many_claims(n):
    """Return claims for one page if there are few, and for several if there are many."""
    return [Claim(i, ChangeKind.SITE_FACTOR, (i,), 0) for i in range(1, n + 1)]


def test_old_pages_that_slurm_does_not_cancel_stop_no_change_and_are_tried_again():
    """All that is new was written: the old pages are copies."""
    cluster = MemoryCluster(snapshot(()))
    keeper, now_s = Keeper(cluster), cluster.now.taken_s
    keeper.take()
    keeper.note(many_claims(3), now_s, now_s)
    close, refused = cluster.close_records, []

    def refuse(jobs):
        refused.append(list(jobs))
        raise BackendError("records could not be cancelled: access denied")

    cluster.close_records = refuse
    keeper.note(many_claims(20_000), now_s, now_s)
    (old,) = refused[0]
    assert old in cluster.records
    assert keeper.loss(cluster.observe()) == ""
    keeper.note(many_claims(20_000), now_s, now_s)
    assert refused == [[old]] * 2
    cluster.close_records = close
    keeper.note(many_claims(20_000), now_s, now_s)
    assert old not in cluster.records
    keeper.close()
    assert not cluster.records


def test_the_first_error_is_told_if_pages_can_neither_be_opened_nor_cancelled():
    cluster = MemoryCluster(snapshot(()))
    keeper, now_s = Keeper(cluster), cluster.now.taken_s
    keeper.take()
    opened, close = [], cluster.close_records

    def full(text, partition):
        if opened:
            raise BackendError("the queue is full")
        opened.append(MemoryCluster.open_record(cluster, text, partition))
        return opened[0]

    def refuse(_):
        raise BackendError("access denied")

    cluster.open_record, cluster.close_records = full, refuse
    with pytest.raises(BackendError, match="the queue is full"):
        keeper.note(many_claims(20_000), now_s, now_s)
    assert opened[0] in cluster.records
    cluster.close_records = close
    keeper.close()
    assert not cluster.records


def test_numbers_of_another_controller_are_not_told_as_nobodys():
    """An operator who cleared them would break it; those that no record explains are told."""
    cluster = MemoryCluster(
        snapshot((job(1, 1, site_factor=500), job(2, 1, site_factor=700), job(3, 1, site_factor=9)))
    )
    now_s = cluster.now.taken_s
    for number, partition, factor in ((1, "a", 500), (2, "b", 700)):
        keeper = Keeper(cluster, (partition,), me=dead())
        keeper.take()
        keeper.note([Claim(number, ChangeKind.SITE_FACTOR, (factor,), 0)], now_s, now_s)
    given = GiveBack(cluster, partitions=("a",))()
    assert given.all_back
    assert given.unexplained == (3,)
    assert cluster.now.job_by_id[2].site_factor == 700


@pytest.mark.parametrize("powerless", [True, False])
def test_a_lock_holds_only_if_its_account_could_act(powerless):
    """Anybody can submit a job that looks like a lock; that of an account without rights keeps nobody away."""
    cluster = MemoryCluster(snapshot((job(1, 1, site_factor=500),)))
    now_s = cluster.now.taken_s
    theirs = Keeper(cluster, ("a",), me=Holder("elsewhere", 4711, token="theirs"))
    theirs.take()
    theirs.note([Claim(1, ChangeKind.SITE_FACTOR, (500,), 0)], now_s, now_s)
    cluster.records = {number: replace(record, user="games") for number, record in cluster.records.items()}
    cluster.powerless = {"games"} if powerless else set()
    ours = Keeper(cluster, ("a",))
    if not powerless:
        with pytest.raises(LockedError, match="user games"):
            ours.take()
        given = GiveBack(cluster, partitions=("a",))()
        assert (given.all_back, given.foreign, given.unexplained) == (False, ("games",), ())
        return
    taken = ours.take()
    assert not taken.holdings.by_job
    assert taken.told == (f"job {theirs.lock} of user games is the lock of another account ({FORGED}); left alone",)
    ours.close()
    given = GiveBack(cluster, partitions=("a",))()
    assert (given.all_back, given.forgers, given.unexplained) == (True, ("games",), (1,))
    assert "what user games keeps looks like a record, but is none" in str(given)
    assert cluster.now.job_by_id[1].site_factor == 500


def test_what_slurm_does_not_answer_to_in_time_is_given_back_by_the_next_try():
    """On a loaded machine a batch may be lost: those before it are done, and the rest is tried again, and told."""
    many = 600
    cluster = MemoryCluster(snapshot(tuple(job(i, 1, site_factor=i) for i in range(1, many + 1))))
    keeper = Keeper(cluster, me=dead())
    keeper.take()
    now_s = cluster.now.taken_s
    keeper.note([Claim(i, ChangeKind.SITE_FACTOR, (i,), 0) for i in range(1, many + 1)], now_s, now_s)
    apply, lost = cluster.apply, [2, 4]  # these calls get no answer

    def losing(changes):
        lost[:] = [at - 1 for at in lost]
        if 0 in lost:
            raise UnreachableError("scontrol did not answer in 32 s")
        return apply(changes)

    cluster.apply = losing
    given = GiveBack(cluster)()
    assert given.all_back, given.left
    assert not any(one.site_factor for one in cluster.now.pending)
    assert not cluster.records
    assert max(map(len, cluster.batches)) <= 250


def test_where_slurm_takes_no_record_that_is_said():
    """As where the partition takes no jobs, or the account has as many as it may."""
    cluster = MemoryCluster(snapshot((job(1, 1),)))

    def full(_text, _partition):
        raise BackendError("sbatch failed: partition inactive")

    cluster.open_record = full
    with pytest.raises(BackendError, match="takes no record, without which nothing is changed: sbatch failed"):
        Keeper(cluster).take()
