"""Schedules worked out by hand, so that the reference itself stands on something."""

import math

import pytest
import reference
from reference.ask import read_jobs
from reference.scores import score

from rltune.cluster import Cluster, Limit, Maintenance, NodeGroup, Outage
from rltune.jobs import Jobs

ONE_NODE = Cluster.uniform(nodes=1, gpus=4)
TWO_NODES = Cluster.uniform(nodes=2, gpus=4)
TYPES_A_B = Cluster((NodeGroup(count=1, gpus=4, gpu_type="A"), NodeGroup(count=1, gpus=4, gpu_type="B")))


def run(cluster: Cluster, rows: list[tuple[float, float, int]], *, columns: dict | None = None, **settings):
    """Simulate rows of (submit, duration, GPUs)."""
    submit, duration, gpus = zip(*rows, strict=True)
    return reference.simulate(Jobs.from_arrays(submit, duration, gpus, **(columns or {})), cluster, **settings)


def starts(*args, **kwargs) -> list[float]:
    return run(*args, **kwargs).start_s


# backfilling on one node of 4 GPUs: job 0 takes 3 until 10, job 1 waits for 4, job 2 would fit beside job 0


@pytest.mark.parametrize(
    ("backfill", "duration", "expected"),
    [
        ("none", 1, [0, 10, 15]),
        ("fit-first", 20, [0, 22, 2]),
        ("easy", 8, [0, 10, 2]),
        ("easy", 9, [0, 10, 15]),
        ("conservative", 8, [0, 10, 2]),
        ("conservative", 9, [0, 10, 15]),
        ("shadow", 7, [0, 10, 2]),
        ("shadow", 8, [0, 10, 15]),
    ],
)
def test_backfill(backfill, duration, expected):
    """Job 1 is due at 10: EASY and conservative let job 2 end at 10, shadow only before, fit-first does not ask."""
    assert starts(ONE_NODE, [(0, 10, 3), (1, 5, 4), (2, duration, 1)], backfill=backfill) == expected


def test_easy_uses_what_the_head_leaves():
    """Job 1 needs 3 of 4 GPUs at 10, so job 2 may keep the fourth; the shadow rule knows no such thing."""
    rows = [(0, 10, 3), (1, 5, 3), (2, 100, 1)]
    assert starts(ONE_NODE, rows, backfill="easy") == [0, 10, 2]
    assert starts(ONE_NODE, rows, backfill="shadow") == [0, 10, 10]


def test_easy_looks_at_nodes_not_at_sums():
    """The head is due at 10 on the node of the 10 s job; job 3 may start beside the other one, not there."""
    long, short = (0, 50, 3), (0, 10, 3)
    assert starts(TWO_NODES, [long, short, (1, 5, 4), (2, 20, 1)], backfill="easy") == [0, 0, 10, 2]
    assert starts(TWO_NODES, [short, long, (1, 5, 4), (2, 20, 1)], backfill="easy") == [0, 0, 10, 10]


def test_conservative_protects_more_than_the_head():
    """Job 3 leaves room for job 1 but not for job 2 beside it: EASY lets it pass, conservative does not."""
    rows = [(0, 10, 3), (1, 10, 2), (2, 10, 2), (3, 12, 1)]
    assert starts(ONE_NODE, rows, backfill="easy") == [0, 10, 15, 3]
    assert starts(ONE_NODE, rows, backfill="conservative") == [0, 10, 10, 20]


def test_shadow_tries_in_submit_order():
    """Behind the head (job 1, the shortest) the shadow rule takes the oldest that fits, EASY the next by score."""
    rows = [(0, 20, 3), (1, 1, 4), (1, 6, 1), (1, 5, 1)]
    assert starts(ONE_NODE, rows, policy="sjf", backfill="shadow") == [0, 20, 1, 7]
    assert starts(ONE_NODE, rows, policy="sjf", backfill="easy") == [0, 20, 6, 1]


def test_a_job_past_its_estimate_is_expected_to_end_now():
    """At 4 job 0 should have ended at 2: the head is due now, so nothing may start that the head could feel."""
    rows = [(0, 10, 3), (1, 5, 4), (4, 1, 1)]
    assert starts(ONE_NODE, rows, backfill="easy", estimate_s=[2, 5, 1]) == [0, 10, 15]
    assert starts(ONE_NODE, rows, backfill="shadow", estimate_s=[2, 5, 1]) == [0, 10, 15]
    assert starts(ONE_NODE, rows, backfill="fit-first", estimate_s=[2, 5, 1]) == [0, 10, 4]


