"""Each feature by hand on one small snapshot, and what each rule of the sampler puts where.

Three nodes of 4 V100 and one of 2 T4. At 100 s a job of 3 GPUs runs on node 0 (expected to end at 500 s) and one of 4
on node 1 (at 300 s): of the V100, 1 + 0 + 4 are free. Job 2, of 8 GPUs, waits since 40 s; jobs 3, 4 and 5 come now.
"""

from dataclasses import replace
from math import log1p

import numpy as np
import pytest
from learn.looking import a_model, inputs, machine, sampled, seen, stopped_at

from rltune.cluster import Cluster, NodeGroup, Outage
from rltune.jobs import Jobs
from rltune.kernel.score.features import feature_of_job
from rltune.model.feature_sets import AS_PRINTED, FEATURES, KNOWN, SLOTS, get_recipe

CLUSTER = Cluster(
    (
        NodeGroup(count=3, gpus=4, gpu_type="V100", cpus=16.0, mem_gib=64.0),
        NodeGroup(count=1, gpus=2, gpu_type="T4", cpus=8.0, mem_gib=32.0),
    )
)
JOBS = Jobs.from_arrays(
    submit_s=[0.0, 0.0, 40.0, 100.0, 100.0, 100.0],
    duration_s=[500.0, 300.0, 1000.0, 60.0, 50.0, 20.0],
    gpus=[3, 4, 8, 2, 1, 1],
    gpu_types=[["V100"], ["V100"], ["V100"], ["V100"], ["T4"], ["V100", "T4"]],
    user=["z", "z", "ann", "bob", "ann", None],
    cpus=[float("nan")] * 4 + [3.0, float("nan")],
)
BIG, SMALL, T4, ANY = 2, 3, 4, 5

BY_HAND = {
    "job_id": {BIG: 0 / 4, SMALL: 1 / 4, T4: 2 / 4, ANY: 3 / 4},
    "user": {BIG: 2 / 4, SMALL: 1 / 4, T4: 2 / 4, ANY: 0.0},
    "gpus": {BIG: log1p(8), SMALL: log1p(2), T4: log1p(1)},
    "vc": {BIG: (8 + 2) / 12, T4: 1 / 2, ANY: 1 / 14},
    "gpu_type": {BIG: 12 / 14, T4: 2 / 14, ANY: 14 / 14},
    "requested_time": {BIG: log1p(1000), SMALL: log1p(60)},
    "submit_time": {BIG: log1p(60), SMALL: 0.0},
    "req_cpu": {BIG: log1p(32), SMALL: log1p(8), T4: log1p(3)},
    "req_mem": {BIG: log1p(128), SMALL: log1p(32), T4: log1p(16)},
    "free_nodes": {BIG: 1 / 3, T4: 1 / 1, ANY: 2 / 4},
    "can_schedule_now": {BIG: 0.0, SMALL: 1.0, T4: 1.0},
    "num_ways": {BIG: 0.0, SMALL: 1.0, ANY: 2.0},
    "demand_supply": {BIG: log1p(10 / (5 + 1)), T4: log1p(1 / (2 + 1)), ANY: log1p(1 / (7 + 1))},
    "job_size": {BIG: log1p(8000), SMALL: log1p(120)},
    "urgency": {BIG: log1p(60 / 1000), SMALL: 0.0},
    "future_availability": {BIG: log1p(200), SMALL: 0.0, T4: 0.0},
    "fragmentation": {BIG: 1 - (1 + 16) / 25, T4: 1 - 4 / 4, ANY: 1 - (1 + 16 + 4) / 49},
    "leftover": {BIG: -1.0, SMALL: (4 - 2) / 4, T4: (2 - 1) / 2, ANY: 0.0},
    "queue_length": {BIG: log1p(4), ANY: log1p(4)},
    "busy": {BIG: 1 - 5 / 12, T4: 0.0, ANY: 1 - 7 / 14},
    "spares": {BIG: 1.0, SMALL: 1.0, T4: 1.0, ANY: 1.0},
    "demand_supply_eq1": {BIG: 8 / 5, SMALL: 2 / 5, T4: 1 / 2, ANY: 1 / 7},
    "future_availability_eq2": {BIG: 5 - 8 - 7, SMALL: 5 - 2 - 7, T4: 2 - 1 - 0, ANY: 7 - 1 - 7},
}


