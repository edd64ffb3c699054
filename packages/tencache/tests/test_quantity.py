"""Amounts as people write them."""

import pytest

from tencache.quantity import parse_bandwidth, parse_bytes, show_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [("6GiB", 6 * 2**30), ("500MB", 5 * 10**8), ("1.5 KiB", 1536), ("12", 12), (7, 7), ("35%", 350)],
)
def test_amounts_are_read(text, count):
    assert parse_bytes(text, whole=1000) == count


@pytest.mark.parametrize(
    ("text", "message"),
    [("6 apples", "unknown unit 'apples'"), ("lots", "write it like 6GiB"), ("0GiB", "above zero"), (-1, "above zero")],
)
def test_other_amounts_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_bytes(text)


def test_a_share_needs_a_whole():
    with pytest.raises(ValueError, match="a share needs a whole"):
        parse_bytes("35%")


def test_bandwidths_are_read():
    assert parse_bandwidth("2GB/s") == 2e9
    assert parse_bandwidth(5.0) == 5.0
    with pytest.raises(ValueError, match="faster than nothing"):
        parse_bandwidth(0.0)


def test_amounts_are_shown_with_three_digits():
    assert [show_bytes(count) for count in (12, 1536, 3 * 2**30, 5 * 2**40)] == [
        "12 B",
        "1.5 KiB",
        "3.0 GiB",
        "5.0 TiB",
    ]
