"""What was hidden in a made-up site is found in its history, and offered as lines that simulations use."""

import datetime as dt
import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from made_history import as_sacct, broken, cluster, happened, limited, stopped, workload

from rltune import Cluster, Jobs
from rltune.calibration import calibrate, causes
from rltune.calibration import calibration_text as text
from rltune.calibration.closeness import NEITHER, RANKING, SIZES, ranks
from rltune.calibration.cluster_file import lines_of, taken_over
from rltune.calibration.free_room import FreeRoom
from rltune.calibration.history import Happened
from rltune.calibration.slow_starts import SlowStretch
from rltune.cli.array_limits import parse_array_limits
from rltune.cluster import Maintenance, NodeGroup, Outage, Scheduler
from rltune.engine.parse_pipeline import read_pipeline
from rltune.engine.run import run_pipeline
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.labels import Labels
from rltune.policy.multifactor import Multifactor
from rltune.report.calibration_page import render_calibration
from rltune.trace import load
from rltune.tune.tried_pipelines import usual_now


def found(made):
    return tomllib.loads(lines_of(made.findings))


def test_a_site_that_is_as_described_is_replayed_exactly():
    made = calibrate(happened(workload(), cluster()), cluster(), "fcfs + easy")
    assert made.pipeline == "fcfs + easy"
    assert made.close.verdict == SIZES
    assert (made.close.waits.ratio, made.close.rank_of_waits, made.close.queue) == pytest.approx((1, 1, 1))
    assert found(made) == {"scheduler": {"policy": "fcfs", "backfill": "easy"}}  # no limit and no node that was down


def test_what_runs_today_is_the_same_for_calibrate_and_tune():
    """Where the file does not say it; what comes nearer to the history is named, and is not taken silently."""
    history = happened(workload(), cluster())
    made = calibrate(history, cluster())
    assert made.pipeline == usual_now(history, cluster()).pipeline.label == "multifactor + easy"
    assert "fcfs + easy is nearer to what happened" in made.chosen
    assert made.after_pipeline == "fcfs + easy"  # by the lines that are offered
    nobody = replace(history, user=Labels.none(len(history)))
    assert calibrate(nobody, cluster()).pipeline == usual_now(nobody, cluster()).pipeline.label == "fcfs + easy"
    told = replace(cluster(), scheduler=Scheduler(policy="wfp3", backfill="none"))
    assert calibrate(history, told).pipeline == usual_now(history, told).pipeline.label == "wfp3"


def test_a_hidden_limit_of_users_is_found_in_an_export_of_sacct(tmp_path):
    """Without it the replay is good for nothing, with it for sizes of gains."""
    path = tmp_path / "sacct.txt"
    path.write_text(as_sacct(happened(workload(load=0.6, users=4), limited(8))))
    made = calibrate(load(path).jobs, cluster())
    assert made.close.verdict == NEITHER
    assert found(made) == {"limit": [{"scope": "user", "max_gpus": 8}]}
    assert made.after.verdict == SIZES
    assert made.after.waits.ratio == pytest.approx(1, abs=0.1)
    assert any(one.cause == "waiting with room" for one in made.findings)


def test_what_the_cluster_says_already_is_not_offered_again():
    made = calibrate(happened(workload(load=0.6, users=4), limited(8)), limited(8))
    assert "limit" not in found(made)
    assert any("the cluster's file has it" in one.evidence for one in made.findings)


def test_jobs_that_something_hidden_holds_do_not_make_idle_nodes_look_dead():
    """A third of the users are held for hours, by nothing that the history tells, on a machine that is half empty."""
    free = happened(workload(load=0.5, users=6), cluster())
    held = np.isin(free.user.codes, [0, 2])
    late = free.with_columns(recorded_start_s=free.recorded_start_s + np.where(held, 4 * 3600.0, 0.0))
    made = calibrate(late, cluster())
    assert "outage" not in found(made)
    assert any(one.cause == "waiting with room" for one in made.findings)


