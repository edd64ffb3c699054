"""The models that ship with the package."""

import numpy as np
import pytest

from rltune import Cluster, simulate
from rltune.policy import get_policy
from rltune.policy.by_name import shipped_models
from rltune.trace import synthesise


def test_there_is_one_for_each_trace_and_a_mixed_one() -> None:
    """Names are those of the presets; the mixed one is the default."""
    assert {"philly", "helios", "pai", "mixed"} <= set(shipped_models())
    assert get_policy("learned").model.sha256 == get_policy("learned:mixed").model.sha256  # type: ignore[union-attr]


@pytest.mark.parametrize("name", shipped_models())
def test_a_shipped_model_says_where_it_comes_from_and_is_small(name: str) -> None:
    """Its card has the command that made it, without anyone's folders."""
    model = get_policy(f"learned:{name}").model  # type: ignore[union-attr]
    assert model.card.command
    assert model.card.cluster
    assert not any("/" in word for word in model.card.command.split() if word.startswith("/"))
    assert len(model.weights) < 5000


def test_the_default_model_is_far_better_than_first_come_first_served() -> None:
    """On a trace that it was not trained on, most of the waiting goes."""
    cluster = Cluster.preset("philly-slice")
    jobs = synthesise("philly", 2000, seed=77, load=1.2, cluster=cluster)
    waits = {}
    for policy in ("fcfs", "learned"):
        run = simulate(jobs, cluster, policy, estimator="user")
        waits[policy] = float(np.nanmean(run.start_s - run.jobs.submit_s))
    assert waits["learned"] < 0.6 * waits["fcfs"]
