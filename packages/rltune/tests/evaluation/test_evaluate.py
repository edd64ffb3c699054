"""Held-out windows: what is run where, what is chosen by what, and that nothing is chosen on the test part."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from learn.looking import a_model
from rich.console import Console

from rltune import simulate
from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import parse_pipeline, read_pipeline
from rltune.errors import InputError
from rltune.estimate import History, Oracle
from rltune.evaluation import evaluate
from rltune.evaluation.choose import KINDS, admits
from rltune.evaluation.cross import cross
from rltune.evaluation.evaluation_tables import cross_table, evaluation_notes, tables
from rltune.parallel import Processes
from rltune.policy.learned import Learned
from rltune.trace import synthesise
from rltune.trials.measures import COMPARED, MEASURED
from rltune.trials.pipelines import line_up

HOW = {"holdout": 0.25, "size": 60, "every": 15, "contended_s": 500.0}
NET = Learned(a_model(), name="net")


@pytest.fixture(scope="module")
def plain(trace, cluster):
    return evaluate(trace, cluster, ["fcfs", "saf", "qssf"], ["none", "easy"], **HOW)


@pytest.fixture(scope="module")
def selected(trace, cluster):
    return evaluate(trace, cluster, ["saf", "srf", NET], ["none", "fit-first"], **HOW, select=True)


def text_of(evaluation, *, details=True):
    console = Console(width=200, file=io.StringIO())
    for table in tables(evaluation, details=details):
        console.print(table)
    return console.file.getvalue()


def test_windows_are_of_the_last_part_and_contended(plain, trace, cluster):
    """FCFS without backfilling waits longer than the threshold in each of them, and not in those left out."""
    assert plain.test.part.first == 1500
    for start in range(1500, 2000 - 60 + 1, 15):
        wait = simulate(trace.window(start, 60), cluster, "fcfs", estimator="oracle").wait_s.mean()
        assert (start in plain.test.starts) == (wait > 500)
    assert plain.test.looked_at == 30
    assert 15 < len(plain.test.starts) < 30


def test_values_are_those_of_warm_runs(plain, trace, cluster):
    """Each window knows all that had ended before it."""
    start = plain.test.starts[3]
    known = History().after(trace.window(0, start))
    run = simulate(trace.window(start, 60), cluster, "saf", "easy", estimator=known)
    row = plain.test.values[plain.test.index("saf + easy"), 3]
    assert row[0] == run.wait_s.mean()
    assert row[MEASURED.index("slowdown")] == run.bounded_slowdown.mean()


def test_ratios_are_of_means_over_the_same_windows(plain):
    """Against the reference, and against FCFS."""
    saf, fcfs = plain.test.index("saf"), plain.test.index("fcfs")
    wait = plain.test.values[:, :, 0]
    assert plain.reference == plain.fcfs == fcfs
    assert plain.test.ratio(saf, fcfs).estimate == pytest.approx(wait[saf].mean() / wait[fcfs].mean())
    assert plain.test.difference(saf, fcfs).estimate == pytest.approx(wait[saf].mean() - wait[fcfs].mean())
    assert plain.test.better_in(saf, fcfs) == (wait[saf] < wait[fcfs]).sum()
    same = plain.test.ratio(saf, saf)
    assert (same.estimate, same.low, same.high) == (1, 1, 1)


def test_groups_have_their_own_means_and_ratios(plain, trace):
    """By size and by VC, weighed by jobs; all groups together are the whole."""
    saf, fcfs = plain.test.index("saf"), plain.fcfs
    for grouping in range(2):
        jobs = plain.test.group_jobs(grouping)
        means = [plain.test.group_mean(saf, grouping, g) for g in plain.present(grouping)]
        whole = sum(n * m for n, m in zip(jobs[plain.present(grouping)], means, strict=True)) / jobs.sum()
        assert whole == pytest.approx(plain.test.mean(saf, "wait"))
        for g in plain.present(grouping):
            expected = plain.test.group_mean(saf, grouping, g) / plain.test.group_mean(fcfs, grouping, g)
            assert plain.test.group_ratio(saf, fcfs, grouping, g).estimate == pytest.approx(expected)
    assert np.isnan(plain.test.group_mean(saf, 0, 0))  # no job without GPUs


def test_both_sides_are_chosen_on_the_validation_part(selected):
    """The best of each side, without backfilling and with any."""
    means = selected.validation.means("wait")
    assert selected.validation.part.end == selected.test.part.first
    assert max(selected.validation.starts) + 60 <= selected.test.part.first
    assert [(c.side, c.kind) for c in selected.choices] == [(s, k) for k in KINDS for s in ("static", "learned")]
    for choice in selected.choices:
        rivals = [i for i, p in enumerate(selected.validation.pipelines) if admits(choice.side, choice.kind, p)]
        assert choice.pipeline == selected.validation.pipelines[min(rivals, key=lambda i: means[i])]
        assert choice.among == len(rivals)
        assert choice.value == min(means[rivals])


def test_only_what_was_chosen_is_run_on_the_test_part(selected):
    """And FCFS; the static choice is the reference."""
    chosen = {c.pipeline.label for c in selected.choices}
    assert set(selected.labels) == chosen | {"fcfs"}
    static = next(c for c in selected.choices if (c.side, c.kind) == ("static", KINDS[1]))
    assert selected.labels[selected.reference] == static.pipeline.label


def test_the_choice_does_not_depend_on_the_test_part(trace, cluster, selected):
    """Whatever its jobs are like."""
    longer = trace.duration_s.copy()
    longer[1500:] *= 5
    other = evaluate(
        trace.with_columns(duration_s=longer), cluster, ["saf", "srf", NET], ["none", "fit-first"], **HOW, select=True
    )
    assert [str(c) for c in other.choices] == [str(c) for c in selected.choices]
    assert [c.value for c in other.choices] == [c.value for c in selected.choices]
    assert other.test.values[0].tolist() != selected.test.values[0].tolist()


def test_pairs_set_the_learned_side_against_the_static_side(selected):
    """Kind by kind, in every metric."""
    assert [pair.kind for pair in selected.pairs] == list(KINDS)
    for pair in selected.pairs:
        ours, theirs = selected.test.index(pair.learned), selected.test.index(pair.static)
        assert pair.ratios["wait"] == selected.test.ratio(ours, theirs)
        assert set(pair.ratios) == set(COMPARED)


def test_utilisation_is_chosen_by_its_greatest(trace, cluster):
    """More is better there."""
    got = evaluate(trace, cluster, ["saf", "fcfs"], ["none", "easy"], **HOW, select=True, metric="utilisation")
    best = next(c for c in got.choices if c.kind == KINDS[1])
    assert best.value == got.validation.means("utilisation").max()


def test_processes_give_the_same(trace, cluster, selected):
    """Windows are spread over them, the results are not."""
    with Processes(2) as spread:
        two = evaluate(trace, cluster, ["saf", "srf", NET], ["none", "fit-first"], **HOW, select=True, spread=spread)
    assert two.to_dict() == selected.to_dict()


def test_jobs_out_of_order_are_evaluated_in_order(trace, cluster):
    """With estimates given job by job, too."""
    apart = trace.with_columns(submit_s=trace.submit_s + np.arange(len(trace)) / 1000)  # no two at once
    mixed = apart.take(np.random.default_rng(0).permutation(len(trace)))
    told = evaluate(mixed, cluster, ["saf"], **HOW, estimator=mixed.duration_s)
    oracle = evaluate(apart, cluster, ["saf"], **HOW, estimator="oracle")
    assert told.test.values.tolist() == oracle.test.values.tolist()


def test_a_pipeline_is_named_by_what_differs_from_the_plainest(trace, cluster):
    """FCFS, which tells contention, places by best fit whatever others do."""
    got = evaluate(trace, cluster, ["fcfs", "saf"], ["none", "easy"], ["spread"], **HOW)
    assert got.labels == ["fcfs", "fcfs, spread", "fcfs + easy, spread", "saf, spread", "saf + easy, spread"]
    assert str(got.test.pipelines[0].placement) == "best-fit"


def test_a_baseline_may_be_any_pipeline(trace, cluster):
    """Or a policy, for its first pipeline."""
    got = evaluate(trace, cluster, ["saf", "srf"], ["none", "easy"], **HOW, baseline="srf + easy")
    assert got.labels[got.reference] == "srf + easy"
    with pytest.raises(InputError, match="no pipeline 'lifo'"):
        evaluate(trace, cluster, ["saf"], **HOW, baseline="lifo")


def test_what_cannot_be_evaluated_is_said(trace, cluster):
    """Before a long run, and with what to do."""
    with pytest.raises(InputError, match="listed twice: saf"):
        evaluate(trace, cluster, ["saf", "saf"], **HOW)
    with pytest.raises(InputError, match="nothing to compare"):
        evaluate(trace, cluster, [], **HOW)
    with pytest.raises(InputError, match="no metric 'makespan'"):
        evaluate(trace, cluster, ["saf"], **HOW, metric="makespan")
    with pytest.raises(InputError, match="from an idle cluster"):
        evaluate(trace, cluster, ["saf"], **{**HOW, "contended_s": 1e9})


def test_progress_is_told_part_by_part(trace, cluster):
    """Window by window."""
    told = []
    evaluate(trace, cluster, ["saf"], **HOW, select=True, progress=lambda *a: told.append(a))
    assert told[0] == (1, 30, "validation part")
    assert told[-1] == (30, 30, "test part")


def test_tables_and_notes_say_what_was_done(selected, plain):
    """How many windows, how many of them disjoint, chosen where, and how intervals were made."""
    text = text_of(selected)
    for part in (
        f"{len(selected.test.starts)} contended windows of 60 ({selected.test.disjoint} disjoint)",
        "learned, without backfilling",
        "static, with any backfilling",
        "chosen on the validation part, then frozen",
        "nothing was chosen on the test part",
        "5 to 8 GPUs",
        "blocks of time",
    ):
        assert part in text
    assert "validation" not in text_of(plain)
    assert "mean wait by VC" in text_of(plain)
    assert "mean wait by VC" not in text_of(plain, details=False)


def test_estimates_that_nobody_has_are_said(trace, cluster):
    """So are errors that stay with a job, and windows too few for intervals."""
    for estimator, note in (("oracle", "true run times"), ("noisy:1", "one error")):
        got = evaluate(trace, cluster, ["saf"], **HOW, estimator=estimator)
        assert any(note in line for line in evaluation_notes(got))
    few = evaluate(trace, cluster, ["saf"], **{**HOW, "size": 400})
    assert any("are too few" in line for line in evaluation_notes(few))
    assert np.isnan(few.test.ratio(1, 0).low)


def test_a_model_that_met_what_it_was_not_trained_on_is_said(trace, cluster):
    """Its results are then partly its base policy's."""
    norm = NET.model.norm.copy()
    norm[:, 2:] = 0.0  # it has seen nothing but zeros
    got = evaluate(trace, cluster, [NET, Learned(replace(NET.model, norm=norm), name="narrow")], **HOW)
    (told,) = (line for line in evaluation_notes(got) if "of jobs unlike its training" in line)
    assert "scores asked of narrow were" in told
    assert told.startswith("100.0 %")
    assert not any(drift["scores_outside_training"] for drift in got.test.drift[:2])


