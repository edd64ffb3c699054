"""Jobs behind a blocked one, cut for one node more."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import POLICIES, cases

import rltune
from rltune.cluster import Cluster, NodeGroup, Slowdown
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.run import Machine
from rltune.estimate import Given
from rltune.jobs import Jobs
from rltune.kernel.backfill.easy import reserve
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.state import arrays as core
from rltune.placement.look_ahead import LookAhead

TWO = Cluster.uniform(nodes=2, gpus=8)


def behind(length_s: float, then: int = 16) -> Jobs:
    """Two nodes with five GPUs in use, a large job that waits, and one of six GPUs behind it."""
    return Jobs.from_arrays(
        submit_s=[0, 0, 1, 2],
        duration_s=[100, 100, 10, length_s],
        gpus=[5, 5, then, 6],
        nodes=[1, 1, 0, 0],
    )


@pytest.mark.parametrize(("backfill", "start_s"), [("fit-first", 2.0), ("easy", 2.0), ("none", 110.0)])
def test_who_may_overtake_may_be_cut(backfill, start_s):
    """A job that fits in no node starts on two, where the backfilling lets it pass the head."""
    schedule = rltune.simulate(behind(50.0), TWO, backfill=backfill, placement="milp", estimator="oracle")
    assert schedule.start_s[3] == start_s
    assert schedule.start_s[2] == 100.0
    assert schedule.work["milp_cut_behind"] == (backfill != "none")
    if backfill != "none":
        assert schedule.placements[3] == ((0, 3), (1, 3))


def test_a_cut_job_may_not_delay_the_head():
    """It would still run on both nodes when the head could start; a second less, and it ends just in time."""
    late, just = (
        rltune.simulate(behind(n), TWO, backfill="easy", placement="milp", estimator="oracle") for n in (99.0, 98.0)
    )
    assert late.start_s.tolist() == [0.0, 0.0, 100.0, 110.0]
    assert just.start_s.tolist() == [0.0, 0.0, 100.0, 2.0]


def test_a_cut_job_may_outlast_the_head_beside_it():
    """The head finds its node at its time though the cut job runs on elsewhere."""
    jobs = Jobs.from_arrays(
        submit_s=[0, 0, 0, 1, 2],
        duration_s=[100, 500, 500, 10, 400],
        gpus=[8, 5, 5, 8, 6],
        nodes=[1, 1, 1, 1, 0],
    )
    schedule = rltune.simulate(
        jobs, Cluster.uniform(nodes=3, gpus=8), backfill="easy", placement="milp", estimator="oracle"
    )
    assert schedule.start_s.tolist() == [0.0, 0.0, 0.0, 100.0, 2.0]
    assert [node for node, _ in schedule.placements[4]] == [1, 2]


def test_cuts_keep_the_order():
    """A job that starts cut comes before a later one that would have started whole."""
    jobs = Jobs.from_arrays(
        submit_s=[0, 0, 1, 2, 2], duration_s=[100, 100, 10, 50, 50], gpus=[5, 5, 16, 6, 3], nodes=[1, 1, 0, 0, 0]
    )
    schedule = rltune.simulate(jobs, TWO, backfill="fit-first", placement="milp", estimator="oracle")
    assert schedule.start_s[3] == 2.0
    assert schedule.start_s[4] > 2.0


@pytest.mark.parametrize(("extra_rack", "nodes"), [(1.0, {0, 2}), (2.0, {0, 1})])
def test_a_cut_job_stays_in_a_rack_where_racks_cost(extra_rack, nodes):
    """Two holes of one rack rather than the two that fit best."""
    held = (5, 3, 4, 3)  # the holes: 3 and 5 in the first rack, 4 and 5 in the second
    jobs = Jobs.from_arrays(
        submit_s=[0.0] * 8 + [1.0, 2.0],
        duration_s=[100.0, 0.5] * 4 + [10.0, 10.0],
        gpus=[gpus for g in held for gpus in (g, 8 - g)] + [32, 6],
        nodes=[1] * 8 + [0, 0],
    )
    cluster = Cluster((NodeGroup(count=4, gpus=8, nodes_per_rack=2),), slowdown=Slowdown(extra_rack=extra_rack))
    schedule = rltune.simulate(jobs, cluster, backfill="fit-first", placement="milp", estimator="oracle")
    assert schedule.start_s[9] == 2.0
    assert {node for node, _ in schedule.placements[9]} == nodes
    assert schedule.work["milp_cut_behind"] == 1


class Watched(LookAhead):
    """Notes where a cut pass left a head's reservation later than it found it."""

    broken = 0

    def _cut(self) -> None:
        rows = self._rows_in_order()
        queue, life = self._state.queue, self._state.life
        head = int(queue.job[rows[0]]) if len(rows) else -1
        before = reserve(self._w, self._s, head, 0) if head >= 0 else 0.0
        self._state.n[core.DISTURBED] += 1
        super()._cut()
        if head >= 0 and life.status[head] == core.WAITING:
            self.broken += reserve(self._w, self._s, head, 0) > before
            self._state.n[core.DISTURBED] += 1


@settings(max_examples=30)
@given(
    sizes=st.lists(st.sampled_from((1, 2, 3, 4, 6, 8, 12)), min_size=4, max_size=25),
    lengths=st.lists(st.sampled_from((1.0, 3.0, 10.0, 40.0)), min_size=25, max_size=25),
    policy=st.sampled_from(POLICIES),
)
def test_easy_keeps_its_promise(sizes, lengths, policy):
    """Whatever is cut, the reservation of the first waiting job does not move back."""
    n = len(sizes)
    length = np.array(lengths[:n])
    jobs = Jobs.from_arrays(submit_s=np.arange(n) // 3 * 2.0, duration_s=length, gpus=sizes)
    made = parse_pipeline(policy, "easy", "milp:4")
    m = Machine.of(jobs, Cluster.uniform(nodes=4, gpus=4), made, Given(length))
    ahead = Watched(m.arrays, m.options, 4)
    while advance(m.w, m.s, m.options):
        ahead.make_pass()
    assert ahead.broken == 0
    assert (m.state.life.status == core.DONE).sum() + len(m.reject_reason) == n


SCORES = {"fcfs": lambda v: v.submit_s, "sjf": lambda v: v.estimate_s, "srf": lambda v: np.maximum(v.gpus, 1)}


@settings(max_examples=15)
@given(case=cases(), policy=st.sampled_from(sorted(SCORES)), backfill=st.sampled_from(("fit-first", "easy")))
def test_a_python_policy_cuts_the_same_jobs(case, policy, backfill):
    """Scores given by Python stay with their jobs through starts and cuts."""
    rule, own = (
        rltune.simulate(case.jobs, case.cluster, p, backfill, "milp:4", case.estimate_s)
        for p in (policy, SCORES[policy])
    )
    np.testing.assert_array_equal(own.start_s, rule.start_s)