@pytest.fixture(scope="module")
def at_100():
    return stopped_at(100.0, machine(JOBS, CLUSTER))


def test_every_feature_is_computed_by_hand_here():
    """A feature that is added must be added to the table above."""
    assert tuple(BY_HAND) == FEATURES + AS_PRINTED


@pytest.mark.parametrize(("name", "job"), [(name, job) for name, jobs in BY_HAND.items() for job in jobs])
def test_a_feature_is_what_its_formula_gives_by_hand(at_100, name, job):
    """The compiled value is the documented formula's."""
    assert seen(at_100, job, name) == pytest.approx(BY_HAND[name][job], abs=1e-12)


def test_the_printed_equations_where_nothing_is_free():
    """A quotient by no GPUs counts as one by one; a node that is down has neither free GPUs nor used ones."""
    jobs = Jobs.from_arrays(submit_s=[0.0, 10.0], duration_s=[500.0, 5.0], gpus=[4, 3])
    full = stopped_at(10.0, machine(jobs, Cluster.uniform(1, 4)))
    assert seen(full, 1, "demand_supply_eq1") == 3.0
    assert seen(full, 1, "future_availability_eq2") == 0 - 3 - 4
    down = replace(Cluster.uniform(2, 4), outages=(Outage(node=1, down_s=5.0),))
    assert seen(stopped_at(10.0, machine(jobs, down)), 1, "future_availability_eq2") == 0 - 3 - 4


def test_the_literal_recipe_is_the_sampler_with_two_slots_as_printed(at_100):
    """Six of the eight are those of `sampled`."""
    literal, plain = (get_recipe(name).inputs for name in ("paper-literal", "sampled"))
    assert [i for i in range(8) if literal[i] != plain[i]] == [5, 6]
    assert get_recipe("paper-literal").samples
    for name in AS_PRINTED:
        assert sampled(at_100, BIG, name) == seen(at_100, BIG, name)
    m = stopped_at(100.0, machine(JOBS, CLUSTER, a_model("paper-literal")))
    x, _ = inputs(m, BIG)
    assert x[[5, 6]].tolist() == [8 / 5, -10.0]


def test_urgency_is_wait_over_a_run_time_of_a_minute_at_least():
    """A job of no length would otherwise be infinitely urgent."""
    jobs = Jobs.from_arrays(submit_s=[0.0, 1.0, 91.0], duration_s=[500.0, 1.0, 1.0], gpus=[4, 4, 1])
    m = stopped_at(91.0, machine(jobs, Cluster.uniform(1, 4)))
    assert seen(m, 1, "urgency") == pytest.approx(log1p(90 / 60))


def test_future_availability_without_enough_releases_is_ten_days():
    """Where all that runs gives too few GPUs back, the job is told to be far away."""
    jobs = Jobs.from_arrays(submit_s=[0.0, 10.0], duration_s=[500.0, 5.0], gpus=[1, 8], gpu_types=[["A"], ["A"]])
    far = Cluster((NodeGroup(count=2, gpus=4, gpu_type="A"),))
    m = stopped_at(10.0, machine(jobs, far))
    assert seen(m, 1, "future_availability") == pytest.approx(log1p(490))
    m = stopped_at(10.0, machine(jobs, replace(far, outages=(Outage(node=1, down_s=5.0),))))
    assert seen(m, 1, "future_availability") == pytest.approx(log1p(10 * 86400))


