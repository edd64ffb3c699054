from dataclasses import replace

import pytest
from live_cases import NOW, job, snapshot

from rltune.errors import InputError
from rltune.live.journal.ended import Ended
from rltune.live.journal.packing import pack_snapshot
from rltune.live.journal.store import ControllerRun, CycleRecord, Journal, Note
from rltune.live.journal.story import last_seen, story
from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.holdings import Intent
from rltune.live.see.spell import Spell


def _cycle(journal, at_s, *jobs):
    packed = pack_snapshot(snapshot(jobs, at=at_s))
    return journal.add_cycle(CycleRecord(1, at_s, at_s, True, 1, 0, 0, 0.1, 0, packed, b"", b"", b""))


def test_a_story_is_told_in_order(tmp_path):
    """What was seen comes before what was done about it; refusals and unknown fates are told as such."""
    journal = Journal.create(tmp_path / "j.db")
    journal.begin_run(ControllerRun(NOW, "", "", "", "{}"))
    seven = job(7)
    for minute in range(3):
        _cycle(journal, NOW + 60 * minute, seven)
    site = Intent(Change(7, ChangeKind.SITE_FACTOR, value=50), seven.submit_s, 0)
    nodes = Intent(Change(7, ChangeKind.EXCLUDE_NODES, nodes=("n1", "n2")), seven.submit_s, ())
    back = Intent(Change(7, ChangeKind.SITE_FACTOR, value=0), seven.submit_s, 0, undo=True)
    journal.add_notes(2, [Note(7, "runs on n0")], NOW + 60)
    journal.add_notes(1, [Note(7, "waits"), Note(8, "waits")], NOW)
    ids = journal.intend(1, [site, nodes], NOW)
    journal.add_outcomes([(ids[0], ""), (ids[1], "Job is running")], NOW)
    journal.intend(3, [back], NOW + 120)
    journal.intend(3, [site], NOW + 180, advised=True)
    lines = [str(line).split("Z  ")[1] for line in story(journal, 7)]
    assert lines == [
        "waits  [cycle 1]",
        "exclude-nodes none -> n1,n2: Job is running",
        "site-factor 0 -> 50: done",
        "runs on n0  [cycle 2]",
        "site-factor given back: 0: nobody knows whether it was made",
        "advised: site-factor 0 -> 50",
    ]
    assert str(story(journal, 7)[0]).startswith("2023-11-14 22:13:20Z  ")


def test_of_an_unknown_job_there_is_no_story(tmp_path):
    """That is said in one sentence."""
    with pytest.raises(InputError, match="tells nothing of job 9"):
        story(Journal.create(tmp_path / "j.db"), 9)


def test_a_number_that_is_used_again_tells_nothing_of_the_job_before(tmp_path):
    """Slurm's numbers come again; the newest job has a story of its own, and so has the one before it."""
    journal = Journal.create(tmp_path / "j.db")
    journal.begin_run(ControllerRun(NOW, "", "", "", "{}"))
    bobs = job(7, user="bob", submit_s=NOW - 10)
    anns = job(7, user="ann", submit_s=NOW + 100)
    journal.add_notes(_cycle(journal, NOW, bobs), [Note(7, "waits")], NOW)
    journal.intend(1, [Intent(Change(7, ChangeKind.SITE_FACTOR, value=50), bobs.submit_s, 0)], NOW)
    journal.add_notes(_cycle(journal, NOW + 120, anns), [Note(7, "is held")], NOW + 120)
    assert [line.text for line in story(journal, 7)] == ["is held  [cycle 2]"]
    assert last_seen(journal, 7).user == "ann"
    assert [line.text for line in story(journal, 7, anns)] == ["is held  [cycle 2]"]


def test_a_requeued_job_that_has_ended_keeps_its_story(tmp_path):
    """Slurm counts a requeue as a new submission. Spells tell that it is the same job, and of an older one nothing."""
    journal = Journal.create(tmp_path / "j.db")
    journal.begin_run(ControllerRun(NOW, "", "", "", "{}"))
    before = replace(job(7, submit_s=NOW - 500), state="COMPLETED", start_s=NOW - 450.0, end_s=NOW - 400.0, restarts=1)
    journal.add_spells([Spell(7, NOW - 600, NOW - 590, NOW - 500, restarts=0, displaced=True)])
    journal.add_ended([Ended(before)])
    journal.add_notes(_cycle(journal, NOW - 400, before), [Note(7, "of another")], NOW - 400)
    journal.add_notes(_cycle(journal, NOW, job(7, submit_s=NOW - 10)), [Note(7, "should give way")], NOW)
    journal.add_spells([Spell(7, NOW - 10, NOW - 5, NOW + 50, restarts=0, displaced=True)])
    again = replace(job(7, submit_s=NOW + 45), state="COMPLETED", start_s=NOW + 60.0, end_s=NOW + 90.0, restarts=1)
    journal.add_notes(_cycle(journal, NOW + 100, again), [Note(7, "ended")], NOW + 100)
    assert [line.text for line in story(journal, 7)] == ["should give way  [cycle 2]", "ended  [cycle 3]"]
