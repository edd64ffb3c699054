"""The state machine by itself: events in, instructions out."""

from dataclasses import replace

import pytest
from live_cases import NOW, decide_by, job, running, settings, snapshot

from rltune.live.act.state_machine import (
    Adopt,
    Advise,
    Brain,
    ChangesMade,
    Close,
    Compared,
    Decide,
    Decided,
    DecideFailed,
    Looked,
    LookFailed,
    Make,
    Tell,
    Unwell,
)
from rltune.live.see.backend import ChangeKind, ChangeOutcome
from rltune.live.see.health import Look
from rltune.live.see.undoing import undo_all

FULL = (running(100, "n0", 4), running(101, "n1", 4))
QUEUE = (*FULL, job(1, 1, 60), job(2, 1, 10))


class Day:
    """Leads a brain through cycles, a minute each."""

    def __init__(self, **sections):
        self.settings = settings(**sections)
        self.brain = Brain(self.settings)
        self.minute = 0

    def cycle(self, jobs=QUEUE, *, refuse=(), jump_s=0.0, seconds=0.1, unknown=False, caution=""):
        """Go through one cycle; give what was told, changed and advised."""
        self.minute += 1
        told, made, advised = [], (), ()
        look = Look(snapshot(jobs, at=NOW + 60 * self.minute + jump_s, caution=caution), 60.0 * self.minute)
        instructions = self.brain.on(Looked(look))
        situation = next(i.situation for i in instructions if isinstance(i, Decide))
        instructions += self.brain.on(Decided(decide_by(self.settings, situation), seconds))
        for instruction in instructions:
            if isinstance(instruction, Tell):
                told.append(instruction.kind)
            if isinstance(instruction, Advise):
                advised = instruction.intents
            if isinstance(instruction, Make):
                made = instruction.intents
                outcomes = tuple(ChangeOutcome(i.change, "no" if i.change.job in refuse else "") for i in made)
                self.brain.on(ChangesMade(made, None if unknown else outcomes))
        return told, made, advised


def seen_with(jobs, intents):
    """Give the jobs as Slurm shows them after changes."""
    value = {i.change.job: i.value for i in intents if i.change.kind is ChangeKind.SITE_FACTOR}
    return [
        replace(j, site_factor=value[j.id], priority=j.priority + value[j.id]) if j.id in value else j for j in jobs
    ]


def test_shadow_changes_nothing():
    """Whatever is decided, no change is asked for."""
    day = Day(mode="shadow")
    assert day.cycle() == ([], (), ())


def test_advise_only_says():
    """The changes are said and not made."""
    _, made, advised = Day(mode="advise").cycle()
    assert not made
    assert advised


def test_act_makes_changes_and_remembers_those_made():
    """What was refused is not held."""
    day = Day()
    _, made, _ = day.cycle(refuse={2})
    assert made
    assert 2 not in day.brain.holdings.by_job


def test_advice_that_was_followed_is_ours():
    """The operator typed the commands: they are not taken for the site's own factors, and not advised again."""
    day = Day(mode="advise")
    _, _, advised = day.cycle()
    day.minute += 1
    look = Look(snapshot(seen_with(list(QUEUE), advised), at=NOW + 60 * day.minute), 60.0 * day.minute)
    instructions = day.brain.on(Looked(look))
    assert instructions[0] == Adopt(advised)
    assert len(day.brain.holdings) == len(advised)


def test_a_second_cycle_makes_nothing_that_is_so_already():
    """Numbers in place stay."""
    day = Day()
    _, made, _ = day.cycle()
    assert not day.cycle(seen_with(list(QUEUE), made))[1]


@pytest.mark.parametrize("trouble", [{"jump_s": 9999.0}, {"seconds": 99.0}, {"jobs": FULL[:0]}])
def test_trouble_stops_acting_and_gives_everything_back(trouble):
    """A jump of the clock, a slow decision or a vanished queue: what is held is undone in the same cycle."""
    day = Day(health={"lost_matter_from": 1})
    _, made, _ = day.cycle()
    now = seen_with(list(QUEUE), made)
    told, back, _ = day.cycle(**{"jobs": now, **trouble})
    assert "health" in told
    assert not day.brain.acting
    if "jobs" not in trouble:  # else there is nobody to give anything back to
        assert {i.change.job for i in back} == {i.change.job for i in made}
        assert all(i.undo for i in back)
        assert not len(day.brain.holdings)


def test_it_acts_again_after_some_good_looks():
    """Three in a row, by default; until then nothing is changed."""
    day = Day()
    day.cycle(seconds=99.0)
    assert [day.brain.acting for _ in range(4) if day.cycle() or True] == [False, False, True, True]


@pytest.mark.parametrize(
    "trouble",
    [
        Unwell("the file of the policy was swapped"),
        Unwell("cycles take longer (70 s) than from one look to the next (60 s)"),
        DecideFailed("ValueError: no order"),
    ],
    ids=str,
)
def test_each_trouble_is_told_once_gives_back_and_is_paused_after_for_longer(trouble):
    """Three good looks after the first, six after the second, twelve after the third."""
    day = Day()
    for looks in (3, 6, 12):
        day.cycle()
        assert day.brain.acting
        assert len(day.brain.holdings)
        told = day.brain.on(trouble)
        assert [one.kind for one in told if isinstance(one, Tell)] == ["health"]
        (make,) = (one for one in told if isinstance(one, Make))
        assert all(intent.undo for intent in make.intents)
        day.brain.on(ChangesMade(make.intents, tuple(ChangeOutcome(i.change) for i in make.intents)))
        assert not len(day.brain.holdings)
        assert not any(isinstance(one, Tell) for one in day.brain.on(trouble))
        acting = []
        while not any(acting):
            day.cycle()
            acting.append(day.brain.acting)
        assert len(acting) == looks


