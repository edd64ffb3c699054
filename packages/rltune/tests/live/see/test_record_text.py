"""What a record says is read again as it was written, whatever is in it; what is damaged is never believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_cases import snapshot

from rltune.live.see.backend import RECORD_CHARACTERS, ChangeKind
from rltune.live.see.ownership import OwnRecords
from rltune.live.see.record_text import (
    Claim,
    Holder,
    Lock,
    RecordError,
    is_record,
    lock_text,
    mark_of,
    page_texts,
    read_lock,
    read_page,
)
from rltune.live.see.snapshot import Lever, RecordJob

NUMBERS = st.integers(-(2**31), 2**32)
NAMES = st.lists(st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True), max_size=4).map(tuple)
MARKS = st.lists(NUMBERS, min_size=1, max_size=2, unique=True).map(tuple)
CLAIMS = st.one_of(
    st.builds(Claim, st.integers(1, 2**26), st.just(ChangeKind.SITE_FACTOR), MARKS, NUMBERS),
    st.builds(Claim, st.integers(1, 2**26), st.just(ChangeKind.PRIORITY), MARKS, NUMBERS),
    st.builds(Claim, st.integers(1, 2**26), st.just(ChangeKind.EXCLUDE_NODES), MARKS, NAMES),
    st.builds(Claim, st.integers(1, 2**26), st.just(ChangeKind.REQUIRE_NODES), MARKS, NAMES),
)


@given(st.lists(CLAIMS, max_size=300, unique_by=lambda claim: (claim.job, claim.kind)))
def test_claims_are_read_as_they_were_written(claims):
    """On as many pages as it takes, none longer than a Comment may be."""
    texts = page_texts(claims, 7, 1_700_000_000.0, 1)
    assert all(len(text) <= RECORD_CHARACTERS and is_record(text) and " " not in text for text in texts)
    pages = [read_page(text) for text in texts]
    assert all(page.lock == 7 and page.written_s == 1_700_000_000.0 for page in pages)
    assert {claim for page in pages for claim in page.claims} == set(claims)
    assert sum(len(page.claims) for page in pages) == len(claims)


def test_a_page_says_by_which_number_it_was_written():
    """As before where it is SiteFactor; else in a version that nobody reads who knows of SiteFactor alone."""
    claims = [Claim(5, ChangeKind.SITE_FACTOR, (7,), 0)]
    (plain,), (other,) = page_texts(claims, 1, 1e9, 1), page_texts(claims, 1, 1e9, 1, Lever.NICE)
    assert plain.startswith("rltune/1;page;lock=1;")
    assert other.startswith("rltune/2;page;by=Nice;lock=1;")
    assert (read_page(plain).lever, read_page(other).lever) == (Lever.SITE_FACTOR, Lever.NICE)
    assert read_page(plain).claims == read_page(other).claims == tuple(claims)


def test_two_thousand_jobs_need_a_dozen_pages():
    """A number of five digits takes some four bytes."""
    claims = [Claim(10_000 + i, ChangeKind.SITE_FACTOR, (i * 7919 % 20_000 - 10_000,), 0) for i in range(2000)]
    assert len(page_texts(claims, 1, 1e9, 1)) <= 16


def test_a_job_stays_on_its_page():
    """Pages are replaced one after the other; were a job to move, a crash between two could lose it."""
    claims = [Claim(i, ChangeKind.SITE_FACTOR, (i,), 0) for i in range(1, 500)]
    pages = page_texts(claims, 1, 1e9, 1)
    fewer = page_texts(claims[::3], 1, 1e9, len(pages))
    assert len(fewer) == len(pages)
    for text, old in zip(fewer, pages, strict=True):
        assert {c.job for c in read_page(text).claims} <= {c.job for c in read_page(old).claims}


def test_a_lock_is_read_as_it_was_written():
    """Whatever characters a host's or a partition's name has."""
    holder = Holder("hé;ad=1 %", 12, 34, "pid:[1]", "a;b", 1_700_000_000.1, "0;1")
    lock = Lock(holder, ("gpu", "a b"), 1.0, 2.0, 600.0)
    assert read_lock(lock_text(lock)) == lock
    assert " " not in lock_text(lock)
    assert read_page(lock_text(lock)) is None


def test_a_lock_of_an_earlier_version_is_read():
    """It tells neither machine nor token."""
    text = "rltune/1;lock;host=a;pid=7;born=3;space=pid%3A%5B1%5D;partitions=*;since=1;renewed=2;lease=600"
    assert read_lock(text) == Lock(Holder("a", 7, 3, "pid:[1]"), ("*",), 1.0, 2.0, 600.0)


@pytest.mark.parametrize("cut", [10, 30, 60, -1])
def test_a_damaged_page_is_not_believed(cut):
    """A text that was cut short, or of another version, is an error and not an empty table."""
    text = page_texts([Claim(i, ChangeKind.SITE_FACTOR, (i,), 0) for i in range(9)], 1, 1e9, 1)[0]
    seen = OwnRecords.of(snapshot((), records=(RecordJob(3, "rltune", text[:cut]),)))
    assert not seen.pages
    assert not seen.locks
    assert len(seen.damaged) == 1
    with pytest.raises(RecordError, match="version"):
        read_page(text.replace("rltune/1", "rltune/9"))


def test_node_lists_are_known_by_their_names_in_any_order():
    """Slurm sorts them."""
    assert mark_of(("a", "b")) == mark_of(("b", "a")) != mark_of(("a", "c"))
    assert mark_of(()) == 0
