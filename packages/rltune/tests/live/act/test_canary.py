import numpy as np

from rltune.live.act.canary import EndedJob, judge_canary, wider
from rltune.live.control_settings import Canary, CanaryTest

CANARY = CanaryTest(min_jobs=20, worse_by=0.1)


def ended(median, n=200, seed=0, since_s=0.0):
    """Make jobs with slowdowns of long tails, over a day."""
    draws = np.random.default_rng(seed)
    slowdowns = np.maximum(1.0, median * np.exp(draws.normal(0, 0.7, n)))
    times = since_s + np.sort(draws.uniform(0, 86_400, n))
    return [EndedJob(float(at), float(slow)) for at, slow in zip(times, slowdowns, strict=True)]


def test_too_few_jobs_prove_nothing():
    """Until both sides have enough, there is no verdict."""
    assert judge_canary(ended(9.0, 19), ended(1.0), CANARY) is None
    assert judge_canary(ended(9.0), ended(1.0, 19), CANARY) is None


def test_a_much_worse_canary_is_found_out():
    """Twice the slowdown in two hundred jobs each."""
    verdict = judge_canary(ended(8.0), ended(4.0, seed=1), CANARY)
    assert verdict.worse
    assert not verdict.fine
    assert "worse" in str(verdict)


def test_a_better_canary_is_widened():
    """Half the slowdown: shown to be no worse than allowed."""
    verdict = judge_canary(ended(4.0), ended(8.0, seed=1), CANARY)
    assert verdict.fine
    assert not verdict.worse


def test_an_equal_canary_is_hardly_ever_rolled_back():
    """One-sided at 95 %: in at most one of twenty cases, by chance."""
    wrong = sum(judge_canary(ended(4.0, seed=s), ended(4.0, seed=1000 + s), CANARY).worse for s in range(200))
    assert wrong <= 10


def test_a_canary_that_is_worse_is_hardly_ever_widened():
    """A fifth worse where a tenth is allowed."""
    wrong = sum(judge_canary(ended(4.8, seed=s), ended(4.0, seed=1000 + s), CANARY).fine for s in range(200))
    assert wrong <= 10


def test_busy_hours_count_on_both_sides():
    """A share of jobs is compared with the others of the same hours: all are ten times slower at noon."""

    def noon(jobs):
        return [EndedJob(j.submit_s, j.slowdown * (10 if 40_000 < j.submit_s < 50_000 else 1)) for j in jobs]

    verdict = judge_canary(noon(ended(4.0)), noon(ended(8.0, seed=1)), CANARY)
    assert verdict.fine


def test_a_partition_is_compared_with_its_own_past():
    """The two sides share no hour."""
    verdict = judge_canary(ended(8.0, since_s=86_400.0), ended(4.0, seed=1), CANARY, same_time=False)
    assert verdict.worse


def test_what_is_allowed_is_allowed():
    """A tolerance of half is not exceeded by a third."""
    lenient = CANARY.model_copy(update={"worse_by": 0.5})
    assert not judge_canary(ended(5.2, 400), ended(4.0, 400, seed=1), lenient).worse


def test_a_canary_grows_to_all():
    """A tenth, three tenths, nine tenths, all; a partition becomes all at once."""
    shares, canary = [], Canary(share=0.1)
    while canary.on:
        shares.append(round(canary.share, 2))
        canary = wider(canary)
    assert shares == [0.1, 0.3, 0.9]
    assert not wider(Canary(partition="gpu")).on


def test_sides_that_came_at_different_times_are_told_as_such():
    """No interval is made up, and none is printed."""
    acted, others = ([EndedJob(at_s + i / 100, 1.0) for i in range(10)] for at_s in (0.0, 1000.0))
    verdict = judge_canary(acted, others, CanaryTest(min_jobs=8))
    assert not verdict.fine
    assert not verdict.worse
    assert str(verdict).endswith("1.00 (too few of both came at the same time): not decided yet")
