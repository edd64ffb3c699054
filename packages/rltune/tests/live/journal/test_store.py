import os
import signal
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace

import pytest
from live_cases import NOW, job

from rltune.errors import InputError
from rltune.live.journal.ended import Ended
from rltune.live.journal.store import ControllerRun, CycleRecord, Journal, JournalError, Note
from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.holdings import Intent

RUN = ControllerRun(NOW, "0", "code", "", "{}")
CYCLE = CycleRecord(1, NOW, NOW, True, 1, 0, 0, 0.1, 0, b"s", b"h", b"e", b"d")


@pytest.fixture
def journal(tmp_path):
    opened = Journal.create(tmp_path / "j.db")
    opened.begin_run(RUN)
    return opened


def number(one, value, before=0, *, undo=False):
    return Intent(Change(one, ChangeKind.SITE_FACTOR, value=value), 5.0, before, undo)


def test_what_is_written_is_read_back(journal):
    """A cycle, its run, and by number from the end."""
    first = journal.add_cycle(CYCLE)
    last = journal.add_cycle(replace(CYCLE, snapshot=b"other"))
    assert journal.cycle(first) == replace(CYCLE, id=first)
    assert journal.cycle(0).snapshot == b"other"
    assert journal.cycle(-1).id == first
    assert journal.run(1) == replace(RUN, id=1)
    with pytest.raises(InputError, match=f"holds cycles 1 to {last}, not 77"):
        journal.cycle(77)


@pytest.mark.parametrize("table", ["run", "cycle", "change", "outcome", "note", "ended", "event"])
def test_nothing_can_be_changed(journal, table):
    """The file itself refuses an update of any row."""
    journal.add_cycle(CYCLE)
    journal.add_outcomes([(journal.intend(1, [number(1, 5)], NOW)[0], "")], NOW)
    journal.add_notes(1, [Note(1, "seen")], NOW)
    journal.add_ended([Ended(replace(job(1), state="COMPLETED", start_s=NOW, end_s=NOW + 9))])
    journal.add_event("health", "x", NOW)
    column = journal.rows(f"SELECT name FROM pragma_table_info('{table}')")[1][0]
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        journal.rows(f"UPDATE {table} SET {column} = {column}")


def test_holdings_are_what_was_made_or_may_have_been(journal):
    """Done or of unknown fate counts; refused, given back, advised, or of a job that is closed does not."""
    done, unknown, refused, undone, advised, closed = range(1, 7)
    made = journal.intend(1, [number(i, 50) for i in (done, unknown, refused, undone, closed)], NOW)
    journal.intend(1, [number(advised, 50)], NOW, advised=True)
    journal.add_outcomes([(made[0], ""), (made[2], "no"), (made[3], ""), (made[4], "")], NOW)
    back = journal.intend(1, [number(undone, 0, undo=True), number(done, 0, undo=True)], NOW)
    journal.add_outcomes([(back[0], "")], NOW)  # the other one's fate is unknown: it is still held
    journal.close_jobs([(closed, 5.0)])
    assert set(journal.holdings().by_job) == {done, unknown}


def test_the_first_value_is_what_is_given_back(journal):
    """However often a number changes, what the job had before us is kept."""
    for value, before in ((5, 70), (6, 70)):
        journal.add_outcomes([(journal.intend(1, [number(1, value, before)], NOW)[0], "")], NOW)
    hold = journal.holdings().by_job[1][ChangeKind.SITE_FACTOR]
    assert (hold.value, hold.before) == (6, 70)


def test_node_lists_come_back_as_they_were(journal):
    """Lists stay lists of names."""
    intent = Intent(Change(1, ChangeKind.EXCLUDE_NODES, nodes=("a", "b")), 5.0, ("a",))
    journal.intend(1, [intent], NOW)
    hold = journal.holdings().by_job[1][ChangeKind.EXCLUDE_NODES]
    assert (hold.value, hold.before) == (("a", "b"), ("a",))


