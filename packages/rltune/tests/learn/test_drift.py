"""Outside the range of its training a model steps back for its base policy, and that is counted and said."""

import numpy as np
import pytest
from kernel.test_features import CLUSTER, JOBS
from learn.looking import WIDE, a_model, machine, stopped_at

from rltune import simulate
from rltune.cluster import Cluster
from rltune.evaluation import compare
from rltune.evaluation.comparison_tables import comparison_notes
from rltune.jobs import Jobs
from rltune.kernel.score.rules import score_queue
from rltune.kernel.state import arrays as core
from rltune.policy.learned import Learned

MANY = Jobs.from_arrays(
    submit_s=np.arange(40.0) * 5,
    duration_s=np.random.default_rng(1).uniform(10.0, 900.0, 40),
    gpus=np.random.default_rng(2).choice([1, 1, 2, 4], 40),
)
SMALL = Cluster.uniform(2, 4)


def knows_up_to(gpus: float, drift: str, base: str = "saf", **changes):
    """Make a model of two inputs that has seen no job of more GPUs than this."""
    norm = np.array([(0.0, 1.0, 0.0, np.log1p(gpus)), WIDE])
    return a_model("gpus+requested_time", norm=norm, drift=drift, base=base, **changes)


def scores(model):
    """Score the four jobs that wait at 100 s."""
    m = stopped_at(100.0, machine(JOBS, CLUSTER, model))
    m.state.n[[core.DRIFTED, core.FELL_BACK]] = 0
    score_queue(m.w, m.s, m.options, m.state.n[core.Q_TAIL], False)
    head, tail = m.state.n[core.Q_HEAD], m.state.n[core.Q_TAIL]
    queue = m.state.queue[head:tail]
    by_job = dict(zip(queue.job.tolist(), queue.score.tolist(), strict=True))
    return by_job, int(m.state.n[core.DRIFTED]), int(m.state.n[core.FELL_BACK])


def test_within_the_range_nothing_is_counted_and_the_network_decides():
    """A model that watches its range scores as one that does not, as long as it is kept."""
    watched, drifted, fell_back = scores(knows_up_to(8, "job"))
    trusting, _, _ = scores(knows_up_to(8, "off"))
    assert (drifted, fell_back) == (0, 0)
    assert watched == trusting


def test_one_strange_job_takes_the_place_that_the_base_policy_gives_it():
    """Job by job: the others keep the network's scores, the stranger follows its neighbour by area."""
    mixed, drifted, fell_back = scores(knows_up_to(4, "job"))
    network, _, _ = scores(knows_up_to(4, "off"))
    assert (drifted, fell_back) == (1, 0)
    assert {job: s for job, s in mixed.items() if job != 2} == {job: s for job, s in network.items() if job != 2}
    assert mixed[2] == network[3]  # areas are 8000 for the stranger; 120, 50 and 20 for jobs 3, 4 and 5


def test_a_strange_job_that_the_base_policy_puts_first_is_first():
    """Nobody is before it by the base policy, so nobody is before it."""
    mixed, drifted, _ = scores(knows_up_to(4, "job", base="fcfs"))
    assert drifted == 1
    assert mixed[2] < min(s for job, s in mixed.items() if job != 2)


def test_when_most_jobs_are_strange_the_base_policy_takes_over():
    """A network that knows a minority of the queue has nothing to say on it."""
    by_job, drifted, fell_back = scores(knows_up_to(0.5, "job"))
    assert (drifted, fell_back) == (4, 1)
    assert by_job == pytest.approx({2: 8000.0, 3: 120.0, 4: 50.0, 5: 20.0})


def test_as_a_whole_one_strange_job_hands_all_to_the_base_policy():
    """`whole` is the cautious mode."""
    by_job, drifted, fell_back = scores(knows_up_to(4, "whole"))
    assert (drifted, fell_back) == (1, 1)
    assert by_job == pytest.approx({2: 8000.0, 3: 120.0, 4: 50.0, 5: 20.0})


def test_off_never_falls_back():
    """Whoever turns the watch off gets the network's word for everything."""
    _, drifted, fell_back = scores(knows_up_to(0.5, "off"))
    assert (drifted, fell_back) == (0, 0)