def test_a_busy_site_without_limits_has_none():
    for seed in (1, 2, 3):
        made = calibrate(happened(workload(load=0.95, users=3, seed=seed), cluster()), cluster())
        assert "limit" not in found(made)
        assert "outage" not in found(made)


def test_nodes_that_were_down_are_found():
    jobs = workload()
    end = float(jobs.submit_s.max())
    down = [(2, 0.2 * end, 0.5 * end), (5, 0.6 * end, 0.7 * end)]
    made = calibrate(happened(jobs, broken(*down)), cluster(), origin_s=0.0)
    seen = found(made)["outage"]
    assert lines_of(made.findings).count("  # 1970-01-") == 2 * len(seen)  # when it went down, and came up
    for node, low, high in down:
        covered = [min(o["up_s"], high) - max(o["down_s"], low) for o in seen if o["node"] == node]
        assert max(covered) > 0.95 * (high - low)
    wrong = sum(o["up_s"] - o["down_s"] for o in seen if o["node"] not in {2, 5})
    assert wrong < 0.15 * sum(o["up_s"] - o["down_s"] for o in seen)
    assert made.close.verdict == RANKING
    assert made.after.verdict == SIZES


@pytest.mark.parametrize("longer", [1, 20])
@pytest.mark.parametrize(("share", "load"), [(0.9, 0.6), (1.0, 0.6), (0.9, 0.8)])
def test_a_stretch_in_which_starts_nearly_stopped_is_named_and_taken_over(share, load, longer):
    """By its dates, though nobody knew of it before. Where limits reach into it, each node is closed when it is empty.

    As maintenance it would hold up all that has long limits for days before it.
    """
    jobs = workload(n=3000, load=load)
    jobs = replace(jobs, limit_s=longer * jobs.limit_s)
    begin = np.floor(0.4 * jobs.submit_s[-1] / 3600) * 3600
    end = begin + 3 * 86_400
    made = calibrate(stopped(jobs, cluster(), begin, end, share), cluster(), "fcfs + easy", origin_s=0.0)
    (fact,) = (one for one in made.findings if one.cause == "starts nearly stopped with room")
    low, high = (
        dt.datetime.fromisoformat(f"{when}+00:00").timestamp()
        for when in re.search(r"from ([\d-]+ [\d:]+) to ([\d-]+ [\d:]+)", fact.evidence).groups()
    )
    assert abs(low - begin) < 8 * 3600
    assert abs(high - end) < 2 * 3600
    assert ("outage" in found(made)) is (longer > 1)
    assert made.close.verdict == NEITHER
    assert made.after.verdict in {RANKING, SIZES}
    assert abs(np.log(made.after.waits.ratio)) < abs(np.log(made.close.waits.ratio)) / 8


def test_a_partition_that_was_closed_is_named_with_its_nodes_alone():
    """The other goes on; a stop that jobs were kept from running into is maintenance of these nodes."""
    site = Cluster(
        (NodeGroup(count=6, gpus=4, vc=("a",)), NodeGroup(count=6, gpus=4, vc=("b",))),
        maintenance=(Maintenance(start_s=600_000.0, end_s=800_000.0, groups=(1,)),),
    )
    jobs = workload(n=2500, load=0.7, gpus=48)
    both = replace(jobs, vc=Labels.of([("a", "b")[i % 2] for i in range(len(jobs))], len(jobs)))
    history = replace(happened(both, site), recorded_nodes=Labels.none(len(jobs)))
    made = calibrate(history, replace(site, maintenance=()), "fcfs + easy")
    (fact,) = (one for one in made.findings if one.cause == "starts nearly stopped with room")
    assert "in partition b" in fact.evidence
    assert "from day 6.9 to day 9.3 of the history" in fact.evidence
    (window,) = found(made)["maintenance"]
    assert window["groups"] == [1]
    assert abs(window["start_s"] - 600_000) < 4 * 3600
    assert abs(window["end_s"] - 800_000) < 2 * 3600
    assert made.after.waits.ratio == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("jobs", [1, 2, 20])