def test_jobs_that_cannot_run_are_said(trace, cluster):
    """They are in no mean."""
    gpus = trace.gpus.copy()
    gpus[1700] = 99
    got = evaluate(trace.with_columns(gpus=gpus), cluster, ["saf"], **HOW)
    assert any("can never run" in line for line in evaluation_notes(got))


def test_json_holds_everything(selected):
    """As plain values."""
    told = json.loads(json.dumps(selected.to_dict(), allow_nan=False))
    assert told["test"]["disjoint"] == selected.test.disjoint
    assert len(told["choices"]) == 4
    assert {pair["kind"] for pair in told["pairs"]} == set(KINDS)
    standing = told["test"]["standings"][1]
    assert {"ratio", "ratio_to_fcfs", "by_size", "by_vc"} <= standing.keys()
    assert len(told["test"]["mean_wait_s_by_window"]["fcfs"]) == len(selected.test.starts)


def test_a_model_is_told_from_rules_and_own_functions():
    """By what it is, not by its name."""
    assert parse_pipeline(NET).learned
    assert not any(parse_pipeline(p).learned for p in ("fcfs", lambda queue: queue.submit_s))


@pytest.mark.parametrize(
    ("pipeline", "alone", "all_there_is"),
    [
        (parse_pipeline("saf"), "static", "static"),
        (parse_pipeline("saf+guard:24h", "none", "spread"), "static", "static"),
        (parse_pipeline("saf", "easy"), None, "static"),
        (parse_pipeline("saf+search:8"), None, "learned"),
        (parse_pipeline("saf", "none", "milp:8"), None, "learned"),
        (parse_pipeline(NET), "learned", "learned"),
        (parse_pipeline(NET, "easy"), None, "learned"),
        (parse_pipeline(NET, "none", "milp"), None, "learned"),
        (parse_pipeline(NET, search=8), None, "learned"),
        (parse_pipeline(NET, guard="24h"), "learned", "learned"),
    ],
)
def test_a_pipeline_stands_for_one_side_at_most(pipeline, alone, all_there_is):
    """Search and solver are no static rules, nor are they the network's own merit."""
    for kind, side in zip(KINDS, (alone, all_there_is), strict=True):
        assert [s for s in ("static", "learned") if admits(s, kind, pipeline)] == ([side] if side else [])