def test_half_a_transaction_is_none(journal):
    """What is written together is there together or not at all."""

    def broken():
        with journal.at_once():
            journal.add_cycle(CYCLE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert journal.last_cycle() == 0


WRITER = """
import sys
from pathlib import Path
from rltune.live.journal.store import ControllerRun, CycleRecord, Journal
from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.holdings import Intent
journal = Journal.create(Path(sys.argv[1]))
journal.begin_run(ControllerRun(0.0, "", "", "", ""))
for i in range(1, 10**9):
    with journal.at_once():
        cycle = journal.add_cycle(CycleRecord(1, 0.0, 0.0, True, 0, 0, 0, 0.0, 0, bytes(9000), b"", b"", b""))
        journal.intend(cycle, [Intent(Change(i, ChangeKind.SITE_FACTOR, value=i), 0.0, 0)], 0.0)
    print(i, flush=True)
"""


def test_a_kill_loses_nothing_that_was_written(tmp_path):
    """`kill -9` in the middle of writing: the file is whole, and every transaction that was told of is in it."""
    path = tmp_path / "j.db"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        told = [int(writer.stdout.readline()) for _ in range(25)]
        os.kill(writer.pid, signal.SIGKILL)
        told += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
    journal = Journal.create(path)
    assert journal.rows("PRAGMA integrity_check") == [("ok",)]
    assert journal.last_cycle() >= told[-1]
    assert len(journal.holdings()) == journal.last_cycle()


def test_old_cycles_go_and_held_changes_stay(journal):
    """By age: cycles, notes and changes before a time; what is still held must be known for ever."""
    for i, at_s in enumerate((NOW - 500, NOW - 400, NOW), start=1):
        cycle = journal.add_cycle(replace(CYCLE, at_s=at_s))
        journal.add_notes(cycle, [Note(i, "seen")], at_s)
        made = journal.intend(cycle, [number(i, 5)], at_s)
        journal.add_outcomes([(made[0], "" if i == 1 else "refused")], at_s)
    assert journal.prune(NOW - 100, 1 << 40) == 2
    assert journal.rows("SELECT id FROM cycle") == [(3,)]
    assert journal.rows("SELECT job FROM note") == [(3,)]
    assert journal.rows("SELECT job FROM change ORDER BY job") == [(1,), (3,)]
    assert set(journal.holdings().by_job) == {1}


def test_a_file_that_is_too_large_shrinks(tmp_path):
    """By size: the oldest tenth goes at a time, the last cycle never, and the file gives the room back."""
    journal = Journal.create(tmp_path / "j.db")
    for _ in range(40):
        journal.add_cycle(replace(CYCLE, snapshot=os.urandom(50_000)))
    large = journal.size_bytes()
    while journal.size_bytes() > 500_000:
        assert journal.prune(0.0, 500_000) > 0
    assert journal.last_cycle() == 40
    assert (tmp_path / "j.db").stat().st_size < large / 2
    journal.prune(0.0, 1)
    for _ in range(99):
        journal.prune(0.0, 1)
    assert journal.last_cycle() == 40


def test_ended_jobs_are_bounded_too(journal):
    """The newest stay."""
    one = replace(job(1), state="COMPLETED", start_s=NOW, end_s=NOW + 9)
    journal.add_ended(Ended(replace(one, id=i)) for i in range(10))
    journal.prune_ended(4)
    assert sorted(journal.history(99).id.tolist()) == ["6", "7", "8", "9"]


def test_only_the_owner_reads_it(journal):
    """It holds users' and jobs' names."""
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600


def test_a_reader_changes_nothing(journal):
    """A journal opened to be read cannot be written, and can be read while another process writes."""
    journal.add_cycle(CYCLE)
    reader = Journal.read(journal.path)
    assert reader.last_cycle() == 1
    journal.add_cycle(CYCLE)
    assert reader.last_cycle() == 2
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.add_event("x", "y", NOW)


def test_what_is_no_journal_is_told_apart(tmp_path):
    """A missing file, another kind of file, a folder, and a journal of a later version."""
    with pytest.raises(InputError, match="there is no journal"):
        Journal.read(tmp_path / "none.db")
    (tmp_path / "text").write_text("no database, however you look at it\n" * 50)
    for opener in (Journal.read, Journal.create):
        with pytest.raises(InputError, match="journal"):
            opener(tmp_path / "text")
    with pytest.raises(InputError, match="cannot be the journal"):
        Journal.create(tmp_path)
    later = Journal.create(tmp_path / "later.db")
    later.rows("PRAGMA user_version=99")
    with pytest.raises(InputError, match="of version 99, this rltune reads version 1"):
        Journal.read(tmp_path / "later.db")


@pytest.mark.parametrize("other", [None, b"", "moved"])
def test_nothing_is_written_to_a_file_that_nobody_will_find(journal, other):
    """One that was deleted, replaced or moved away under the controller: SQLite would go on without a word."""
    if other == "moved":
        journal.path.rename(journal.path.with_suffix(".old"))
    else:
        journal.path.unlink()
    if other == b"":
        journal.path.touch()
    with pytest.raises(JournalError, match="was deleted, moved or replaced while it was open"), journal.at_once():
        journal.add_cycle(CYCLE)
    assert journal.rows("SELECT count(*) FROM cycle") == [(0,)]