def test_a_history_of_an_hour_is_calibrated(jobs):
    made = calibrate(happened(workload(n=jobs), cluster()), cluster(), "fcfs + easy")
    assert len(made.history) == jobs


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_a_queue_behind_large_jobs_is_no_stop(seed, backfill):
    """Without backfilling nodes stand idle for hours beside jobs that would fit: that is the policy, no event."""
    jobs = workload(load=0.8, seed=seed)
    made = calibrate(happened(jobs, cluster(), "fcfs", backfill), cluster(), f"fcfs + {backfill}")
    assert not [one for one in made.findings if "stopped" in one.cause]


def test_nodes_that_never_existed_are_found():
    made = calibrate(happened(workload(load=1.1), cluster(nodes=8)), cluster(nodes=10))
    assert [o["node"] for o in found(made)["outage"]] == [8, 9]
    assert made.after.waits.ratio == pytest.approx(1, abs=0.05)


def test_weights_are_found_by_who_starts_first():
    truth = Multifactor(age=1000, fairshare=0, job_size=0, partition=0, qos=20, qos_priority={"high": 1.0})
    made = calibrate(happened(workload(n=4000, load=0.95), cluster(), truth), cluster())
    ours = found(made)["scheduler"]
    assert ours["age"] == 1000
    assert ours["qos"] == pytest.approx(20, rel=0.3)
    assert ours["fairshare"] < 5
    assert ours["qos_priority"] == {"normal": 0.0, "high": 1.0}
    assert made.after.rank_of_waits > made.close.rank_of_waits


def test_fair_share_is_told_from_age():
    truth = Multifactor(age=200, fairshare=1000, job_size=0, partition=0, qos=0)
    ours = found(calibrate(happened(workload(n=3000), cluster(), truth), cluster()))["scheduler"]
    assert ours["fairshare"] == 1000
    assert ours["age"] == pytest.approx(200, rel=0.5)


def test_what_was_held_counts_from_when_it_could_start():
    jobs = happened(workload(n=300), cluster())
    held = jobs.with_columns(submit_s=np.maximum(jobs.submit_s - 50_000, 0), recorded_eligible_s=jobs.submit_s)
    made = calibrate(held, cluster(), "fcfs + easy")
    assert made.close.waits.ratio == pytest.approx(1)
    assert any("could not start when submitted" in one.evidence for one in made.findings)


def test_a_history_without_starts_is_refused():
    with pytest.raises(InputError, match="no starts are recorded"):
        calibrate(workload(n=10), cluster())


def test_ranks_of_equals_are_shared():
    assert ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1.0, 3.5, 2.0]


def test_the_first_lines_answer_and_the_page_says_the_same():
    made = calibrate(happened(workload(load=0.6, users=4), limited(8)), cluster())
    lines = text.answer(made)
    assert "the file you go on with counts" in lines[0]
    assert lines[1] == "Without the lines below: usable neither for ranking policies nor for sizes of gains."
    assert lines[2] == "With them taken over: usable for ranking policies and for sizes of gains."
    same = replace(made, after=None)
    assert text.answer(same)[0] == "Usable neither for ranking policies nor for sizes of gains."
    page = render_calibration(made, "history", "cluster")
    assert " ".join(lines[:3]) in page
    assert lines[3] in page
    assert "max_gpus = 8" in page
    assert page.count("<h2>Evidence, ") == 2
    assert "with the lines (fcfs + easy)" in page or "with the lines (multifactor + easy)" in page


def test_lines_that_make_a_replay_worse_are_called_so():
    """One verdict may be the same for both; what gets farther from what happened is named, with how far it was."""
    made = calibrate(happened(workload(load=0.6, users=4), limited(8)), cluster())
    assert not [line for line in text.verdicts(made) if "worse" in line]
    swapped = replace(made, close=made.after, after=made.close)
    (told,) = (line for line in text.verdicts(swapped) if "make it worse" in line)
    assert "the p90 wait is" in told
    assert "ranks of waits correlate by" in told
    assert text.verdicts(swapped)[2].startswith("With them taken over: usable neither")


