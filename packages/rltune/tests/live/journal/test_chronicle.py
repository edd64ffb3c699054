from dataclasses import replace

from live_cases import NOW, decide_by, job, running, settings, snapshot

from rltune.live.decide.decide import Situation
from rltune.live.journal.chronicle import Chronicle
from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.holdings import Holdings, Intent

FULL = (running(100, "n0", 4), running(101, "n1", 4))


def told(chronicle, jobs):
    seen = snapshot(jobs)
    return {note.job: note.text for note in chronicle.notes(seen, decide_by(settings(), Situation(seen)))}


def test_a_queue_that_stands_still_fills_no_pages():
    """Every job is told of once, and again when its reason or state changes."""
    chronicle = Chronicle()
    queue = [*FULL, job(1), job(2, held=True)]
    assert set(told(chronicle, queue)) == {100, 101, 1, 2}
    assert told(chronicle, queue) == {}
    freed = [*FULL, job(1), job(2)]
    assert list(told(chronicle, freed)) == [2]


def test_a_story_has_reasons_ranks_nodes_and_ends():
    """From waiting to running to the end, in words."""
    chronicle = Chronicle()
    waits = told(chronicle, [*FULL, job(1)])[1]
    assert waits.startswith("waits: no room for it now; rank 1 (Slurm's 1), score ")
    assert "expected 2023-11-14 23:03:20Z" in waits
    assert told(chronicle, [FULL[0], job(1)])[1].startswith("should start now on n1")
    ran = replace(job(1), state="RUNNING", start_s=NOW, node_names=("n1",), gpus_by_node=(1,))
    assert told(chronicle, [FULL[0], ran])[1] == "runs on n1, started after 999 s"
    done = replace(ran, state="COMPLETED", end_s=NOW + 60)
    assert told(chronicle, [FULL[0], done])[1] == "ended: completed, after 60 s of running"


def test_who_is_not_touched_is_told_why():
    """So that `story` answers the question."""
    text = told(Chronicle(), [*FULL, job(1, partitions=("sla",))])[1]
    assert text.endswith("not touched: partition sla has not opted in")


def test_an_ended_job_is_recorded_once_with_slurms_own_priority():
    """And whether it was acted on while it waited."""
    chronicle = Chronicle()
    one, two = job(1, priority=111), job(2, priority=222)
    held = Holdings.after([Intent(Change(1, ChangeKind.SITE_FACTOR, value=5), one.submit_s, 0)])
    assert chronicle.ended(snapshot([one, two]), held) == []
    done = [replace(j, state="COMPLETED", start_s=NOW, end_s=NOW + 9) for j in (one, two)]
    found = chronicle.ended(snapshot(done), Holdings())
    assert [(e.job.id, e.priority, e.acted) for e in found] == [(1, 111, True), (2, 222, False)]
    assert chronicle.ended(snapshot(done), Holdings()) == []
