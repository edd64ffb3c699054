"""A change is made as it is written, pairs the same jobs, and a solved target holds when it is tried."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from rltune.cluster import Cluster, Limit, NodeGroup
from rltune.engine.parse_pipeline import read_pipeline
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.present.of_run import replay
from rltune.trials.intervals import Interval
from rltune.trials.shares import Share, SmallGroup
from rltune.whatif import Target, WhatIf, parse_edit, solve, what_if, what_if_now
from rltune.whatif.edits import Site, new_nodes, with_nodes
from rltune.whatif.on_history import run_site

ORACLE = get_estimator("oracle")


def site(n=300, pipeline="fcfs + easy"):
    """Make a crowded site of two types in two partitions, the V100s in two racks."""
    rng = np.random.default_rng(1)
    jobs = Jobs.from_arrays(
        submit_s=np.sort(rng.uniform(0, 300.0 * n, n)),
        duration_s=rng.lognormal(7.5, 0.8, n),
        gpus=rng.choice([1, 2, 4], n),
        gpu_types=rng.choice(["V100", "A100|V100"], n).tolist(),
        vc=rng.choice(["a", "b"], n).tolist(),
        user=[f"u{i % 4}" for i in range(n)],
    )
    cluster = Cluster(
        (
            NodeGroup(count=2, gpus=4, gpu_type="V100", rack="r1", cpus=16.0),
            NodeGroup(count=1, gpus=4, gpu_type="V100", rack="r2", cpus=16.0),
            NodeGroup(count=1, gpus=4, gpu_type="A100", vc=("a",)),
        )
    )
    return Site(jobs, cluster, read_pipeline(pipeline))


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("add=2x8:new:H100", 6),
        ("add=2x4:v100", 6),
        ("remove=1:V100", 3),
        ("remove=1x4:V100", 3),
        ("remove=2x4", 2),
        ("retire=v100", 1),
        ("drain=r1", 2),
        ("cap=a:4", 4),
        ("load=+50%", 4),
    ],
)
def test_a_change_is_made_on_a_copy(text, nodes):
    """Nodes are as many as they should be, and the site itself stays as it was."""
    before = site(20)
    after = parse_edit(text)(before)
    assert after.cluster.node_count == nodes
    assert before.cluster.node_count == 4
    same_jobs = np.array_equal(after.jobs.submit_s, before.jobs.submit_s)
    assert not (same_jobs and after.cluster == before.cluster)


def test_added_nodes_are_like_those_there():
    """CPUs come from nodes with as many GPUs, or else jobs that name CPUs would not fit or fit too well."""
    grown = with_nodes(site(20).cluster, new_nodes("3x4:V100@b", ""))
    assert (grown.groups[-1].cpus, grown.groups[-1].vc, grown.groups[-1].count) == (16.0, ("b",), 3)


def test_joined_partitions_share_nodes():
    """Each admits the other's jobs."""
    one = Site(
        site(20).jobs,
        Cluster((NodeGroup(count=1, gpus=4, vc=("a",)), NodeGroup(count=1, gpus=4, vc=("b",)))),
        site(20).pipeline,
    )
    joined = parse_edit("join=a|b")(one).cluster
    assert all(group.admits("a") and group.admits("b") for group in joined.groups)


@pytest.mark.parametrize(
    "text", ["", "more=1", "add=4:A100", "remove=V100", "load=20", "cap=a", "limit=user:gpus=1", "drain=", "join=a"]
)
def test_what_is_not_understood_is_refused(text):
    """In one sentence that says how to write it."""
    with pytest.raises(InputError):
        parse_edit(text)(site(20))


@pytest.mark.parametrize("count", [4, 5, 7])
def test_more_nodes_than_there_are_cannot_be_removed(count):
    """Nor are fewer than asked taken in their place: `rows[-1:]` would be the last one."""
    with pytest.raises(InputError, match=r"there are only \d nodes? of V100"):
        parse_edit(f"remove={count}:V100")(site(20))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("add=2x8:V10", "no GPU type 'V10' (add=2x8:V10); did you mean V100? there are: "),
        ("add=2x8:H100", "If it is to be a new one, write 2x8:new:H100"),
        ("add=2x8", "says no GPU type; there are: "),
        ("remove=2x16:V100", "there are only 0 nodes of V100 with 16 GPUs"),
        ("remove=2x16", "there are only 0 nodes with 16 GPUs"),
        ("remove=0:V100", "written as 2:V100, 2x8:V100 or 2x8"),
        ("remove=1x4:V10", "did you mean V100?"),
    ],
)
def test_a_type_that_is_not_there_may_be_misspelt(text, told):
    """On a history, on the queue of now and for a target alike."""
    base = site(120)
    present = replay(base.jobs, base.cluster, base.pipeline, ORACLE, float(base.jobs.submit_s[90]))
    for ask in (lambda edits: what_if(base, edits, ORACLE), lambda edits: what_if_now(present, edits, rolls=2)):
        with pytest.raises(InputError) as refused:
            ask([parse_edit(text)])
        assert told in str(refused.value)
    if text == "add=2x8:V10":
        with pytest.raises(InputError, match="did you mean V100"):
            solve(base, Target.parse("mean wait < 1h"), "8:V10", ORACLE)


