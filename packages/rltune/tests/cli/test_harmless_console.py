"""What others named cannot steer the terminal of whoever reads it."""

import json

import pytest

from rltune.cli.console import notes, results, show_json
from rltune.cli.harmless_console import harmless
from rltune.text import text_of

BAD = "\x1b[2J\x1b]0;mine\x07eve\u202e\x9b31m\x7f"


def test_control_characters_are_taken_out_and_lines_stay():
    """Escape codes, C1 codes and turned writing go; what is left is the words."""
    assert harmless(f"a{BAD}b\n\tc") == "a[2J]0;mineeve31mb\n\tc"


@pytest.mark.parametrize("console", [results, notes])
def test_neither_stream_passes_an_escape_code_on(console, capsys):
    """Results and notes alike, in lines and in tables."""
    from rich.table import Table

    table = Table("user")
    table.add_row(BAD)
    console().print(BAD)
    console().print(table)
    said = "".join(capsys.readouterr())
    assert "eve" in said
    assert not set(said) & set("\x1b\x07\x7f\x9b\u202e")


@pytest.mark.parametrize("console", [results, notes])
def test_brackets_are_shown_as_they_stand(console, capsys):
    """An end that says nothing, and a name in brackets, are words: as markup they were left out of tables."""
    from rich.table import Table

    table = Table("ratio", title="of [gpu]")
    table.add_row("0.825 [unknown, 9.661] :smile:")
    console().print("[unknown]")
    console().print(table)
    said = "".join(capsys.readouterr())
    assert said.startswith("[unknown]\n")
    assert "of [gpu]" in said
    assert "0.825 [unknown, 9.661] :smile:" in said


def test_a_result_that_prints_itself_keeps_brackets():
    """The repr of a result is made of the same tables."""
    from rich.table import Table

    table = Table("ratio")
    table.add_row("0.825 [unknown, 9.661]")
    assert "0.825 [unknown, 9.661]" in text_of(table)


def test_json_escapes_what_json_leaves_as_it_is(capsys):
    """DEL and C1 codes come as escapes, and mean the same to whoever reads them."""
    show_json({"user": BAD})
    said = capsys.readouterr().out
    assert not set(said) & set("\x1b\x07\x7f\x9b")
    assert json.loads(said) == {"user": BAD}