@pytest.mark.parametrize(
    ("run_s", "gpus", "spares"),
    [
        (200.0, 1, 1.0),  # ends just when the big job could start
        (201.0, 1, 1.0),  # runs on, but of the 9 GPUs that are free then the big one leaves 1
        (201.0, 2, 0.0),
        (200.0, 2, 1.0),
    ],
)
def test_who_runs_on_beside_the_smallest_that_does_not_fit_spares_it_only_with_gpus_that_it_leaves(run_s, gpus, spares):
    """At 300 s four GPUs are released: with the five that are free, one more than the big job's eight."""
    jobs = Jobs.from_arrays(
        submit_s=[0.0, 0.0, 40.0, 100.0],
        duration_s=[500.0, 300.0, 1000.0, run_s],
        gpus=[3, 4, 8, gpus],
        gpu_types=[["V100"]] * 4,
    )
    assert seen(stopped_at(100.0, machine(jobs, CLUSTER)), 3, "spares") == spares


def test_the_smallest_by_area_is_spared_and_spares_itself():
    """Of two jobs that do not fit, the smaller one's start counts, for the larger one, too."""
    jobs = Jobs.from_arrays(
        submit_s=[0.0, 0.0, 1.0, 1.0, 1.0],
        duration_s=[100.0, 900.0, 1000.0, 50.0, 400.0],
        gpus=[2, 1, 4, 3, 1],
    )
    m = stopped_at(1.0, machine(jobs, Cluster.uniform(1, 4)))  # one GPU is free, three are at 100 s, four at 900 s
    assert [seen(m, job, "spares") for job in (2, 3, 4)] == [0.0, 1.0, 0.0]


def test_only_jobs_of_the_same_pool_are_spared():
    """Nodes that a waiting job cannot use do not delay it."""
    jobs = Jobs.from_arrays(
        submit_s=[0.0, 1.0, 1.0],
        duration_s=[100.0, 50.0, 5000.0],
        gpus=[12, 8, 2],
        gpu_types=[["V100"], ["V100"], ["T4"]],
    )
    m = stopped_at(1.0, machine(jobs, CLUSTER))
    assert seen(m, 2, "spares") == 1.0


def test_what_jobs_have_had_by_hand():
    """A job of 4 GPUs runs for 1,000 s, gives way, and waits; another runs that may not be displaced."""
    jobs = Jobs.from_arrays(
        [0.0, 1000.0, 1200.0], [20000.0, 500.0, 40.0], [4, 4, 2], preemptible=[True, False, True], checkpoint_s=300.0
    )
    m = stopped_at(1200.0, machine(jobs, Cluster.uniform(1, 4), a_model("giving-way"), preempt="las"))
    hand = {"attained": (log1p(4000), 0.0), "displaced": (1.0, 0.0), "willing": (1.0, 1.0), "runs": (0.0, 0.0)}
    for name, values in hand.items():
        assert (seen(m, 0, name), seen(m, 2, name)) == pytest.approx(values)
    # nothing has ended: of the prior of an hour and of that of what is left, for who may be displaced or not
    assert seen(m, 2, "index") == pytest.approx(log1p(2 * 3600.0))
    runs = {name: float(feature_of_job(m.w, m.s, 1, 300.0, KNOWN.index(name))) for name in (*hand, "requested_time")}
    assert runs == pytest.approx(
        {"attained": log1p(4 * 200), "displaced": 0.0, "willing": 0.0, "runs": 1.0, "requested_time": log1p(300)}
    )


def test_estimates_not_truth_are_seen():
    """Requested time, size and urgency follow the estimate."""
    estimate = JOBS.duration_s * 3
    m = stopped_at(100.0, machine(JOBS, CLUSTER, estimator=estimate))
    assert seen(m, BIG, "requested_time") == pytest.approx(log1p(3000))
    assert seen(m, BIG, "job_size") == pytest.approx(log1p(24000))
    assert seen(m, BIG, "urgency") == pytest.approx(log1p(60 / 3000))
    assert seen(m, BIG, "future_availability") == pytest.approx(log1p(900 - 100))


