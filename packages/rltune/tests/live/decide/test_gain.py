from dataclasses import replace

import pytest
from live_cases import NOW, job, nodes, settings, snapshot

from rltune.live.decide.gain import FEWEST, estimate_gain
from rltune.live.decide.replayed_queue import ReplayedQueue, Seen
from rltune.live.pinned_pipeline import pin_pipeline


def seen(minutes, priorities, gpus=8):
    """Give jobs that all came at once, ran alone on the cluster one after the other, and have ended."""
    jobs = []
    for i, (m, p) in enumerate(zip(minutes, priorities, strict=True)):
        one = job(i + 1, gpus, m, state="COMPLETED", submit_s=NOW - 90_000.0)
        jobs.append(Seen(replace(one, start_s=NOW - 80_000.0, end_s=NOW - 80_000.0 + 60 * m), 60.0 * m, p))
    return jobs


def gained(jobs, **pipeline):
    pinned = pin_pipeline(settings(pipeline=pipeline))
    return estimate_gain(ReplayedQueue.of(jobs, snapshot([], nodes(4, 4)), pinned))


def test_the_same_order_gains_nothing():
    """If Slurm's order is ours, the difference is exactly 0."""
    n = 30
    gain = gained(seen(range(1, n + 1), [1000 - i for i in range(n)]), policy="saf")
    assert gain.share == 0.0
    assert gain.jobs == n


def test_slurms_order_is_replayed_by_its_priorities():
    """Longest first against shortest first: the mean waits are those that one works out by hand."""
    n = 30
    gain = gained(seen(range(1, n + 1), range(n)), policy="sjf")
    shortest = sum(60.0 * k * (n - k) for k in range(1, n + 1)) / n
    longest = sum(60.0 * k * (k - 1) for k in range(1, n + 1)) / n
    assert gain.our_wait_s == pytest.approx(shortest)
    assert gain.slurm_wait_s == pytest.approx(longest)
    assert gain.observed_wait_s == pytest.approx(10_000.0)
    assert gain.share == pytest.approx(1 - shortest / longest)


def test_too_few_ended_jobs_say_nothing():
    """Nor do many that have not ended."""
    assert gained(seen([5] * (FEWEST - 1), [1] * (FEWEST - 1))) is None
    waiting = [replace(s, job=replace(s.job, state="PENDING")) for s in seen([5] * 50, [1] * 50)]
    assert gained(waiting) is None


def test_nobody_seen_says_nothing():
    """A cluster that was idle since the first look has nothing to replay."""
    pinned = pin_pipeline(settings(pipeline={"policy": "saf"}))
    assert estimate_gain(ReplayedQueue.of([], snapshot([], nodes(4)), pinned, begin_s=NOW)) is None
    before = seen(range(1, 31), range(30))
    assert estimate_gain(ReplayedQueue.of(before, snapshot([], nodes(4, 4)), pinned, begin_s=NOW)) is None


def test_history_is_learnt_within_the_replay():
    """No run time is known in the replay before it has ended there."""
    assert gained(seen([5] * 40, [1] * 40), estimator="history") is not None


def test_a_replay_goes_on_from_what_ran_and_waited_at_the_first_look():
    """Whoever came before it is there, in its nodes or in the queue, and does not count; an empty machine is none."""
    hour, begin = 3600.0, NOW - 10 * 3600.0
    long = replace(job(1, 8, state="COMPLETED", submit_s=begin - hour), start_s=begin - hour, end_s=begin + 5 * hour)
    small = [
        replace(job(i, 4, 6, state="COMPLETED", submit_s=begin + i), start_s=begin + 5 * hour, end_s=begin + 6 * hour)
        for i in range(2, 2 + FEWEST)
    ]
    seen_then = [Seen(one, one.end_s - one.start_s, 100 - one.id) for one in (long, *small)]
    pinned = pin_pipeline(settings(pipeline={"policy": "saf"}))
    queue = ReplayedQueue.of(seen_then, snapshot([], nodes(4, 4)), pinned, begin_s=begin)
    assert queue.counts.tolist() == [False] + [True] * FEWEST
    waits = queue.waits_s(queue.slurms)
    assert waits[1] == pytest.approx(5 * hour - 2)  # the long one holds all nodes for five hours more
    assert estimate_gain(queue).jobs == FEWEST
    waiting = replace(long, state="PENDING", start_s=float("nan"), end_s=float("nan"))
    held_up = [Seen(waiting, 5 * hour, 1000), *seen_then[1:]]
    queue = ReplayedQueue.of(held_up, snapshot([], nodes(4, 4)), pinned, begin_s=begin)
    assert queue.waits_s(queue.slurms)[1] == pytest.approx(5 * hour - 2)  # it is first, and still waits
    assert queue.observed_s[0] == pytest.approx(11 * hour)