def test_conservative_never_starts_on_top_of_a_late_job():
    """Job 1 is promised the GPUs of the overdue job 0 at once, and gets them when job 0 has really ended."""
    assert starts(ONE_NODE, [(0, 10, 4), (3, 5, 4)], backfill="conservative", estimate_s=[2, 5]) == [0, 10]


def test_nothing_delays_a_head_that_no_known_end_can_help():
    """Job 1 needs both nodes and one is down: later jobs pass until it is back."""
    cluster = Cluster(TWO_NODES.groups, outages=(Outage(node=1, down_s=0, up_s=50),))
    rows = [(0, 10, 2), (1, 5, 8), (2, 100, 1)]
    assert starts(cluster, rows, backfill="easy") == [0, 102, 2]


# gangs and placement


def test_a_large_job_takes_whole_nodes_and_a_rest():
    """20 GPUs on nodes of 8 are 8 + 8 + 4; the 4 fit beside job 0, which holds 4, but not beside 5."""
    cluster = Cluster.uniform(nodes=3, gpus=8)
    beside = run(cluster, [(0, 10, 4), (1, 10, 20)])
    assert beside.placements[1] == ((1, 8), (2, 8), (0, 4))
    assert beside.start_s == [0, 1]
    assert starts(cluster, [(0, 10, 5), (1, 10, 20)]) == [0, 10]


def test_whole_nodes_of_several_sizes():
    """13 GPUs on one node of 8 and three of 2 are 8 + 2 + 2 + 1; 15 do not fit."""
    cluster = Cluster((NodeGroup(count=3, gpus=2), NodeGroup(count=1, gpus=8)))
    result = run(cluster, [(0, 1, 13), (0, 1, 15)])
    assert result.placements[0] == ((3, 8), (0, 2), (1, 2), (2, 1))
    assert result.rejected == [False, True]


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [({"nodes": 2}, (3, 2)), ({"gpus_per_node": 2}, (2, 2, 1)), ({"nodes": 3, "gpus_per_node": 4}, (2, 2, 1))],
)
def test_asked_shapes(shape, sizes):
    """5 GPUs on 2 nodes are 3 + 2; by 2 a node 2 + 2 + 1; a number of nodes counts before GPUs a node."""
    cluster = Cluster.uniform(nodes=3, gpus=4)
    assert tuple(g for _, g in run(cluster, [(0, 1, 5)], columns=shape).placements[0]) == sizes


@pytest.mark.parametrize(("rule", "nodes"), [("best-fit", [1, 1, 0]), ("first-fit", [0, 0, 0]), ("spread", [0, 0, 0])])
def test_choice_among_unequal_nodes(rule, nodes):
    """Of a node of 8 and one of 2, best fit fills the small one, the others start with the first or the most free."""
    cluster = Cluster((NodeGroup(count=1, gpus=8), NodeGroup(count=1, gpus=2)))
    placements = run(cluster, [(0, 9, 1)] * 3, placement=rule).placements
    assert [p[0][0] for p in placements] == nodes


def test_as_slurm_does_the_node_with_the_busiest_cpus_is_taken():
    """GPUs do not count: the third job goes where CPUs are scarce, and of equals the first is taken."""
    cluster = Cluster((NodeGroup(count=2, gpus=8, cpus=16), NodeGroup(count=1, gpus=2, cpus=16)))
    asked = {"cpus": [12, 1, 2, 8, 8]}
    placements = run(cluster, [(0, 9, 1)] * 5, columns=asked, placement="slurm").placements
    assert [p[0][0] for p in placements] == [0, 0, 0, 1, 1]
    gangs = run(
        cluster, [(0, 9, 1), (1, 9, 4)], columns={"cpus": [4, 4], "nodes": [0, 2]}, placement="slurm"
    ).placements
    assert [node for node, _ in gangs[1]] == [0, 1]
    plain = Cluster((NodeGroup(count=1, gpus=8), NodeGroup(count=1, gpus=2)))  # whose CPUs are not told
    assert [p[0][0] for p in run(plain, [(0, 9, 1)] * 3, placement="slurm").placements] == [0, 0, 0]


def test_spread_goes_where_most_is_free():
    """Equal nodes are filled in turn."""
    placements = run(TWO_NODES, [(0, 9, 1)] * 4, placement="spread").placements
    assert [p[0][0] for p in placements] == [0, 1, 0, 1]