@pytest.mark.parametrize("label", ["saf", "saf + easy", "saf, milp:8", "learned:mixed+search:8 + fit-first, milp"])
def test_a_pipeline_is_read_as_it_is_named(label):
    """So whoever sees one in a table can ask for it."""
    assert read_pipeline(label).label == label
    assert [p.label for p in line_up(["fcfs"], ["none"], ["best-fit"], [label])] == ["fcfs", label]


@pytest.mark.parametrize("text", ["", "saf + soon", "saf, best-fit, milp"])
def test_what_is_no_pipeline_is_refused(text):
    """The sentence shows how one is written."""
    with pytest.raises(InputError, match="as in 'saf \\+ easy, milp:8'"):
        read_pipeline(text)


def test_estimates_are_made_once_a_window_for_all_pipelines(trace, cluster):
    """Growing trees takes seconds; FCFS without backfilling asks for none."""
    asked = []

    class Counting(Oracle):
        def estimate(self, jobs, seed):
            asked.append(jobs.id[0])
            return super().estimate(jobs, seed)

    got = evaluate(trace, cluster, ["saf", "srf"], ["none", "easy"], **HOW, estimator=Counting())
    assert asked == list(got.test.starts)


def test_better_knowledge_is_told_from_a_better_policy(trace, cluster):
    """Each side with its own estimator, and both with the better one."""
    how = {**HOW, "select": True}
    made = [evaluate(trace, cluster, ["saf", NET], ["none", "easy"], estimator=e, **how) for e in ("history", "oracle")]
    crossed = cross(made)
    assert len(crossed) == 2 * 4 * 2
    for c in crossed:
        one, other = (made[e == "oracle"] for e in (c.estimator, c.against_estimator))
        expected = one.test.mean(one.test.index(c.pipeline), "wait") / other.test.mean(
            other.test.index(c.against), "wait"
        )
        assert c.ratio.estimate == pytest.approx(expected)
        if c.estimator == c.against_estimator:
            assert c.ratio == one.test.ratio(one.test.index(c.pipeline), one.test.index(c.against))
    console = Console(width=200, file=io.StringIO())
    console.print(cross_table(made))
    assert "over the static choice with oracle" in console.file.getvalue()


def test_an_evaluation_on_the_committed_machine_runs_all_there_and_says_so():
    """The reference, too: in commit mode FCFS is not FCFS as ever."""
    cluster = Cluster.uniform(4, 8)
    jobs = synthesise("philly", 1500, seed=3, load=1.5, cluster=cluster)
    how = {"windows": "100:every=50:contended=1", "estimator": "oracle"}
    committed, ordinary = (evaluate(jobs, cluster, ["sjf"], ["shadow"], commit=c, **how) for c in (True, False))
    assert "commit mode" in str(committed)
    assert "commit mode" not in str(ordinary)
    assert committed.to_dict() != ordinary.to_dict()
