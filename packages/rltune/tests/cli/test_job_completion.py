"""Job numbers are completed as squeue tells them, or as the journal saw them; nowhere is a mistake shown."""

from serve_cases import journal_of

from rltune.cli import completion
from rltune.live.journal import default_place


def test_numbers_come_from_squeue(tmp_path, monkeypatch):
    """Those that begin as what was typed."""
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\nprintf '41\\n42_[1-3]\\n7\\n'\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert completion.jobs("4") == ["41", "42_[1-3]"]


def test_numbers_come_from_the_journal_where_there_is_no_slurm(tmp_path, monkeypatch):
    """And there are none where there is no journal."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(default_place, "default_journal", lambda: tmp_path / "journal.db")
    assert completion.jobs("") == []
    journal_of(tmp_path)
    assert completion.jobs("") == ["1", "2", "3", "4"]