# The sampler: three rules, two slots that change.


def _nodes_of(gpus: int, count: int) -> Cluster:
    return Cluster((NodeGroup(count=count, gpus=gpus),))


def _two_waiting(cluster: Cluster, busy: list[int]):
    """Fill nodes by jobs of so many GPUs each, then let a job of 1 wait for the pass at 50 s with one of 2."""
    n = len(busy)
    jobs = Jobs.from_arrays(
        submit_s=[0.0] * n + [50.0, 50.0], duration_s=[1000.0] * n + [80.0, 80.0], gpus=[*busy, 1, 2]
    )
    return stopped_at(50.0, machine(jobs, cluster, a_model("sampled"))), n


def test_high_fragmentation_puts_the_weighted_size_where_urgency_was():
    """Many nodes with one free GPU each: fragmentation is 1 - 1/10, and the slot holds twice the size."""
    m, job = _two_waiting(_nodes_of(4, 10), [3] * 10)
    assert sampled(m, job, "fragmentation") == pytest.approx(0.9)
    assert sampled(m, job, "job_size or urgency") == pytest.approx(2 * log1p(80))


def test_low_fragmentation_puts_urgency_there():
    """One idle node beside full ones: nothing is fragmented, and the slot holds the urgency."""
    m, job = _two_waiting(_nodes_of(4, 10), [4] * 9)
    assert sampled(m, job, "fragmentation") == 0.0
    assert sampled(m, job, "job_size or urgency") == 0.0
    assert seen(m, job, "job_size") > 0.0


def test_several_ways_put_their_number_where_free_nodes_were():
    """A job that could share a node or have one of its own has two ways; one that fits one node alone has one."""
    m, job = _two_waiting(_nodes_of(4, 2), [3])
    assert seen(m, job, "num_ways") == 2.0
    assert sampled(m, job, "num_ways or free_nodes") == 2.0
    assert seen(m, job + 1, "num_ways") == 1.0
    assert sampled(m, job + 1, "num_ways or free_nodes") == pytest.approx(1 / 2)


def test_the_other_slots_are_always_the_same_feature(at_100):
    """Only two of the slots depend on the situation."""
    fixed = [slot for slot in SLOTS if " or " not in slot]
    assert len(fixed) == len(SLOTS) - 2
    for slot in fixed:
        assert [sampled(at_100, job, slot) for job in (BIG, SMALL, T4, ANY)] == [
            seen(at_100, job, slot) for job in (BIG, SMALL, T4, ANY)
        ]


@pytest.mark.parametrize(("recipe", "slots"), [("sampled", 8), ("sampled-7", 7), ("sampled-9", 9)])
def test_the_network_is_given_the_slots_in_order(recipe, slots):
    """Seven leave out the future, nine add the wait."""
    m = stopped_at(100.0, machine(JOBS, CLUSTER, a_model(recipe)))
    x, _ = inputs(m, BIG)
    wanted = {7: SLOTS[:6] + SLOTS[7:8], 8: SLOTS[:8], 9: SLOTS[:9]}[slots]
    assert x.tolist() == pytest.approx([sampled(m, BIG, slot) for slot in wanted])


def test_inputs_are_shifted_and_scaled_by_the_model():
    """Normalisation is (raw - shift) x scale, from the model and not from the run."""
    norm = np.array([(0.5, 2.0, -9.0, 99.0), (-1.0, 10.0, -9.0, 99.0)])
    m = stopped_at(100.0, machine(JOBS, CLUSTER, a_model("busy+queue_length", norm=norm)))
    x, inside = inputs(m, BIG)
    assert x.tolist() == pytest.approx([(7 / 12 - 0.5) * 2, (log1p(4) + 1) * 10])
    assert inside
