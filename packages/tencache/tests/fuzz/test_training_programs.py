"""Whatever a training program does, its wrapped run is the unwrapped one bit by bit, or is refused."""

import os
import random
from collections import Counter

import pytest
from core_programs import CORE, EARLY, LATE, LATE_RAISES, RAISES, REFUSED
from training_programs import brief, collect, judge

MOST_REFUSED = 0.1
SEEDS = 5
EACH_SEED = 30
TIMES = int(os.environ.get("TENCACHE_EXAMPLES", "1"))


@pytest.mark.parametrize("name", CORE)
def test_a_core_program_is_the_same(name):
    assert judge(CORE[name]) == "same"


@pytest.mark.parametrize("name", LATE)
def test_nobody_can_tell_that_an_update_comes_late(name):
    assert judge(LATE[name]) == "same"


@pytest.mark.parametrize("name", EARLY)
def test_nobody_can_tell_that_an_update_was_computed_early(name):
    assert judge(EARLY[name]) == "same"


def test_backward_after_a_late_step_raises():
    assert [judge(program) for program in LATE_RAISES.values()] == ["raised"]


@pytest.mark.parametrize("name", RAISES)
def test_a_program_that_raises_raises(name):
    assert judge(RAISES[name]) == "raised"


@pytest.mark.parametrize("name", REFUSED)
def test_a_program_that_cannot_be_kept_is_refused(name):
    assert judge(REFUSED[name]).startswith("refused: ")


def test_random_programs_are_the_same_or_refused_and_few_are_refused():
    """The share is that of several seeds together: one draw of thirty has between none and a fifth."""
    start = 0 if TIMES == 1 else random.randrange(10**6)
    found = [pair for number in range(SEEDS) for pair in collect(EACH_SEED * TIMES, start + number)]
    assert [(verdict, brief(program)) for program, verdict in found if verdict.startswith("wrong")] == []
    verdicts = Counter(verdict.split(":")[0] for _, verdict in found)
    assert verdicts["refused"] <= MOST_REFUSED * verdicts.total(), verdicts
    assert verdicts["same"] > verdicts.total() / 2, verdicts