def test_a_removal_on_a_history_says_which_nodes_it_takes():
    """Nodes of one type may differ in size."""
    told = what_if(site(), [parse_edit("remove=1:V100")], ORACLE)
    assert "remove=1:V100 takes the last of its kind in the cluster's file: 1 node of 4 GPUs" in told.notes


def test_nothing_changed_is_exactly_nothing():
    """The same pipeline on both sides gives a difference of 0."""
    told = what_if(site(), [parse_edit("pipeline=fcfs + easy")], ORACLE)
    assert told.difference.estimate == 0.0
    assert "nothing is shown" in told.sentence or told.difference.low == 0.0


def test_more_nodes_help_and_it_is_told_who_gains():
    """Waits fall, with an interval, and JSON keeps all of it."""
    told = what_if(site(), [parse_edit("add=4x4:V100")], ORACLE)
    assert told.then_s["mean"] < told.now_s["mean"]
    assert told.shares
    assert "Gain most:" in str(told)
    assert json.loads(json.dumps(told.to_dict(), allow_nan=False))["jobs"] == told.jobs


def test_jobs_that_could_never_run_are_counted():
    """A retired type takes its jobs along, and they are in no mean."""
    told = what_if(site(), [parse_edit("retire=V100")], ORACLE)
    assert told.rejected[1] > told.rejected[0]
    assert "could never run" in str(told)


def test_where_nobody_is_left_to_compare_one_sentence_says_so():
    """All nodes that anybody could run on are taken away, and one is left that nobody can use."""
    base = site(120)
    useless = NodeGroup(count=1, gpus=4, gpu_type="H100")
    base = replace(base, cluster=Cluster((base.cluster.groups[0], useless)))
    present = replay(base.jobs, base.cluster, base.pipeline, ORACLE, float(base.jobs.submit_s[90]))
    gone = [parse_edit("remove=2:V100")]
    with pytest.raises(InputError, match="with it and without it"):
        what_if_now(present, gone, rolls=2)
    with pytest.raises(InputError, match="with it and without it"):
        what_if(base, gone, ORACLE)


@pytest.mark.parametrize("text", ["add=2x4:V100", "remove=1:V100", "pipeline=saf + easy"])
def test_the_queue_of_a_moment(text):
    """Both futures are rolled under the same draws; more nodes never lengthen the wait, fewer never shorten it."""
    base = site(120)
    present = replay(base.jobs, base.cluster, base.pipeline, ORACLE, float(base.jobs.submit_s[90]))
    told = what_if_now(present, [parse_edit(text)], rolls=4)
    assert told.jobs <= len(present.waiting)
    if text.startswith("add"):
        assert told.difference.estimate <= 0
    if text.startswith("remove"):
        assert told.difference.estimate >= 0


def test_more_futures_do_not_make_the_one_that_comes_surer():
    """The interval is of single futures: ten times as many leave it about as wide, and it says so."""
    base = site(120)
    present = replay(base.jobs, base.cluster, base.pipeline, get_estimator("history"), float(base.jobs.submit_s[90]))
    few, many = (what_if_now(present, [parse_edit("add=1x4:V100")], rolls=rolls) for rolls in (12, 120))
    widths = [told.difference.high - told.difference.low for told in (few, many)]
    assert widths[1] > widths[0] / 2 > 0
    assert "in four futures of five" in many.sentence


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["remove=1:V100"], "taken away, idle ones first: "),
        (["remove =1:V100"], "taken away, idle ones first: "),
        (["retire=A100"], "taken away: "),
        (["drain=r1"], "taken away: "),
        (["drain=r1", "remove=1:A100"], "taken away, by remove= idle ones first: "),
        (["add=1x4:V100"], ""),
    ],
)
def test_only_who_chooses_among_nodes_says_which_come_first(texts, told):
    """A type that is retired, or a rack, is taken whole; nodes keep their numbers however a change is spaced."""
    base = site(120)
    present = replay(base.jobs, base.cluster, base.pipeline, ORACLE, float(base.jobs.submit_s[90]))
    notes = [note for note in what_if_now(present, list(map(parse_edit, texts)), rolls=1).notes if "taken away" in note]
    assert [note.startswith(told) for note in notes] == [True] * bool(told)