def test_after_too_many_trips_it_stays_out():
    """Two trips of two allowed: until it is started again it only watches."""
    day = Day(health={"max_trips": 2, "recover_cycles": 1})
    assert day.cycle(seconds=99.0)[0] == ["health"]
    day.cycle()
    assert day.cycle(seconds=99.0)[0] == ["stopped"]
    for _ in range(9):
        assert not day.cycle()[1]


def test_looks_that_fail_are_borne_twice():
    """The second failure in a row trips; what is held is given back when Slurm answers again."""
    day = Day()
    _, made, _ = day.cycle()
    assert [t.kind for t in day.brain.on(LookFailed("down", 120.0))] == ["unreachable"]
    assert day.brain.acting
    assert [t.kind for t in day.brain.on(LookFailed("down", 180.0))] == ["health"]  # the same error is said once
    day.minute += 2
    _, back, _ = day.cycle(seen_with(list(QUEUE), made))
    assert back
    assert all(i.undo for i in back)


def test_a_worse_canary_is_rolled_back():
    """The verdict stops it for good, and all is given back."""
    day = Day()
    _, made, _ = day.cycle()
    assert day.brain.on(Compared("worse"))[0].kind == "stopped"
    _, back, _ = day.cycle(seen_with(list(QUEUE), made))
    assert len(back) == len(made)
    assert all(i.undo for i in back)


def test_changes_of_unknown_fate_count_as_made():
    """The connection broke while they were made: they are held, and checked against the next look."""
    day = Day()
    _, made, _ = day.cycle(unknown=True)
    assert len(day.brain.holdings) == len(made)
    _, again, _ = day.cycle()  # the look shows that none was made
    assert len(again) == len(made)


def test_jobs_that_ended_are_closed():
    """A job that ran and ended is nobody's any more; one that runs may be requeued."""
    day = Day()
    day.cycle()
    held = set(day.brain.holdings.by_job)
    gone = [replace(j, state="COMPLETED") if j.id in held else j for j in QUEUE]
    closed = [i for i in day.brain.on(Looked(Look(snapshot(gone, at=NOW + 120), 120.0))) if isinstance(i, Close)]
    assert {job for job, _ in closed[0].jobs} == held
    assert not len(day.brain.holdings)


def test_a_number_changed_by_an_administrator_is_left_to_him():
    """The job is not touched again, by release neither."""
    day = Day()
    _, made, _ = day.cycle()
    by_hand = [replace(j, site_factor=-777) if j.id == made[0].change.job else j for j in QUEUE]
    _, again, _ = day.cycle(by_hand)
    assert made[0].change.job not in {i.change.job for i in again}
    assert made[0].change.job not in {i.change.job for i in undo_all(snapshot(by_hand), day.brain.holdings)}


def test_a_shadow_after_a_killed_act_warns():
    """What an earlier run left is named once, with the command that frees it."""
    acted = Day()
    left = seen_with(list(QUEUE), acted.cycle()[1])
    day = Day(mode="shadow")
    day.brain.holdings = acted.brain.holdings.copy()
    assert day.cycle(left)[0] == ["leftovers"]
    assert day.cycle(left)[0] == []


def test_an_administrators_hold_is_no_lost_number():
    """A held job keeps what it has, and nothing is given up."""
    day = Day(numbers={"channel": "priority"})
    queue = [replace(j, priority_by_hand=False) for j in QUEUE]
    day.cycle(queue)
    held = [replace(j, held=True, priority=0) if j.pending else j for j in queue]
    assert not day.cycle(held)[1]
    assert not day.brain.holdings.given_up


def test_priority_is_given_back_by_release():
    """The channel Priority is undone by Slurm's own release."""
    day = Day(numbers={"channel": "priority"})
    queue = [replace(j, priority_by_hand=False) for j in QUEUE]
    _, made, _ = day.cycle(queue)
    assert {i.change.kind for i in made} == {ChangeKind.PRIORITY}
    now = [
        replace(j, priority=day.brain.holdings.of(j)[ChangeKind.PRIORITY].value, priority_by_hand=True)
        if day.brain.holdings.of(j)
        else j
        for j in queue
    ]
    assert {i.change.kind for i in undo_all(snapshot(now), day.brain.holdings)} == {ChangeKind.RELEASE}


def test_a_slurm_that_may_be_misread_is_advised_on_and_not_touched():
    """A release newer than any known: advice goes on with a warning, said once; acting is refused for good."""
    day = Day(mode="advise")
    assert [day.cycle(caution="newer")[0] for _ in range(2)] == [["health"], []]
    assert day.cycle(caution="newer")[2]  # nobody has followed it, so it is given again
    assert Day(mode="advise").cycle(caution="newer")[2]
    day = Day()
    assert [day.cycle(caution="newer")[:2] for _ in range(6)] == [(["health"], ()), *[([], ())] * 5]
    day = Day()
    changes = day.cycle()[1]
    told, undone, _ = day.cycle(seen_with(QUEUE, changes), caution="newer")  # Slurm was upgraded meanwhile
    assert told == ["health"]
    assert {intent.change.job for intent in undone} == {intent.change.job for intent in changes}
    assert all(intent.undo for intent in undone)