def test_types_and_vcs_bind():
    """A job goes to a type it accepts and a VC it names; one that finds neither is rejected."""
    cluster = Cluster((NodeGroup(count=1, gpus=4, gpu_type="A", vc=("red",)), NodeGroup(count=1, gpus=4, gpu_type="B")))
    columns = {"gpu_types": ["B", "A|B", "A", "C", None], "vc": [None, "red", "blue", None, "blue"]}
    result = run(cluster, [(0, 1, 3), (0, 1, 1), (0, 1, 1), (0, 1, 1), (0, 1, 4)], columns=columns)
    assert result.placements == [((1, 3),), ((1, 1),), (), (), ((1, 4),)]
    assert result.rejected == [False, False, True, True, False]
    assert result.start_s[4] == 1


# CPUs and memory

HOST = Cluster((NodeGroup(count=1, gpus=4, cpus=8, mem_gib=16),))


def test_cpus_can_be_the_bottleneck():
    """Job 0 takes 7 of 8 CPUs with 1 GPU; job 1's GPU share is 2 CPUs, so it waits."""
    assert starts(HOST, [(0, 10, 1), (1, 5, 1)], columns={"cpus": [7, math.nan]}) == [0, 10]
    assert starts(HOST, [(0, 10, 1), (1, 5, 1)], columns={"cpus": [6, math.nan]}) == [0, 1]


def test_memory_can_be_the_bottleneck():
    """Job 1 asked 4.25 GiB, job 0 left 4."""
    assert starts(HOST, [(0, 10, 1), (1, 5, 1)], columns={"mem_gib": [12, 4.25]}) == [0, 10]


def test_jobs_without_gpus():
    """One that asks nothing takes one CPU, so eight fit the host and the ninth waits; GPUs stay free but useless."""
    assert starts(HOST, [(0, 10, 0)] * 9 + [(1, 5, 1)]) == [0] * 8 + [10, 10]


def test_a_share_is_rounded_down():
    """3 GPUs of a node of 4 with 7.001 CPUs are 5,250 thousandths, not 5,250.75: 1,751 are left."""
    cluster = Cluster((NodeGroup(count=1, gpus=4, cpus=7.001),))
    assert starts(cluster, [(0, 10, 3), (0, 5, 1)], columns={"cpus": [math.nan, 1.751]}) == [0, 0]
    assert starts(cluster, [(0, 10, 3), (0, 5, 1)], columns={"cpus": [math.nan, 1.752]}) == [0, 10]


# maintenance, outages, speeds


def test_no_start_into_maintenance():
    """The window is [10, 20): job 0 may end at 10, job 1 would end at 11 and starts at 20."""
    cluster = Cluster(ONE_NODE.groups, maintenance=(Maintenance(start_s=10, end_s=20),))
    assert starts(cluster, [(0, 10, 1), (1, 10, 1)]) == [0, 20]


def test_maintenance_does_not_touch_the_running():
    """Job 0 was believed to be over by 5 and runs through the window."""
    cluster = Cluster(ONE_NODE.groups, maintenance=(Maintenance(start_s=10, end_s=20),))
    result = run(cluster, [(0, 30, 1)], estimate_s=[5])
    assert (result.start_s, result.end_s, result.requeues) == ([0], [30], [0])


def test_maintenance_of_one_group():
    """The other group goes on."""
    cluster = Cluster(
        (NodeGroup(count=1, gpus=4), NodeGroup(count=1, gpus=4)),
        maintenance=(Maintenance(start_s=5, end_s=20, groups=(0,)),),
    )
    assert run(cluster, [(0, 10, 1)]).placements == [((1, 1),)]


def test_easy_reserves_after_maintenance():
    """The head cannot end by 12 and is due at 20; job 2 may pass, job 3 finds room only when it is too late."""
    cluster = Cluster(ONE_NODE.groups, maintenance=(Maintenance(start_s=12, end_s=20),))
    rows = [(0, 5, 3), (1, 8, 4), (2, 9, 1), (2, 10, 1)]
    assert starts(cluster, rows, backfill="easy") == [0, 20, 2, 28]
    assert starts(cluster, rows, backfill="none") == [0, 20, 28, 28]