def test_another_load_is_for_a_history():
    """What waits now has been submitted."""
    base = site(60)
    present = replay(base.jobs, base.cluster, base.pipeline, ORACLE, float(base.jobs.submit_s[50]))
    with pytest.raises(InputError, match="history alone"):
        what_if_now(present, [parse_edit("load=+20%")], rolls=2)


def test_a_solved_target_holds_when_it_is_tried():
    """With so many nodes the target is met, with one fewer it is not."""
    here, target = site(), Target.parse("p90 wait < 20m for gpus>=2")
    found = solve(here, target, "4:V100", ORACLE)
    assert found.nodes is not None
    assert found.nodes > 0
    assert found.low <= found.nodes

    def p90(nodes):
        grown = Site(here.jobs, with_nodes(here.cluster, new_nodes(f"{nodes}x4:V100", "")), here.pipeline)
        schedule = run_site(grown, ORACLE)
        late = here.jobs.submit_s >= here.jobs.submit_s.min() + 0.2 * np.ptp(here.jobs.submit_s)
        return np.quantile(schedule.wait_s[late & (here.jobs.gpus >= 2)], 0.9)

    assert p90(found.nodes) <= 1200.0
    assert found.nodes == 1 or p90(found.nodes - 1) > 1200.0


def test_targets_that_are_not_understood_are_refused():
    """Before anything runs."""
    for text in ("p90 < 1h", "p80 wait < 1h", "p90 wait < soon", "p90 wait < 1h for size>=8"):
        with pytest.raises(InputError):
            Target.parse(text)


def test_more_work_than_the_nodes_can_do_is_said():
    """Waits then grow with the length of the history, and a mean means little; with enough nodes nothing is said."""
    told = what_if(site(), [parse_edit("add=20x4:V100")], ORACLE).notes
    grows = [note for note in told if note.endswith("waits grow for as long as that goes on")]
    assert len(grows) == 1
    assert grows[0].startswith("now 1")


def test_a_limit_takes_the_place_of_what_the_cluster_says_of_the_same():
    """So that one can be raised, too; others stay."""
    before = site()
    limits = (Limit(scope="user", name="u1", max_gpus=4, max_running=9), Limit(scope="vc", name="a", max_gpus=8))
    tight = replace(before, cluster=replace(before.cluster, limits=limits))
    after = parse_edit("limit=user:U1:gpus=12")(tight).cluster.limits
    assert [(o.name, o.max_gpus, o.max_running) for o in after] == [("u1", None, 9), ("a", 8, None), ("U1", 12, None)]
    assert parse_edit("cap=a:4")(tight).cluster.limits[-1].max_gpus == 4
    assert len(parse_edit("cap=a:4")(tight).cluster.limits) == 2
    theirs = np.array([user == "u1" for user in tight.jobs.user.to_list()])
    now, then = (run_site(one, ORACLE).wait_s[theirs] for one in (tight, parse_edit("limit=user:u1:gpus=12")(tight)))
    assert then.mean() < now.mean()


def test_a_limit_that_one_for_each_undoes_is_refused():
    before = site()
    each = replace(before, cluster=replace(before.cluster, limits=(Limit(scope="user", max_gpus=4),)))
    with pytest.raises(InputError, match="each user may have 4"):
        parse_edit("limit=user:u1:gpus=12")(each)
    assert parse_edit("limit=user:*:gpus=12")(each).cluster.limits == (Limit(scope="user", max_gpus=12),)


@pytest.mark.parametrize(("recorded", "told"), [(1.0, False), (9.0, True)])
def test_a_replay_far_from_the_record_says_so(recorded, told):
    """As compare does: of the same waits as recorded there is no word, of nine times as long ones there is."""
    before = site()
    waited = run_site(before, ORACLE).wait_s
    jobs = replace(before.jobs, recorded_start_s=before.jobs.submit_s + recorded * waited)
    made = what_if(replace(before, jobs=jobs), [parse_edit("add=1x4:V100")], ORACLE)
    assert any("do not read sizes of gains" in note for note in made.notes) == told
    said = r"recorded wait of these \d+ jobs, from when each could start: mean"
    assert any(re.match(said, note) for note in made.notes)
    solved = solve(replace(before, jobs=jobs), Target.parse("mean wait < 10d"), "4:V100", ORACLE)
    assert any("do not read sizes of gains" in note for note in solved.notes) == told


@pytest.mark.parametrize(("kind", "told"), [("v100", False), ("new:H100", True)])
def test_nodes_of_a_new_type_are_told(kind, told):
    """All jobs of this site name types, none of them H100."""
    notes = what_if(site(60), [parse_edit(f"add=1x4:{kind}")], ORACLE).notes
    said = "no node has GPU type H100 now (there are V100, A100): 0 of 60 jobs with GPUs may use it"
    assert any(note.startswith(said) for note in notes) == told