def test_a_strange_job_does_not_take_its_place_from_one_that_was_left_out():
    """Under fit-first jobs that do not fit are not scored; a stranger next to one of them is not last with it."""
    jobs = Jobs.from_arrays(submit_s=[0.0, 20.0, 20.0, 20.0], duration_s=[99.0, 10.0, 50.0, 80.0], gpus=[1, 4, 3, 1])
    model = knows_up_to(2, "job", base="sjf")
    m = stopped_at(20.0, machine(jobs, Cluster.uniform(1, 4), model, backfill="fit-first"))
    score_queue(m.w, m.s, m.options, m.state.n[core.Q_TAIL], True)
    large, strange, known = m.state.queue.score[m.state.n[core.Q_HEAD] : m.state.n[core.Q_TAIL]]
    assert large == np.inf
    assert strange < known


@pytest.mark.parametrize(
    "base", ["fcfs", "sjf", "srf", "saf", "wfp3", "unicep", "f1", "multifactor", "multifactor-paper"]
)
def test_a_model_that_knows_nothing_is_its_base_policy(base):
    """Fallen back in every pass, a learned schedule is the base policy's, job by job."""
    model = knows_up_to(0.5, "whole", base=base)
    ours = simulate(MANY, SMALL, policy=Learned(model), estimator="oracle")
    theirs = simulate(MANY, SMALL, policy=base, estimator="oracle")
    assert ours.start_s.tolist() == theirs.start_s.tolist()


@pytest.mark.parametrize("base", ["multifactor", "multifactor-paper"])
@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_a_lost_model_shares_fairly_as_its_multifactor_base_does(base, backfill):
    """Users, accounts and QOS count as by the base policy itself, and the two bases differ."""
    rng = np.random.default_rng(3)
    jobs = Jobs.from_arrays(
        submit_s=MANY.submit_s,
        duration_s=MANY.duration_s,
        gpus=MANY.gpus,
        user=rng.choice(["ann", "bob"], 40).tolist(),
        account=rng.choice(["x", "y"], 40).tolist(),
        qos=rng.choice(["low", "high"], 40).tolist(),
    )
    model = knows_up_to(0.5, "whole", base=base)
    ours = simulate(jobs, SMALL, Learned(model), backfill, estimator="oracle")
    theirs = simulate(jobs, SMALL, base, backfill, estimator="oracle")
    assert ours.start_s.tolist() == theirs.start_s.tolist()
    other = {"multifactor": "multifactor-paper", "multifactor-paper": "multifactor"}[base]
    assert simulate(jobs, SMALL, other, backfill, estimator="oracle").start_s.tolist() != ours.start_s.tolist()


def test_a_schedule_says_how_often_its_model_was_lost():
    """The counts stand beside the other work of the engine."""
    lost = simulate(MANY, SMALL, policy=Learned(knows_up_to(2, "job")), estimator="oracle").work
    assert 0 < lost["scores_outside_training"] < lost["model_scores"]
    assert 0 <= lost["looks_by_base_policy"] < lost["model_looks"]
    known = simulate(MANY, SMALL, policy=Learned(knows_up_to(9, "job")), estimator="oracle").work
    assert (known["scores_outside_training"], known["looks_by_base_policy"]) == (0, 0)


def test_a_rule_has_no_model_to_be_lost():
    """Schedules of rules carry no counts of drift."""
    assert "scores_outside_training" not in simulate(MANY, SMALL, policy="saf", estimator="oracle").work


def test_a_summary_and_a_comparison_warn_of_a_lost_model():
    """Whoever reads the numbers reads that the model was not at home; for one that was, nothing is said."""
    for gpus, warned in ((2, True), (9, False)):
        policy = Learned(knows_up_to(gpus, "job"), name="mine")
        assert (
            "of jobs unlike its training" in str(simulate(MANY, SMALL, policy, estimator="oracle").summary())
        ) is warned
        notes = comparison_notes(compare(MANY, SMALL, [policy, "saf"], estimator="oracle", windows=None))
        assert any("scores asked of mine were of jobs unlike its training" in note for note in notes) is warned
