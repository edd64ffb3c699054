"""Pages that were rendered are kept by all that they show, and rows are searched as one text."""

import asyncio

from live_cases import NOW, MemoryCluster, job, settings, snapshot

from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.serve.job_rows import SearchedRows, text_of_row
from rltune.serve.kept_pages import KeptPages
from rltune.serve.sight import Watch


def asked(pages, key, text):
    """Ask for a page that would be made with a text."""
    return asyncio.run(pages.at_hand_or_made(key, lambda: text)).decode()


def test_a_page_is_made_once_and_the_oldest_gives_way():
    """The same key gives the same page, another key another one, and no more are kept than was said."""
    pages = KeptPages(most=2)
    assert asked(pages, ("jobs", 1, "ann"), "ann's") == "ann's"
    assert asked(pages, ("jobs", 1, "ann"), "made again") == "ann's"
    assert asked(pages, ("jobs", 1, "bob"), "bob's") == "bob's"
    assert asked(pages, ("jobs", 2, "bob"), "newer") == "newer"
    assert asked(pages, ("jobs", 1, "ann"), "made again") == "made again"


def test_a_page_that_fails_is_not_kept():
    """Who asks next is answered."""
    pages = KeptPages()

    def fail():
        raise ValueError("no")

    for _ in range(2):
        try:
            asyncio.run(pages.at_hand_or_made("page", fail))
        except ValueError:
            continue
        raise AssertionError
    assert asked(pages, "page", "there") == "there"


def test_searching_one_text_finds_what_searching_each_row_does(tmp_path):
    """Every word must be in the row, in any case and place; no word is found across two rows."""
    names = ("Train", "train-2", "line\nbreak", "ß and SS", "", "x" * 50)
    jobs = [job(number, 1, 30, name=name, user=f"u{number % 2}") for number, name in enumerate(names, start=1)]
    path = tmp_path / "journal.db"
    Controller(MemoryCluster(snapshot(tuple(jobs))), Journal.create(path), settings(mode="shadow")).cycle()
    watch = Watch(path)
    rows = watch.sight().rows
    assert len(rows) == len(names)
    assert watch.sight().taken_s >= NOW
    searched = SearchedRows(rows)
    for text in ("train", "TRAIN u0", "break", "ss", "u1 train", "nowhere", "x", "1", "line break", "2 line"):
        words = text.casefold().split()
        expected = {row.id for row in rows if all(word in text_of_row(row) for word in words)}
        assert searched.ids_with(words) == expected, text
    assert SearchedRows([]).ids_with(["x"]) == set()
    watch.close()
