"""Whatever a training program does, its wrapped run is the unwrapped one bit by bit, or is refused."""

from collections import Counter

import pytest
from core_programs import CORE, EARLY, LATE, LATE_RAISES, RAISES, REFUSED
from hypothesis import HealthCheck, given, note, settings
from training_programs import Program, brief, judge, programs

MOST_REFUSED = 0.1


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
    verdicts: Counter[str] = Counter()

    @settings(suppress_health_check=list(HealthCheck))
    @given(programs())
    def try_one(program: Program) -> None:
        verdict = judge(program)
        note(brief(program))
        verdicts[verdict.split(":")[0]] += 1
        assert not verdict.startswith("wrong"), verdict

    try_one()
    assert verdicts["refused"] <= MOST_REFUSED * verdicts.total(), verdicts
    assert verdicts["same"] > verdicts.total() / 2, verdicts