def test_an_outage_sends_jobs_back():
    """Job 0 loses 5 s of work, waits for the node, and is counted."""
    cluster = Cluster(ONE_NODE.groups, outages=(Outage(node=0, down_s=5, up_s=8),))
    result = run(cluster, [(0, 10, 1)])
    assert (result.start_s, result.end_s, result.requeues) == ([8], [18], [1])


def test_an_outage_moves_a_gang():
    """One of its nodes fails: the whole gang starts again elsewhere at once, counted once."""
    cluster = Cluster(Cluster.uniform(nodes=3, gpus=4).groups, outages=(Outage(node=0, down_s=5),))
    result = run(cluster, [(0, 10, 8)])
    assert (result.start_s, result.requeues) == ([5], [1])
    assert result.placements == [((1, 4), (2, 4))]


def test_completions_come_before_outages():
    """A job that ends as the node goes down has ended."""
    cluster = Cluster(ONE_NODE.groups, outages=(Outage(node=0, down_s=5),))
    result = run(cluster, [(0, 5, 1), (6, 1, 1)])
    assert (result.end_s[0], result.requeues, result.rejected) == (5, [0, 0], [False, True])


def test_speed():
    """On GPUs twice as fast 10 s take 5; a gang over both types goes by the slower."""
    groups = (NodeGroup(count=1, gpus=4, gpu_type="A"), NodeGroup(count=1, gpus=4, gpu_type="B"))
    cluster = Cluster(groups, speed={"A": 2.0})
    assert run(cluster, [(0, 10, 4)]).end_s == [5]
    assert run(cluster, [(0, 10, 8)]).end_s == [10]


def test_expected_ends_know_the_speed():
    """Job 2 (10 s on the fast node: 5) ends by 8, when the head is due there; 18 s would not."""
    cluster = Cluster((NodeGroup(count=1, gpus=4, gpu_type="A"),), speed={"A": 2.0})
    assert starts(cluster, [(0, 16, 3), (1, 5, 4), (2, 10, 1)], backfill="easy") == [0, 8, 2]
    assert starts(cluster, [(0, 16, 3), (1, 5, 4), (2, 18, 1)], backfill="easy") == [0, 8, 10.5]


# dependencies, arrays, limits


def test_a_dependant_waits_and_blocks_nobody():
    """Job 1 is held until job 0 has ended, job 2 passes."""
    assert starts(ONE_NODE, [(0, 10, 1), (0, 5, 4), (1, 2, 1)], columns={"after": [[], [0], []]}) == [0, 10, 1]


def test_a_dependant_of_the_rejected_is_rejected():
    """Down the whole chain."""
    result = run(ONE_NODE, [(0, 1, 5), (0, 1, 1), (0, 1, 1)], columns={"after": [[], [0], [1]]})
    assert result.rejected == [True, True, True]


def test_a_throttled_array_runs_one_by_one_and_blocks_nobody():
    """Three tasks of one array of one at a time; job 3 passes them."""
    columns = {"array": [0, 0, 0, -1], "array_limit": [1, 1, 1, 0]}
    assert starts(ONE_NODE, [(0, 5, 1), (0, 5, 1), (0, 5, 1), (1, 5, 1)], columns=columns) == [0, 5, 10, 1]


@pytest.mark.parametrize("scope", ["user", "account", "vc", "qos"])
@pytest.mark.parametrize(("limit", "expected"), [({"max_gpus": 2}, [0, 10, 0, 0]), ({"max_running": 2}, [0, 0, 10, 0])])
def test_limits_pass_over(scope, limit, expected):
    """Of a's jobs of 2, 1 and 0 GPUs all but one fit the limit at once; b's job is not bothered."""
    cluster = Cluster(ONE_NODE.groups, limits=(Limit(scope=scope, **limit),))
    rows = [(0, 10, 2), (0, 10, 1), (0, 10, 0), (0, 10, 1)]
    assert starts(cluster, rows, columns={scope: ["a", "a", "a", "b"]}) == expected


def test_a_limit_of_one_name():
    """Only b is limited."""
    cluster = Cluster(ONE_NODE.groups, limits=(Limit(scope="user", name="b", max_running=1),))
    columns = {"user": ["a", "a", "b", "b"]}
    assert starts(cluster, [(0, 10, 1)] * 4, columns=columns) == [0, 0, 0, 10]


