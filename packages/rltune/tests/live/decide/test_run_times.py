import math
from dataclasses import replace

from live_cases import NOW, job, running, snapshot

from rltune.estimate import History, User
from rltune.live.decide.run_times import UNTOLD_S, estimate
from rltune.live.journal.ended import Ended, table
from rltune.live.see.snapshot import Partition


def ended(i, seconds, **more):
    one = replace(job(i, **more), state="COMPLETED", start_s=NOW - 9000.0 + i, end_s=NOW - 9000.0 + i + seconds)
    return Ended(one).row()


def test_the_users_limit_is_the_estimate():
    """Where there is none, the partition's; where that has none, a day."""
    none = {"limit_s": math.nan}
    seen = snapshot([job(1, 1, 30), job(2, **none), job(3, **none, partitions=("short",))])
    seen = replace(seen, partitions=(Partition(name="gpu"), Partition(name="short", max_time_s=600.0)))
    assert estimate(seen, User(), None) == {1: 1800.0, 2: UNTOLD_S, 3: 600.0}


def test_history_knows_better_than_limits():
    """Jobs of that user and name took a minute; an unknown user's limit still counts for something."""
    history = table([ended(i, 60.0, user="bob", name="tiny") for i in range(100)])
    found = estimate(snapshot([job(1, user="bob", name="tiny"), job(2, user="new", name="x")]), History(), history)
    assert 60.0 <= found[1] < 120.0
    assert found[1] < found[2] < 3600.0


def test_history_of_jobs_submitted_after_the_oldest_in_the_queue_counts():
    """A job that has waited for a week must not hide what has ended since."""
    history = table([ended(i, 60.0) for i in range(100)])
    waits_long = job(500, submit_s=NOW - 1e6)
    assert estimate(snapshot([waits_long]), History(), history)[500] < 600.0


def test_no_estimate_is_above_the_limit():
    """At its limit a job is killed, whatever others of its kind did."""
    history = table([ended(i, 9000.0) for i in range(100)])
    assert estimate(snapshot([job(1, minutes=10)]), History(), history)[1] == 600.0


def test_jobs_that_run_are_estimated_and_ended_ones_are_not():
    """Whatever holds nodes or waits."""
    seen = snapshot([running(1, "n0", 1), job(2), replace(job(3), state="FAILED")])
    assert set(estimate(seen, User(), None)) == {1, 2}
    assert estimate(snapshot([]), User(), None) == {}
