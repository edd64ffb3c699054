"""What is looked at immediately before a job is stopped, and what is done until both sides are settled."""

from dataclasses import replace

import pytest
from live_cases import NOW, MemoryCluster, job, nodes, running, settings, snapshot

from rltune.live.act.changes import lifted, plan
from rltune.live.act.displacing import GONE, NOT_MADE, NOT_STARTED, STARTED, TurnsInHand, refusal, requeues
from rltune.live.clock import SystemClock
from rltune.live.controller import Controller
from rltune.live.decide.decision import Decision, Displacement, OpenTurn, Victim, Waiting
from rltune.live.journal.store import Journal
from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.earlier_spells import SpellBook
from rltune.live.see.holdings import Holdings, Intent
from rltune.live.see.paid_tolls import Terms, toll_of
from rltune.live.see.spell import Spell

AGREED = {"qos": "scavenge", "requeue": True}
PREEMPT = {"order": "las", "qos": ["scavenge"], "pause": 600}
OLD = running(1, "n0", 4, 600, 28_800.0, **AGREED)
TURN = Displacement(5, (Victim(1, OLD.submit_s, OLD.start_s, 0),), ("n0",), "it is new")
ON = settings(preempt=PREEMPT, cycle_s=10, advanced={"health": {"max_clock_jump_s": 1e9}})
TERMS = Terms(checkpoint_s=600.0, restart_s=120.0, min_run_s=600.0, late_s=86_400.0)
BACK = replace(OLD, state="PENDING", restarts=1, submit_s=NOW, start_s=float("nan"), node_names=(), gpus_by_node=())


@pytest.fixture
def journal(tmp_path):
    return Journal.create(tmp_path / "j.db")


def seen(*jobs, at=NOW):
    return snapshot(jobs, nodes(4), at=at)


def test_a_turn_is_taken_if_all_is_as_it_was_decided_on():
    assert refusal(TURN, seen(OLD, job(5, 4)), ON) == ""


@pytest.mark.parametrize(
    ("jobs", "why"),
    [
        ((replace(OLD, state="COMPLETED"), job(5, 4)), "job 1 does not run any more"),
        ((replace(OLD, state="COMPLETING"), job(5, 4)), "job 1 does not run any more"),
        ((job(5, 4),), "job 1 does not run any more"),
        ((replace(OLD, restarts=1), job(5, 4)), "job 1 runs another spell than the one decided on"),
        ((replace(OLD, start_s=OLD.start_s + 1), job(5, 4)), "job 1 runs another spell than the one decided on"),
        ((replace(OLD, qos="normal"), job(5, 4)), "job 1 has not opted in to give way"),
        ((replace(OLD, requeue=False), job(5, 4)), "job 1 was submitted with --no-requeue"),
        ((OLD,), "job 5 waits no more"),
        ((OLD, job(5, 4, held=True)), "job 5 waits no more"),
        ((OLD, job(5, 4), job(6, 1, priority=20_001)), "job 6 is still before job 5"),
        ((OLD, job(5, 4), job(6, 1, partitions=("sla",), priority=1)), "job 6 of a higher tier could take the nodes"),
    ],
)
def test_a_turn_is_not_taken_if_anything_is_other_than_decided_on(jobs, why):
    assert refusal(TURN, seen(*jobs), ON) == why


@pytest.mark.parametrize(
    "more", [{"held": True}, {"dependency": "afterok:9"}, {"begin_s": NOW + 60}, {"gpu_types": ("v100",)},
             {"excluded_nodes": ("n0",)}]
)  # fmt: skip
def test_who_cannot_take_the_nodes_is_no_rival(more):
    rival = job(6, 1, partitions=("sla",), **more)
    assert refusal(TURN, seen(OLD, job(5, 4), rival), ON) == ""


def test_only_a_requeue_of_what_is_incomplete_is_sent():
    (intent,) = requeues(TURN, seen(OLD, job(5, 4)))
    assert (intent.change.kind, intent.change.job, intent.change.value) == (ChangeKind.REQUEUE, 1, 5)


def test_the_claimant_is_lifted_over_all_of_its_tier():
    """And it stands first in what is read back afterwards."""
    waiting = tuple(Waiting(job=i, reason="", competes=True, ours=True, number=n) for i, n in ((6, 900), (5, 100)))
    look = seen(OLD, job(5, 4, site_factor=0), job(6, 4, priority=30_000, site_factor=0))
    made = lifted(Decision(NOW, waiting, {}, (TURN,)), (TURN,), look, ON)
    assert [w.job for w in made.waiting] == [5, 6]
    assert made.by_job[5].number + 20_000 == made.by_job[6].number + 30_000 + 100
    (first, *_) = plan(look, made, Holdings(), ON).intents
    assert (first.change.job, first.change.value) == (5, 11_000)