def test_a_limit_on_submitted_jobs_holds_the_rest():
    """One job of a may be queued or running: the shortest of a's is not seen until the oldest have gone through."""
    cluster = Cluster(ONE_NODE.groups, limits=(Limit(scope="user", max_submitted=1),))
    rows = [(0, 10, 1), (1, 10, 1), (2, 1, 1), (2, 1, 1)]
    assert starts(cluster, rows, policy="sjf", columns={"user": ["a", "a", "a", "b"]}) == [0, 10, 20, 2]


def test_what_a_limit_never_lets_run_is_rejected():
    """3 GPUs where 2 are allowed: nobody is blocked, and the job is not forgotten."""
    cluster = Cluster(ONE_NODE.groups, limits=(Limit(scope="user", max_gpus=2),))
    assert run(cluster, [(0, 1, 3), (0, 1, 4)], columns={"user": ["a", None]}).rejected == [True, False]


# pools, views, rounds


def test_a_blocked_head_blocks_its_own_pool_only():
    """Job 1 waits for type A; job 2 wants B and starts, unless the head is global."""
    rows, columns = [(0, 10, 4), (1, 5, 4), (2, 5, 4)], {"gpu_types": ["A", "A", "B"]}
    assert starts(TYPES_A_B, rows, columns=columns) == [0, 10, 2]
    assert starts(TYPES_A_B, rows, columns=columns, head="global") == [0, 10, 10]


def test_a_waiting_job_joins_pools():
    """Job 3 accepts both types, so job 2 is in one pool with the blocked job 1 while job 3 waits."""
    rows, columns = [(0, 10, 4), (1, 5, 4), (2, 5, 4), (2, 5, 4)], {"gpu_types": ["A", "A", "B", "A|B"]}
    assert starts(TYPES_A_B, rows, columns=columns) == [0, 10, 10, 15]


def test_what_has_started_joins_no_pools():
    """Job 0 may use both and starts on A; job 1 waits for A, and job 2 need not wait for anything."""
    rows, columns = [(0, 10, 4), (0, 5, 4), (0, 5, 4)], {"gpu_types": ["A|B", "A", "B"]}
    for backfill in ("none", "fit-first", "easy", "conservative", "shadow"):
        assert starts(TYPES_A_B, rows, columns=columns, backfill=backfill) == [0, 10, 0]
        assert starts(TYPES_A_B, rows, columns=columns, backfill=backfill, policy="srf") == [0, 10, 0]


def test_each_part_of_a_split_pool_has_its_head():
    """At 2 job 1 waits for A and job 2 for B. Job 3 joins them until it starts; job 4 may not delay job 2 then."""
    rows = [(0, 10, 3), (1, 5, 4), (2, 5, 4), (2, 5, 1), (2, 9, 2)]
    columns = {"gpu_types": ["A", "A", "B", "A|B", "B"]}
    busy = [(0, 8, 1), *rows]
    types = {"gpu_types": ["B", *columns["gpu_types"]]}
    assert starts(TYPES_A_B, busy, columns=types, backfill="easy") == [0, 0, 10, 8, 2, 13]


@pytest.mark.parametrize("policy", ["fcfs", "wfp3", "unicep"])
@pytest.mark.parametrize("backfill", ["none", "fit-first", "easy", "conservative", "shadow"])
def test_a_job_that_can_never_run_changes_nothing(policy, backfill):
    """Its submission is no event: scores that change with time are not looked at for its sake."""
    rows = [(0, 20, 3), (1, 9, 4), (2, 8, 2), (3, 3, 1), (4, 11, 1)]
    with_it = [*rows, (15, 5, 99)]
    assert starts(ONE_NODE, with_it, policy=policy, backfill=backfill)[:5] == starts(
        ONE_NODE, rows, policy=policy, backfill=backfill
    )


def test_overlapping_partitions_share_nodes():
    """Group 1 belongs to both VCs: red overflows into it, and blue must wait for it."""
    cluster = Cluster((NodeGroup(count=1, gpus=4, vc=("red",)), NodeGroup(count=1, gpus=4, vc=("red", "blue"))))
    result = run(cluster, [(0, 10, 4), (0, 10, 4), (1, 5, 1)], columns={"vc": ["red", "red", "blue"]})
    assert [p[0][0] for p in result.placements] == [0, 1, 1]
    assert result.start_s == [0, 0, 10]


def test_a_view_of_one_is_first_come_first_served():
    """The shortest job is not seen while an older one waits."""
    rows = [(0, 10, 4), (1, 5, 4), (2, 1, 4)]
    assert starts(ONE_NODE, rows, policy="sjf", view=1) == [0, 10, 15]
    assert starts(ONE_NODE, rows, policy="sjf") == [0, 11, 10]


