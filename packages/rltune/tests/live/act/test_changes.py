from dataclasses import replace

from live_cases import decide_by, job, nodes, running, settings, snapshot

from rltune.live.act.changes import plan, release
from rltune.live.decide.decide import Situation
from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.holdings import Holdings, Intent


def planned(jobs, held=None, on=None, **sections):
    """Decide, then plan."""
    seen, wanted, held = snapshot(jobs, on), settings(**sections), held or Holdings()
    return plan(seen, decide_by(wanted, Situation(seen, held)), held, wanted)


def changes(made):
    return [(i.change.job, i.change.kind, i.value, i.undo) for i in made.intents]


def hold(one, kind, value, before):
    """Hold something of a job."""
    change = Change(one.id, kind, nodes=value) if isinstance(value, tuple) else Change(one.id, kind, value=value)
    return Holdings.after([Intent(change, one.submit_s, before)])


FULL = (running(100, "n0", 4), running(101, "n1", 4))


def test_a_queue_is_numbered_and_nobody_is_led_anywhere():
    """Where nothing can start, numbers are all that changes."""
    made = planned([*FULL, job(1, 1, 60), job(2, 1, 10)])
    assert changes(made) == [(2, ChangeKind.SITE_FACTOR, 5000, False)]  # the other's number is 0, as it was
    assert made.intents[0].before == 0


def test_a_number_of_the_sites_own_is_left_alone():
    """Nobody says that it is ours, so it is not touched."""
    made = planned([*FULL, job(1, 1, 60), job(2, 1, 10, site_factor=70, priority=20_070)])
    assert 2 not in [i.change.job for i in made.intents]


def test_a_job_whose_factor_is_not_told_is_left_alone():
    """What could not be given back is not changed."""
    made = planned([*FULL, job(1, 1, 60), job(2, 1, 10, site_factor=None)])
    assert 2 not in [i.change.job for i in made.intents]
    by_priority = planned([*FULL, job(1, priority_by_hand=None)], numbers={"channel": "priority"})
    assert not by_priority.intents


def test_a_start_is_led_by_excluding_all_other_nodes():
    """The user's own exclusions stay in the list."""
    made = planned([running(9, "n0", 2), job(1, 2, excluded_nodes=("n2",))], on=nodes(4, 4, 4))
    led = next(i for i in made.intents if i.change.kind is ChangeKind.EXCLUDE_NODES)
    assert led.change.nodes == ("n2", "n1")
    assert led.before == ("n2",)


def test_a_start_can_be_pinned():
    """A pin names exactly as many nodes as the job has; a job that left the number open is not pinned to two."""
    pin = {"steer": "pin"}
    one = planned([running(9, "n0", 2), job(1, 2, nodes=1)], **pin)
    assert (1, ChangeKind.REQUIRE_NODES, ("n0",), False) in changes(one)
    assert not [
        i for i in planned([job(1, 6)], on=nodes(4, 4, 4), **pin).intents if i.change.kind is ChangeKind.REQUIRE_NODES
    ]


def test_steering_can_be_off():
    """With steer off, nodes are never touched."""
    assert not [i for i in planned([job(1)], steer="off").intents if i.change.nodes]


def test_nobody_is_led_who_has_no_choice_or_has_chosen():
    """A job with nodes of its own, one for which one node is left, and arrays are not led."""
    for one in (
        job(1, required_nodes=("n0",), nodes=1),
        job(1, excluded_nodes=("n1",)),
        job(1, array_id=1, array_tasks="1-3", array_waiting=3),
    ):
        assert not [i for i in planned([one]).intents if i.change.nodes]


def test_a_job_that_was_led_and_did_not_start_is_free_in_the_next_cycle():
    """Slurm may know better; the lists are given back before anything else."""
    one = job(1, excluded_nodes=("n1",))
    made = planned([one], hold(one, ChangeKind.EXCLUDE_NODES, ("n1",), ()))
    assert changes(made)[0] == (1, ChangeKind.EXCLUDE_NODES, (), True)


def test_only_differences_are_written():
    """A job that has its number already is not written again."""
    queue = [*FULL, job(1, 1, 60), job(2, 1, 10)]
    first = planned(queue)
    held = Holdings.after(first.intents)
    done = {i.change.job: i.change.value for i in first.intents}
    now = [replace(j, site_factor=done[j.id], priority=j.priority + done[j.id]) if j.id in done else j for j in queue]
    assert not planned(now, held).intents


def test_a_job_that_leaves_the_scope_is_given_back():
    """Whoever opts out has what was there before."""
    one = job(1, site_factor=50, priority=20_050, partitions=("sla",))
    made = planned([one], hold(one, ChangeKind.SITE_FACTOR, 50, 3))
    assert changes(made) == [(1, ChangeKind.SITE_FACTOR, 3, True)]


def test_a_held_job_keeps_its_number_and_loses_its_list():
    """A hold is for a while: the number may stay, nodes may not."""
    one = job(1, held=True, site_factor=50, excluded_nodes=("n1",))
    held = hold(one, ChangeKind.SITE_FACTOR, 50, 0)
    held.take(Intent(Change(1, ChangeKind.EXCLUDE_NODES, nodes=("n1",)), one.submit_s, ()))
    assert changes(planned([one], held)) == [(1, ChangeKind.EXCLUDE_NODES, (), True)]


def test_the_rate_limit_keeps_the_front_of_the_queue_and_all_undoing():
    """With room for one change the best job is numbered; giving back is never put off."""
    gone = job(9, site_factor=5, partitions=("sla",))
    queue = [*FULL, *(job(i, 1, 100 - i) for i in range(1, 6)), gone]
    made = planned(queue, hold(gone, ChangeKind.SITE_FACTOR, 5, 0), limits={"changes_per_cycle": 1})
    assert [c[0] for c in changes(made)] == [9, 5]
    assert made.postponed > 0


def test_release_gives_everything_back():
    """Numbers, lists and priorities; of a held job the priority is Slurm's already."""
    one, two, three = job(1), job(2), job(3, held=True)
    held = Holdings.after(
        [
            Intent(Change(1, ChangeKind.SITE_FACTOR, value=5), one.submit_s, 1),
            Intent(Change(1, ChangeKind.REQUIRE_NODES, nodes=("n0",)), one.submit_s, ()),
            Intent(Change(2, ChangeKind.PRIORITY, value=9), two.submit_s, 20_000),
            Intent(Change(3, ChangeKind.PRIORITY, value=9), three.submit_s, 20_000),
        ]
    )
    assert changes(release(snapshot([one, two, three]), held)) == [
        (1, ChangeKind.SITE_FACTOR, 1, True),
        (1, ChangeKind.REQUIRE_NODES, (), True),
        (2, ChangeKind.RELEASE, 0, True),
    ]


def test_a_job_number_used_again_is_another_job():
    """After a Slurm was set up anew, ids begin again: what was held of the old job is nothing to the new one."""
    old = job(1)
    assert not release(
        snapshot([replace(old, submit_s=old.submit_s + 999)]), hold(old, ChangeKind.SITE_FACTOR, 5, 0)
    ).intents
