"""How turns are written: one word says all, and reads back as what it was."""

from math import inf

import pytest

from rltune.engine.parse_pipeline import parse_pipeline, read_pipeline
from rltune.engine.turns import Turns, get_turns
from rltune.errors import InputError

LATE = {"late_s": 3600.0, "late_times": 1.5, "max_a_day": 2}


@pytest.mark.parametrize("order", ["off", "las", "gittins", "srsf", "policy"])
@pytest.mark.parametrize(
    "numbers", [{}, {"min_run_s": 1800.5}, {"max_preemptions": 0, "turn_s": 60.0}, LATE, {"late_s": inf}]
)
def test_reads_back(order: str, numbers: dict) -> None:
    """What a table shows is what makes the same pipeline again."""
    turns = Turns(order, **numbers) if order != "off" else Turns()
    assert get_turns(str(turns)) == turns
    pipeline = parse_pipeline("saf", "easy", preempt=turns)
    assert read_pipeline(pipeline.label) == pipeline


@pytest.mark.parametrize(
    "spec",
    ["fifo", "las:run", "las:run=x", "las:run=1:run=2", "las:often=3", "las:most=-1", "las:day=1.5", "las:late=x", ""],
)
def test_what_is_not_understood(spec: str) -> None:
    """One sentence says what may be written."""
    with pytest.raises(InputError, match="write off, las, gittins, srsf, policy"):
        get_turns(spec)


@pytest.mark.parametrize(
    ("numbers", "told"),
    [({"min_run_s": -1.0}, "min_run_s"), ({"max_preemptions": -1}, "max_preemptions"), ({"turn_s": 0.0}, "turn_s")],
)
def test_numbers_that_cannot_be(numbers: dict, told: str) -> None:
    """A number out of range is named."""
    with pytest.raises(InputError, match=told):
        get_turns("las", **numbers)


def test_times_may_have_units() -> None:
    """A day is a day however it is written."""
    assert get_turns("las:late=36h:day=3") == Turns("las", late_s=1.5 * 86400.0, max_a_day=3)


def test_bounded_unless_told() -> None:
    """Turns cost a job at most two days, if nobody says otherwise; without turns there is nothing to bound."""
    assert get_turns("las").bounded
    assert get_turns("las") == get_turns("las:late=48h")
    assert not get_turns("las:late=off").bounded
    assert get_turns("las:late=off:times=2").bounded
    assert not Turns().bounded


def test_gittins_weighs_by_numbers_of_its_own() -> None:
    """They stand however the order is named, and are not told unless they are others; another order has the usual."""
    assert get_turns("gittins") == Turns("gittins") == Turns("gittins", margin=4.0, cost_each=0.05)
    assert get_turns("gittins:margin=2:each=0.3") == Turns("gittins", margin=2.0, cost_each=0.3)
    assert str(get_turns("gittins:margin=2")) == "gittins:margin=2"
    assert get_turns("srsf") == Turns("srsf", margin=2.0, cost_each=0.3)


def test_numbers_need_an_order() -> None:
    """A number that would do nothing is refused."""
    with pytest.raises(InputError, match="mean nothing while preempt is off"):
        get_turns("off", min_run_s=60.0)


def test_said_twice() -> None:
    """A policy's own turns and further ones are one too many."""
    with pytest.raises(InputError, match="has a preempt already"):
        parse_pipeline("saf+preempt:las", preempt="srsf")