def test_two_turns_in_one_cycle_do_not_get_in_each_other_s_way():
    """The first stays above the second, and each is led to the nodes that others leave for it."""
    one, two = OLD, running(2, "n1", 4, 600, 28_800.0, **AGREED)
    turns = tuple(
        Displacement(claimant, (Victim(v.id, v.submit_s, v.start_s, 0),), v.node_names, "it is new")
        for claimant, v in ((5, one), (6, two))
    )
    waiting = tuple(Waiting(job=i, reason="", competes=True, ours=True, number=n) for i, n in ((5, 900), (6, 100)))
    look = snapshot([one, two, *(job(i, 4, site_factor=0) for i in (5, 6))], nodes(4, 4))
    made = lifted(Decision(NOW, waiting, {}, turns), turns, look, ON)
    assert [w.job for w in made.waiting] == [5, 6]
    assert made.by_job[5].number > made.by_job[6].number
    wanted = {(i.change.job, i.change.kind): i.change for i in plan(look, made, Holdings(), ON).intents}
    led = {i: wanted[i, ChangeKind.EXCLUDE_NODES].nodes for i in (5, 6)}
    assert led == {5: ("n1",), 6: ("n0",)}
    written = [job(i, 4, priority=20_000 + made.by_job[i].number, excluded_nodes=led[i]) for i in (5, 6)]
    after = snapshot([one, two, *written], nodes(4, 4))
    assert [refusal(turn, after, ON) for turn in turns] == ["", ""]


@pytest.mark.parametrize(
    ("spells", "start_s", "paid_s", "due_s", "settled"),
    [
        ([(0, 1000, True)], float("nan"), 400 + 120, 1000 + 86_400 - 520 - 600, False),  # 400 s since its checkpoint
        ([(0, 1000, True)], 5000.0, 520 + 4000, float("inf"), False),
        ([(0, 1000, False)], 5000.0, 0, float("inf"), False),  # its node went down: no turn
        ([(0, 1000, True)], 90_000.0, 520 + 89_000, float("inf"), True),
        # 600 s are saved, 480 s of the second spell are work: 1,080 s, of which 600 s are saved
        ([(0, 1000, True), (5000, 5600, True)], float("nan"), 4520 + 480 + 120, 5600 + 86_400 - 5120 - 600, False),
        ([(0, 1000, True), (90_000, 95_000, False)], float("nan"), 520 + 89_000, float("inf"), True),
    ],
)
def test_what_giving_way_has_cost_a_job(spells, start_s, paid_s, due_s, settled):
    behind = [Spell(1, 0.0, a, b, i, displaced=ours) for i, (a, b, ours) in enumerate(spells)]
    toll = toll_of(behind, start_s, TERMS)
    assert (toll.paid_s, toll.due_s, toll.settled) == (paid_s, due_s, settled)


@pytest.mark.parametrize(
    ("jobs", "after_s", "outcome"),
    [
        ((replace(OLD, state="COMPLETING", restarts=1), job(5, 4)), 20, None),
        ((BACK, running(5, "n0", 4, ran_s=-3.0)), 20, STARTED),
        ((BACK, replace(job(5, 4), state="CANCELLED")), 20, GONE),
        ((BACK, job(5, 4)), 59, None),
        ((BACK, job(5, 4)), 61, NOT_STARTED),  # KillWait and three cycles
        ((OLD, job(5, 4)), 61, NOT_MADE),  # the controller was killed before it gave the command
    ],
)
def test_what_a_turn_comes_to(jobs, after_s, outcome):
    settled, _ = TurnsInHand([OpenTurn(TURN, NOW)]).look(seen(*jobs, at=NOW + after_s), 60.0)
    assert [one.outcome for one in settled] == ([outcome] if outcome else [])
    if outcome == STARTED:
        assert settled[0].freed_s == 3.0


def test_the_victim_competes_again_once_it_waits_and_the_claimant_has_started():
    """While it is being stopped Slurm would take the order and do nothing."""
    hand = TurnsInHand([OpenTurn(TURN, NOW)])
    delayed = replace(BACK, begin_s=NOW + 121)
    started = running(5, "n0", 4, ran_s=0.0)
    assert hand.look(seen(delayed, job(5, 4)), 60.0) == ([], [])
    assert hand.look(seen(replace(OLD, state="COMPLETING", restarts=1), started), 60.0)[1] == []
    (let_in,) = hand.look(seen(delayed, started), 60.0)[1]
    assert (let_in.change.kind, let_in.change.job) == (ChangeKind.BEGIN_NOW, 1)
    assert hand.open  # until Slurm has done so
    assert hand.look(seen(BACK, started), 60.0) == ([], [])
    assert not hand.open


