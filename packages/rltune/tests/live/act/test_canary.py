import numpy as np

from rltune.live.act.canary import judge_canary
from rltune.live.control_settings import CanaryTest

CANARY = CanaryTest(min_jobs=20, worse_by=0.1)


def slowdowns(median, n=100, seed=0):
    return np.maximum(1.0, median * np.exp(np.random.default_rng(seed).normal(0, 0.7, n))).tolist()


def test_too_few_jobs_prove_nothing():
    """Until both sides have enough, there is no verdict."""
    assert judge_canary([9.0] * 19, [1.0] * 100, CANARY) is None
    assert judge_canary([9.0] * 100, [1.0] * 19, CANARY) is None


def test_a_much_worse_canary_is_found_out():
    """Twice the slowdown in a hundred jobs each."""
    verdict = judge_canary(slowdowns(8.0), slowdowns(4.0, seed=1), CANARY)
    assert verdict.worse
    assert "worse" in str(verdict)


def test_a_better_or_equal_canary_is_left_alone():
    """One-sided: being better never stops it; nor does being a little worse than allowed by chance."""
    assert not judge_canary(slowdowns(4.0), slowdowns(8.0, seed=1), CANARY).worse
    wrong = sum(judge_canary(slowdowns(4.0, seed=s), slowdowns(4.0, seed=1000 + s), CANARY).worse for s in range(200))
    assert wrong <= 10  # at most one in twenty


def test_what_is_allowed_is_allowed():
    """A tolerance of half is not exceeded by a third."""
    lenient = CANARY.model_copy(update={"worse_by": 0.5})
    assert not judge_canary(slowdowns(5.2, 400), slowdowns(4.0, 400, seed=1), lenient).worse