def test_jobs_of_no_duration_take_no_time():
    """Both whole-node jobs start at 0, in two rounds."""
    result = run(ONE_NODE, [(0, 0, 4), (0, 0, 4), (0, 5, 4)])
    assert (result.start_s, result.end_s) == ([0, 0, 0], [0, 0, 5])


def test_rejection():
    """More than the cluster, more nodes than there are, a chunk larger than a node, more CPUs than a host."""
    rows = [(0, 1, 9), (0, 1, 3), (0, 1, 6), (0, 1, 8)]
    assert run(TWO_NODES, rows, columns={"nodes": [0, 3, 1, 0]}).rejected == [True, True, True, False]
    assert run(HOST, [(0, 1, 0)], columns={"cpus": 9}).rejected == [True]


# commit mode


def test_commit_keeps_the_selected_job():
    """Job 1 was selected at 1; the shorter job 2 came at 2 and must wait for it."""
    rows = [(0, 10, 4), (1, 5, 4), (2, 1, 4)]
    assert starts(ONE_NODE, rows, policy="sjf", commit=True) == [0, 10, 15]


def test_commit_queues_arrivals_one_by_one_and_before_ends():
    """At 10 job 1 alone is queued and selected before job 2 is looked at, and both before job 0 is released."""
    rows = [(0, 10, 4), (10, 5, 4), (10, 1, 4)]
    assert starts(ONE_NODE, rows, policy="sjf", commit=True) == [0, 10, 15]
    assert starts(ONE_NODE, rows, policy="sjf") == [0, 11, 10]


@pytest.mark.parametrize(("duration", "expected"), [(7, [0, 10, 2]), (8, [0, 10, 15])])
def test_commit_backfills_strictly_before_the_shadow(duration, expected):
    """The shadow time is 10: 2 + 7 is before it, 2 + 8 is not."""
    rows = [(0, 10, 3), (1, 5, 4), (2, duration, 1)]
    assert starts(ONE_NODE, rows, backfill="shadow", commit=True) == expected
    assert starts(ONE_NODE, rows, backfill="none", commit=True) == [0, 10, 15]


def test_commit_fixes_the_shadow_time_when_it_blocks():
    """Job 0 is believed to end at 5 and ends at 20; the shadow stays 5, so job 2, which comes at 6, never passes."""
    rows = [(0, 20, 3), (1, 5, 4), (6, 1, 1)]
    assert starts(ONE_NODE, rows, backfill="shadow", commit=True, estimate_s=[5, 5, 1]) == [0, 20, 25]


def test_commit_releases_first_who_started_first():
    """Jobs 2 and 3 end at 11, the younger, larger 3 having started first. Then 6 and 8 fit before 2 is released."""
    at_once = [(0, 1, 4), (0, 1, 4)]
    rows = [*at_once, (0.5, 9, 1), (0.5, 9, 2), (0.5, 50, 1), (0.5, 60, 4), (3, 5, 1), (3, 5, 2), (3, 5, 1)]
    believed = [1, 1, 30, 20, 50, 60, 5, 5, 5]
    settings = {"policy": "sjf", "backfill": "shadow", "commit": True}
    assert starts(ONE_NODE, rows, estimate_s=believed, **settings) == [0, 1, 2, 2, 2, 52, 11, 16, 11]


# scores


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fcfs", 10.0),
        ("sjf", 100.0),
        ("srf", 4.0),
        ("saf", 400.0),
        ("wfp3", -32.0),  # -(200 / 100)^3 4
        ("unicep", -1.0),  # -200 / (2 x 100)
        ("f1", 878.0),  # 2 x 4 + 870 x 1
    ],
)
def test_scores(policy, expected):
    """Submitted at 10, seen at 210, 100 s on 4 GPUs."""
    job = read_jobs(Jobs.from_arrays([10], [1], [4]), [100])[0]
    assert score(policy, job, 210) == expected


def test_scores_where_a_logarithm_has_no_value():
    """One GPU has log2 0, floored at 1e-15; time 0 and length 0 count as 0.1 in F1; no GPUs count as one."""
    job = read_jobs(Jobs.from_arrays([0], [1], [0]), [0])[0]
    assert score("unicep", job, 2.0) == -2.0 / (1e-15 * 1e-15)
    assert score("f1", job, 2.0) == -871.0
    assert score("srf", job, 2.0) == 1