def test_tables_have_both_replays_and_say_how_many_groups_there_are():
    made = calibrate(happened(workload(load=0.9, users=20), limited(8)), cluster())
    heads = {title.split(",")[0]: (title, table) for title, table in text.tables(made)}
    title, users = heads["by user"]
    assert title == "by user, the 12 of 20 that waited longest in all"
    assert [column.header for column in users.columns[4:]] == ["of recorded", "with the lines", "of recorded"]
    sizes = {row.name: row for row in made.groups["size"]}
    assert sum(row.jobs for row in sizes.values()) == len(made.history)
    wait = made.after_start_s - made.history.ready_s
    assert sizes["2 GPUs"].with_lines_s == pytest.approx(wait[made.history.size == 2].mean())
    assert {"account", "QOS"} <= set(made.groups)


def test_the_command_for_throttled_arrays_can_be_run(monkeypatch):
    """Where it names only some of them, that stands outside the command, and JSON names all."""
    tasks, arrays = 40, 3
    array, task = np.divmod(np.arange(tasks * arrays), tasks)
    start = 10.0 * array + 3600.0 * (task // 2)
    ran = {"duration_s": np.full(len(array), 3590.0), "gpus": 1, "array": array, "recorded_start_s": start}
    history = Jobs.from_arrays(submit_s=10.0 * array, **ran).sorted()
    for most, so in ((20, "them"), (2, "2 of the 3 (--json names all)")):
        monkeypatch.setattr(causes, "MOST_NAMED", most)
        made = calibrate(history, Cluster.uniform(8, 8), "fcfs + easy", "oracle")
        (fact,) = (one for one in made.findings if one.cause == "arrays throttled")
        assert fact.evidence == "3 arrays ran no more than a few tasks at once although there was room"
        told = text.told(fact, "the history.txt")
        start = "`rltune trace convert 'the history.txt' -o 'the history-throttled.csv' --array-limit "
        assert f"although there was room. To hold {so}: {start}" in told
        named = re.search(r"--array-limit (\S+)`", told)[1]
        assert parse_array_limits(named) == dict.fromkeys(range(min(most, arrays)), 2)
        (told,) = (one for one in text.as_dict(made)["findings"] if one["cause"] == fact.cause)
        assert list(told["named"]) == ["0=2", "1=2", "2=2"]


def test_cpu_jobs_of_which_one_would_not_have_fitted_tell_nothing_of_the_order():
    """On a machine without GPUs all jobs ask for none: what they ask of CPUs says who could have gone first."""
    rng = np.random.default_rng(3)
    n = 2500
    cpus = rng.choice([4.0, 8.0, 16.0, 32.0], n)
    run = rng.lognormal(8, 1, n)
    submit = np.sort(rng.uniform(0, (cpus * run).sum() / (160 * 0.95), n))
    user = [f"u{i}" for i in rng.integers(0, 5, n)]
    site = Cluster(groups=(NodeGroup(count=5, gpus=0, cpus=32),))
    bare = Jobs.from_arrays(submit, run, np.zeros(n, dtype=int), limit_s=2 * run, cpus=cpus, user=user)
    made = calibrate(happened(bare, site), site)
    assert not [one for one in made.findings if one.cause == "waiting with room"]
    lines = [line for one in made.findings for line in one.toml]
    assert not any(line.startswith("age = 0.0") for line in lines)
    assert made.after.waits.ratio == pytest.approx(1, abs=0.1)


def test_parts_of_a_history_in_which_the_machine_was_small_are_one_outage_a_node():
    """Where nodes are not recorded: half of them came half way."""
    jobs = workload(n=3000, load=1.1)
    half = float(jobs.submit_s[-1]) / 2
    small = replace(cluster(nodes=8), outages=tuple(Outage(node=i, down_s=0.0, up_s=half) for i in range(4, 8)))
    bare = replace(happened(jobs, small), recorded_nodes=Labels.none(len(jobs)))
    made = calibrate(bare, cluster(nodes=8))
    down = found(made).get("outage", [])
    assert [one["node"] for one in down] == [4, 5, 6, 7]
    assert len({(one["down_s"], one["up_s"]) for one in down}) == 1
    assert down[0]["up_s"] < 1.2 * half


def whole_stop_within_a_longer_one_of_a_partition(*, b_stands=True):
    """Partition a stands still for three days, and on the second the small partition b too, in which little is run."""
    site = Cluster((NodeGroup(count=10, gpus=4, vc=("a",)), NodeGroup(count=2, gpus=4, vc=("b",))))
    windows = [Maintenance(start_s=600_000, end_s=860_000, groups=(0,))]
    windows += [Maintenance(start_s=690_000, end_s=750_000)] * b_stands
    jobs = workload(n=2500, load=0.7, gpus=48)
    burst = (jobs.submit_s > 670_000) & (jobs.submit_s < 690_000)  # so that some of b wait all the time
    names = [("b" if i % 25 == 0 or (burst[i] and i % 2) else "a") for i in range(len(jobs))]
    both = replace(jobs, vc=Labels.of(names, len(jobs)))
    return happened(both, replace(site, maintenance=tuple(windows))), site


@pytest.mark.parametrize(("stood", "told", "stops"), [("ab", "a", 1), ("ab", "ab", 0), ("ab", "", 1), ("a", "a", 0)])
def test_a_stop_of_the_whole_machine_is_found_within_a_longer_one_of_a_partition(stood, told, stops):
    """What is told of some nodes says nothing of the others; where nobody waits for those, they did not stand still."""
    jobs, site = whole_stop_within_a_longer_one_of_a_partition(b_stands="b" in stood)
    history = Happened.of(jobs)
    free = FreeRoom.of(history, site)
    kinds = [free.kind[jobs.vc.codes == jobs.vc.names.index(name)][0] for name in told]
    slow = [SlowStretch(int(kind), 590_000, 860_000, 0, 9.0, 9) for kind in kinds]
    replay = run_pipeline(jobs, site, read_pipeline("fcfs + easy"), get_estimator("user"))
    facts = causes.find_causes(history, jobs, site, replay, free=free, slow=slow)
    spans = tomllib.loads(lines_of([one for one in facts if one.cause.startswith("reserv")])).get("maintenance", [])
    during = [one for one in spans if min(one["end_s"], 750_000) - max(one["start_s"], 690_000) > 30_000]
    assert len(during) == stops
    if told:
        assert len(spans) == stops


def hour_of_stop(longer, share=0.9):
    jobs = workload(n=3000, load=0.6)
    begin = np.floor(0.4 * jobs.submit_s[-1] / 3600) * 3600
    return stopped(replace(jobs, limit_s=longer * jobs.limit_s), cluster(), begin, begin + 3 * 86_400, share), cluster()


def small_at_first():
    jobs = workload(n=3000, load=1.1)
    half = float(jobs.submit_s[-1]) / 2
    small = replace(cluster(nodes=8), outages=tuple(Outage(node=i, down_s=0.0, up_s=half) for i in range(4, 8)))
    return replace(happened(jobs, small), recorded_nodes=Labels.none(len(jobs))), cluster()


HIDDEN = {
    "a stop within a longer one": whole_stop_within_a_longer_one_of_a_partition,
    "a stop that was known": lambda: hour_of_stop(1),
    "a stop that nobody knew of": lambda: hour_of_stop(20),
    "a stop of all that nobody knew of": lambda: hour_of_stop(20, 1.0),
    "nodes that were down": lambda: (happened(workload(), broken((2, 2e5, 4e5), (5, 5e5, 6e5))), cluster()),
    "nodes that never existed": lambda: (happened(workload(), cluster()), cluster(nodes=11)),
    "a machine that was small at first": small_at_first,
    "a limit": lambda: (happened(workload(load=0.6, users=4), limited(8)), cluster()),
}


@pytest.mark.parametrize("what", HIDDEN)
def test_calibrating_the_file_that_was_written_finds_nothing_more(what):
    history, site = HIDDEN[what]()
    made = calibrate(history, site)
    assert found(made)
    again = calibrate(history, taken_over(site, made.findings))
    assert found(again) == {}
    assert again.close == made.after
