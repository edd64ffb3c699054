"""Numbers, lines and tables as a reader sees them."""

from rich.table import Table
from rich.text import Text

from rltune.text import columns, counted, cut, html_facts, html_of, text_of


def test_counts_have_their_noun():
    assert [counted(n, "GPU") for n in (0, 1, 1200)] == ["0 GPUs", "1 GPU", "1,200 GPUs"]


def test_long_lists_are_cut_and_say_so():
    assert cut(["a", "b", "c"], most=2) == ["a", "b", "  ... and 1 more"]
    assert cut(["a", "b"], most=2) == ["a", "b"]


def test_cells_stand_under_each_other():
    assert columns([("fcfs", "1.0 h"), ("saf + easy", "10.0 h")]) == ["  fcfs         1.0 h", "  saf + easy  10.0 h"]


def a_table() -> Table:
    table = Table(title=Text("a < b"), caption=Text("one\ntwo & three"))
    table.add_column("name")
    table.add_column(Text("<value>"), justify="right")
    table.add_row(Text("<script>alert(1)</script>"), "7")
    return table


def test_a_table_becomes_html_with_nothing_in_it_obeyed():
    html = html_of(a_table())
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "a &lt; b" in html
    assert "one<br>two &amp; three" in html
    assert '<th style="text-align:right">&lt;value&gt;</th>' in html
    assert '<td style="text-align:right">7</td>' in html


def test_a_table_becomes_text_without_colours():
    assert "<value>" in text_of(a_table())
    assert "\x1b" not in text_of(a_table())


def test_facts_are_escaped():
    assert "<b>" not in html_facts("<b>", [("<b>", "<b>")])