def test_who_gains_is_told_by_how_much():
    """Also where both waits look the same."""
    share = Share("size", "1 GPU", 90, 9_100.0, 9_000.0, (0.0, 0.0), (0.0, 0.0))
    waits = dict.fromkeys(("mean", "p50", "p90", "p99"), 1.0)
    made = WhatIf("c", "here", 120, waits, waits, Interval(0, 0, 0), Interval(1, 1, 1), (0.5, 0.5), (share,))
    assert "  size 1 GPU (90 jobs): 2.5 h -> 2.5 h (-100.0 s)" in made.lines()


def test_groups_are_told_once_and_who_gains_stands_beside_who_loses():
    """A group of all jobs tells nothing, and one that is the same jobs under another name is no other group."""

    def share(kind, name, jobs, now_s, then_s):
        return Share(kind, name, jobs, now_s, then_s, (now_s, then_s), (now_s, then_s))

    waits = dict.fromkeys(("mean", "p50", "p90", "p99"), 1.0)
    shares = (
        share("size", "1 GPU", 60, 600.0, 900.0),
        share("size", "2 GPUs", 30, 7200.0, 14_400.0),
        share("user", "ann", 30, 7200.0, 14_400.0),
        share("partition", "a", 90, 2800.0, 5400.0),
    )
    small = (SmallGroup("user", "bob", 3), SmallGroup("size", "3 to 4 GPUs", 4))
    made = WhatIf("c", "here", 90, waits, waits, Interval(0, 0, 0), Interval(1, 1, 1), (0.5, 0.5), shares, small=small)
    told = made.lines()
    begin = told.index("Gain most: no group")
    assert told[begin + 1 :] == [
        "Lose most:",
        "  size 2 GPUs, user ann (30 jobs): 2.0 h -> 4.0 h (+2.0 h)",
        "  size 1 GPU (60 jobs): 10.0 min -> 15.0 min (+5.0 min)",
        "Too few jobs to be a group of their own (under 20): 3 to 4 GPUs (4 jobs), 1 user",
    ]


def test_the_ratio_of_futures_is_that_of_the_sentence():
    """The means that the sentence tells, one over the other: not the mean of many ratios."""
    base = site(120)
    present = replay(base.jobs, base.cluster, base.pipeline, get_estimator("history"), float(base.jobs.submit_s[90]))
    told = what_if_now(present, [parse_edit("add=2x4:V100")], rolls=8)
    assert told.ratio.estimate == pytest.approx(told.then_s["mean"] / told.now_s["mean"])
    assert told.difference.low <= told.difference.estimate <= told.difference.high


def _rolled(monkeypatch, now_h, then_h):
    """Answer on futures in which all wait so many hours."""
    base = site(120)
    present = replay(base.jobs, base.cluster, base.pipeline, ORACLE, float(base.jobs.submit_s[90]))
    drawn = iter([now_h, then_h])

    def starts(*_, **__):
        hours = np.array(next(drawn))[:, None] * np.ones((1, len(present.jobs)))
        return present.now_s + 3600.0 * hours

    monkeypatch.setattr("rltune.whatif.on_present.drawn_starts", starts)
    return what_if_now(present, [parse_edit("add=2x4:V100")])


def test_a_few_futures_do_not_lead_the_answer(monkeypatch):
    """One future of 20 in which the queue grows without end carries the mean: the middle is told, and that it does."""
    told = _rolled(monkeypatch, [10.0] * 20, [9.0] * 19 + [1000.0])
    assert (told.now_s["mean"], told.then_s["mean"]) == pytest.approx((36_000.0, 32_400.0))
    assert told.difference.estimate == pytest.approx(-3600.0)
    assert told.ratio.estimate == pytest.approx(0.9)
    assert told.mean_difference_s == pytest.approx(3600.0 * (990 - 19) / 20)
    assert (
        "from 10.0 h to 9.0 h, 10.0 % less, in the middle of the futures (future by future -60.0 min in the middle, "
        in told.sentence
    )
    few = "a few futures, in which the queue grows far longer, carry the mean over all futures, +2.0 d"
    assert few in told.sentence
    assert all(share.then_s < share.now_s for share in told.shares)
    again = WhatIf.of_plain(json.loads(json.dumps(told.to_dict())))
    assert again.sentence == told.sentence == told.to_dict()["sentence"]


def test_a_mean_inside_of_what_the_futures_hold_is_not_told(monkeypatch):
    """No clause where no few futures carry anything."""
    assert "carry" not in _rolled(monkeypatch, [10.0] * 20, np.linspace(8.0, 9.0, 20)).sentence