def test_a_turn_that_fails_is_told_and_pauses_all(journal):
    """The claimant does not start: nobody gives way for the time set, and the victim competes again."""
    cluster = MemoryCluster(seen(OLD, job(5, 4)))
    acting = Controller(cluster, journal, ON, SystemClock())
    assert acting.cycle().gave_way == 1
    cluster.now = seen(replace(BACK, begin_s=NOW + 900), job(5, 4, site_factor=None), at=NOW + 100)
    report = acting.cycle()
    assert any("has not started 100 s after others gave way" in text for text in report.events)
    assert [change.kind for batch in cluster.batches for change in batch].count(ChangeKind.BEGIN_NOW) == 1
    assert acting.journal.rows("SELECT outcome FROM turn_end") == [("not started",)]
    again = replace(OLD, id=7, node_names=("n0",))
    cluster.now = seen(again, job(8, 4), at=NOW + 110)
    assert acting.cycle().gave_way == 0
    cluster.now = seen(again, job(8, 4), at=NOW + 701)
    assert acting.cycle().gave_way == 1


@pytest.mark.parametrize("mode", ["shadow", "advise"])
def test_shadow_and_advise_tell_what_they_would_do_and_stop_nobody(mode, journal):
    said = []
    cluster = MemoryCluster(seen(OLD, job(5, 4)))
    on = settings(preempt=PREEMPT, mode=mode)
    watching = Controller(cluster, journal, on, SystemClock(), advise=said.extend)
    watching.cycle()
    assert cluster.batches == []
    assert any("should give way" in text for (text,) in watching.journal.rows("SELECT text FROM note WHERE job = 1"))
    assert (f"1 {ChangeKind.REQUEUE} 5" in said) == (mode == "advise")


def test_a_refused_requeue_is_noted_and_forgotten(journal):
    cluster = MemoryCluster(seen(OLD, job(5, 4)))
    cluster.refuse[1] = "Access/permission denied"
    acting = Controller(cluster, journal, ON, SystemClock())
    acting.cycle()
    assert acting.brain.turns.open == []
    assert acting.journal.rows("SELECT outcome FROM turn_end") == [("refused: Access/permission denied",)]


def test_what_slurm_forgets_of_a_requeued_job_is_remembered():
    book = SpellBook()
    assert book.look(seen(OLD)) == []
    over = replace(OLD, state="COMPLETING", restarts=1)
    (spell,) = book.look(seen(over, at=NOW + 5))
    assert (spell.start_s, spell.end_s, spell.displaced) == (OLD.start_s, NOW + 5, False)
    assert book.look(seen(BACK, at=NOW + 9)) == []
    (known,) = book.remembered(seen(BACK, at=NOW + 9), TERMS).jobs
    assert (known.came_s, known.served_s, known.displaced) == (OLD.submit_s, 28_805.0, 0)
    book.look(seen(replace(BACK, state="COMPLETED")))
    assert not book.by_job


def test_a_killed_controller_still_counts_the_turn_that_it_began():
    """It did not see the job run, and knows from its journal when it told it to stop."""
    spell = Spell(1, OLD.submit_s, OLD.start_s, NOW - 3, 0, displaced=True)
    book = SpellBook()
    assert book.look(seen(BACK), [spell]) == [spell]
    assert book.look(seen(BACK), [spell]) == []
    (known,) = book.remembered(seen(BACK), TERMS).jobs
    assert (known.displaced, known.displaced_today) == (1, 1)
    assert book.remembered(seen(BACK, at=NOW + 90_000), TERMS).jobs[0].displaced_today == 0


def test_what_is_set_of_a_job_stays_ours_when_it_is_requeued():
    """Slurm keeps SiteFactor and node lists, and gives it a new submit time."""
    holdings = Holdings()
    holdings.take(Intent(Change(1, ChangeKind.SITE_FACTOR, 7), OLD.submit_s, 0))
    look = seen(BACK)
    holdings.follow_requeues(look)
    assert holdings.forget_ended(look) == []
    assert holdings.of(BACK)[ChangeKind.SITE_FACTOR].value == 7
    other = replace(BACK, restarts=0, submit_s=NOW + 5)  # a new Slurm, which counts from 1 again
    holdings.follow_requeues(seen(other))
    assert holdings.of(other) == {}


def test_history_learns_all_that_a_job_ran_and_not_its_last_spell(journal):
    cluster = MemoryCluster(seen(OLD))
    watching = Controller(cluster, journal, ON, SystemClock())
    watching.cycle()
    cluster.now = seen(BACK, at=NOW + 10)
    watching.cycle()
    cluster.now = seen(replace(OLD, state="COMPLETED", restarts=1, start_s=NOW + 20, end_s=NOW + 50), at=NOW + 60)
    watching.cycle()
    assert journal.history(10).duration_s.tolist() == [28_810.0 + 30.0]
