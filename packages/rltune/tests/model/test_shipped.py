"""The models that ship with the package."""

import numpy as np
import pytest

from rltune import Cluster, simulate
from rltune.policy import get_policy
from rltune.policy.by_name import shipped_models
from rltune.trace import synthesise
from rltune.trials.leak import Exam, leaks


def test_there_is_one_for_each_trace_and_one_for_any() -> None:
    """Names are those of the presets; the one that many workloads taught is the default."""
    assert {"philly", "helios", "pai", "mixed", "anywhere"} <= set(shipped_models())
    assert get_policy("learned").model.sha256 == get_policy("learned:anywhere").model.sha256  # type: ignore[union-attr]


@pytest.mark.parametrize("name", shipped_models())
def test_a_shipped_model_says_where_it_comes_from_and_is_small(name: str) -> None:
    """Its card has the command that made it, without anyone's folders."""
    model = get_policy(f"learned:{name}").model  # type: ignore[union-attr]
    assert model.card.command
    assert model.card.cluster
    assert not any("/" in word for word in model.card.command.split() if word.startswith("/"))
    assert len(model.weights) < 5000


@pytest.mark.parametrize("name", shipped_models())
def test_a_shipped_model_says_which_jobs_taught_it_and_warns_of_no_others(name: str) -> None:
    """Recovered from the command and the trace on its card; what chose it is noted as well."""
    model = get_policy(f"learned:{name}").model  # type: ignore[union-attr]
    lessons = model.card.lessons
    assert model.card.unknown == ""
    assert sum(span.jobs for span in lessons.spans if span.role == "taught") == lessons.taught.jobs > 20_000
    assert all(span.trace and span.last_s > span.first_s for span in lessons.spans)
    assert sum(span.jobs for span in lessons.spans if span.role == "chose") == lessons.chose.jobs > 5_000
    kind = next((kind for kind in ("helios", "pai") if name.startswith(kind)), "philly")
    assert leaks([get_policy(f"learned:{name}")], [Exam(synthesise(kind, 20_000, seed=3))]) == ()


@pytest.mark.parametrize(("name", "traces"), [("philly", ["philly"]), ("mixed", ["philly", "venus", "pai"])])
def test_a_shipped_model_has_a_full_sample_of_its_traces(name: str, traces: list[str]) -> None:
    """As many jobs as a card holds, most of them unlike each other."""
    lessons = get_policy(f"learned:{name}").model.card.lessons  # type: ignore[union-attr]
    submit_s, shape = lessons.taught.marks
    assert [span.trace.partition("_")[0] for span in lessons.spans if span.role == "taught"] == traces
    assert len(submit_s) == pytest.approx(4096, abs=2)
    assert len(np.unique(shape)) > 1000


def test_the_models_of_the_slurm_experiment_are_found_out_by_its_workload() -> None:
    """Of the seed that they were evolved on, and not of another."""
    from rltune.lab.experiment.experiment_plan import USERS
    from rltune.lab.experiment.fine_tuning_jobs import make_jobs

    cluster = Cluster.preset("slurm-five")
    models = [get_policy(name) for name in ("learned:slurm-five", "learned:slurm-five-even")]
    own, new = (make_jobs(cluster, 41_000, 1.2, seed, USERS) for seed in (1000, 1))
    assert ["was taught by" in told for told in leaks(models, [Exam(own)])] == [True, True]
    assert leaks(models, [Exam(new)]) == ()


def test_the_default_model_is_far_better_than_first_come_first_served() -> None:
    """On a trace that it was not trained on, most of the waiting goes."""
    cluster = Cluster.preset("philly-slice")
    jobs = synthesise("philly", 2000, seed=77, load=1.2, cluster=cluster)
    waits = {}
    for policy in ("fcfs", "learned"):
        run = simulate(jobs, cluster, policy, estimator="user")
        waits[policy] = float(np.nanmean(run.start_s - run.jobs.submit_s))
    assert waits["learned"] < 0.6 * waits["fcfs"]
