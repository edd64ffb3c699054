import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from rltune import simulate
from rltune.cluster import Cluster
from rltune.engine.run import run_pipeline
from rltune.errors import InputError
from rltune.estimate import History
from rltune.evaluation import METRICS, Comparison, Steady, WindowSpec, compare
from rltune.evaluation.comparison_tables import comparison_notes, interval
from rltune.jobs import Jobs
from rltune.metrics.formats import seconds
from rltune.policy.qssf import Qssf
from rltune.trials.intervals import Interval

CLUSTER = Cluster.uniform(4, 4)


@pytest.fixture(scope="module")
def jobs():
    rng, n = np.random.default_rng(5), 700
    return Jobs.from_arrays(
        submit_s=np.sort(rng.uniform(0, 60_000, n)),
        duration_s=rng.lognormal(6, 1.3, n),
        gpus=rng.choice([1, 2, 4, 8, 40], n, p=[0.5, 0.2, 0.15, 0.145, 0.005]),
        user=rng.integers(0, 9, n),
        vc=rng.integers(0, 3, n),
    )


@pytest.fixture(scope="module")
def result(jobs):
    return compare(
        jobs, CLUSTER, ["fcfs", "saf"], backfills=["none", "easy"], windows=WindowSpec(6, 100), estimator="oracle"
    )


def text_of(*tables):
    console = Console(width=180, file=io.StringIO())
    for table in tables:
        console.print(table)
    return console.file.getvalue()


def test_every_contender_runs_on_every_window(result):
    assert [s.label for s in result.standings] == ["fcfs", "fcfs + easy", "saf", "saf + easy"]
    assert len(result.runs) == result.planned == 24
    assert result.complete
    assert all(s.windows == 6 for s in result.standings)


def test_differences_are_paired_with_the_first(result):
    fcfs, saf = result.standings[0], result.standings[2]
    by_window = [METRICS["wait"].of(r.summary) for r in result.runs if r.contender == 2]
    assert saf.value == pytest.approx(np.mean(by_window))
    assert saf.difference.estimate == pytest.approx(saf.value - fcfs.value)
    assert saf.ratio.estimate == pytest.approx(saf.value / fcfs.value)
    assert saf.difference.low <= saf.difference.estimate <= saf.difference.high
    assert (fcfs.difference.estimate, fcfs.difference.low, fcfs.difference.high, fcfs.better_in) == (0, 0, 0, 0)


def test_no_contender_is_below_the_bound(result):
    assert all(s.gap >= 0 for s in result.standings)
    assert len({s.bound_jct_s for s in result.standings}) == 1


def test_another_baseline_needs_no_new_run(result):
    other = result.against("saf + easy", metric="jct")
    assert other.standings[3].difference.estimate == 0
    assert other.standings[0].difference.estimate > 0
    with pytest.raises(InputError, match="there are: fcfs, fcfs"):
        result.against("lifo")


def test_one_and_two_workers_give_the_same(jobs, result):
    two = compare(
        jobs,
        CLUSTER,
        ["fcfs", "saf"],
        backfills=["none", "easy"],
        windows=WindowSpec(6, 100),
        workers=2,
        estimator="oracle",
    )
    assert two.to_json() == result.to_json()
    assert all(
        np.array_equal(a.schedule.start_s, b.schedule.start_s, equal_nan=True)
        for a, b in zip(two.runs, result.runs, strict=True)
    )


def test_whole_trace_gets_block_intervals_for_means_over_jobs(jobs):
    whole = compare(jobs, CLUSTER, ["fcfs", "saf"], estimator="oracle")
    saf = whole.standings[1]
    assert saf.difference.low < saf.difference.estimate < saf.difference.high
    assert np.isnan(whole.against("fcfs", metric="makespan").standings[1].difference.low)
    assert "over blocks of time" in text_of(whole.table())


def test_steady_state_measures_its_interval_only(jobs):
    steady = compare(jobs, CLUSTER, ["fcfs", "saf"], windows=Steady(0.25), estimator="oracle")
    begin, end = steady.windows[0].interval_s
    run = steady.runs[0]
    inside = (jobs.submit_s >= begin) & (jobs.submit_s < end) & run.schedule.ran
    assert steady.standings[0].wait_s.n == inside.sum() < len(jobs)
    assert steady.standings[0].value == pytest.approx(run.schedule.wait_s[inside].mean())
    assert run.summary.utilisation.span_s == (begin, end)


def test_contended_windows_are_found_by_simulation(jobs):
    got = compare(jobs, CLUSTER, ["fcfs"], windows=WindowSpec(3, 50, min_wait_s=1.0), estimator="oracle")
    assert all(r.summary.wait_s.mean > 1 for r in got.runs)
    assert any("contended" in note for note in got.notes)


def test_a_table_shows_intervals_bound_and_what_was_left_out(result):
    text = text_of(result.table(), result.details())
    for part in (
        "mean wait",
        "[",
        "gap to bound",
        "baseline",
        "jobs never ran",
        "true run times",
        "p99",
        "wait, large jobs",
    ):
        assert part in text


def test_json_holds_the_standings_and_every_run(result, tmp_path):
    data = json.loads(result.to_json(tmp_path / "r.json"))
    assert json.loads((tmp_path / "r.json").read_text()) == data
    assert len(data["standings"]) == 4
    assert len(data["runs"]) == 24
    assert data["runs"][0]["settings"]["estimator"] == "oracle"


def test_parquet_holds_every_job_of_every_run(result, tmp_path):
    result.write_jobs(tmp_path / "jobs.parquet")
    table = pl.read_parquet(tmp_path / "jobs.parquet")
    assert len(table) == 24 * 100
    run = result.runs[3]
    part = table.filter((pl.col("pipeline") == "saf + easy") & (pl.col("window") == 0))
    assert part["start_s"].fill_null(np.nan).to_numpy() == pytest.approx(run.schedule.start_s, nan_ok=True)
    placed = [[node for node, _ in chunks] for chunks in run.schedule.placements]
    assert [nodes or [] for nodes in part["nodes"].to_list()] == placed


def test_an_interrupt_gives_what_is_done_and_says_so(jobs):
    def progress(done, total, label):
        if done == 5:
            raise KeyboardInterrupt

    part = compare(jobs, CLUSTER, ["fcfs", "saf"], windows=WindowSpec(6, 100), progress=progress, estimator="oracle")
    assert len(part.runs) == 5
    assert not part.complete
    assert [s.windows for s in part.standings] == [3, 2]
    assert "Interrupted: 5 of 12 runs" in text_of(part.table())


def test_an_interrupt_before_anything_is_done_goes_on(jobs, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("rltune.trials.trial.run_pipeline", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compare(jobs, CLUSTER, ["fcfs"], estimator="oracle")


def test_progress_is_told(jobs):
    seen = []
    compare(jobs, CLUSTER, ["fcfs"], windows=WindowSpec(2, 50), progress=lambda *a: seen.append(a), estimator="oracle")
    assert seen == [(1, 2, "fcfs"), (2, 2, "fcfs")]


def test_jobs_out_of_order_are_compared_in_order(jobs, result):
    mixed = jobs.take(np.random.default_rng(0).permutation(len(jobs)))
    got = compare(mixed, CLUSTER, ["fcfs", "saf"], windows=WindowSpec(6, 100), estimator="oracle")
    assert got.standings[1].value == pytest.approx(result.standings[2].value)


def test_given_estimates_follow_their_jobs(jobs):
    """Estimates that are the truth give what the oracle gives, in windows and out of order too."""
    mixed = jobs.take(np.random.default_rng(0).permutation(len(jobs)))
    spec = WindowSpec(3, 100)
    told = compare(mixed, CLUSTER, ["sjf"], windows=spec, estimator=mixed.duration_s)
    assert (
        told.standings[0].value == compare(jobs, CLUSTER, ["sjf"], windows=spec, estimator="oracle").standings[0].value
    )


def test_finished_schedules_compare_too(jobs):
    made = [simulate(jobs, CLUSTER, policy, estimator="oracle") for policy in ("fcfs", "sjf")]
    got = Comparison.of_schedules(made)
    assert [s.label for s in got.standings] == ["fcfs", "sjf"]
    assert got.standings[1].difference.estimate < 0
    with pytest.raises(InputError):
        Comparison.of_schedules([])


def test_what_cannot_be_compared_is_said(jobs):
    with pytest.raises(InputError, match="listed twice: fcfs"):
        compare(jobs, CLUSTER, ["fcfs", "fcfs"], estimator="oracle")
    with pytest.raises(InputError, match="no metric 'fun'"):
        compare(jobs, CLUSTER, ["fcfs"], metric="fun", estimator="oracle")
    with pytest.raises(InputError, match="at least one policy"):
        compare(jobs, CLUSTER, [], estimator="oracle")


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_can_be_compared_by(result, metric):
    standing = result.against("fcfs", metric=metric).standings[3]
    assert np.isfinite(standing.difference.estimate)
    assert np.isfinite(standing.difference.low)


def losing(jobs, cluster, pipeline, estimator, **how):
    """Reject one job more under saf."""
    made = run_pipeline(jobs, cluster, pipeline, estimator, **how)
    if pipeline.policy.name == "fcfs":
        return made
    rejected = made.rejected.copy()
    rejected[np.argmin(rejected)] = True
    return replace(made, rejected=rejected)


def test_pipelines_that_ran_different_jobs_are_told_apart(jobs, result, monkeypatch):
    monkeypatch.setattr("rltune.trials.trial.run_pipeline", losing)
    got = compare(jobs, CLUSTER, ["fcfs", "saf"], windows=WindowSpec(6, 100), estimator="oracle")
    assert "In 6 window(s) the pipelines ran different jobs" in text_of(got.table())
    assert "different jobs" not in text_of(result.table())


def test_an_interval_is_written_in_one_unit():
    assert interval(Interval(-30.0, -7200.0, 60.0), seconds) == "-30.0 [-7,200.0, 60.0] s"
    assert interval(Interval(300.0, 120.0, 600.0), seconds, sign=True) == "+5.0 [2.0, 10.0] min"
    assert interval(Interval(0.5, np.nan, np.nan), seconds) == "0.5 s"


def test_an_end_that_is_not_zero_is_not_written_as_zero():
    assert interval(Interval(-16_200.0, -90_000.0, -40.0), seconds) == "-4.5 [-25.0, -0.01] h"
    assert interval(Interval(-16_200.0, -90_000.0, 0.0), seconds) == "-4.5 [-25.0, 0.0] h"


def test_two_waits_of_zero_have_no_ratio():
    idle = compare(Jobs.from_arrays(np.arange(200) * 100.0, 1, 1), CLUSTER, ["fcfs", "saf"], estimator="oracle")
    assert np.isnan(idle.standings[1].ratio.estimate)
    text = text_of(idle.table())
    assert "nan" not in text
    assert "0.0 [0.0, 0.0] s" in text


def test_intervals_are_explained_only_where_they_are_shown(jobs, result):
    def said(comparison):
        return [note for note in comparison_notes(comparison) if "interval" in note]

    assert said(result) == ["[low, high]: 95% intervals, Student's t, paired by window."]
    assert said(Comparison.of_schedules([simulate(jobs, CLUSTER, estimator="oracle")])) == []
    few = compare(jobs, CLUSTER, ["fcfs", "saf"], windows=WindowSpec(2, 50), estimator="oracle")
    assert said(few) == ["There are no intervals: 2 windows are too few, 3 are the least."]
    whole = compare(jobs, CLUSTER, ["fcfs", "saf"], metric="makespan", estimator="oracle")
    assert said(whole) == ["There are no intervals: one run gives none for this metric."]
    small = compare(jobs.window(0, 20), CLUSTER, ["fcfs", "saf"], estimator="oracle")
    assert said(small) == ["There are no intervals: the jobs are too few."]


def same_starts(one, other):
    """Tell run by run whether all jobs start at the same times."""
    starts = [(a.schedule.start_s, b.schedule.start_s) for a, b in zip(one.runs, other.runs, strict=True)]
    return [np.array_equal(a, b, equal_nan=True) for a, b in starts]


def test_a_warm_window_knows_the_jobs_before_it_and_no_other(jobs):
    """It is what a run makes of it that is given those jobs, and no others, to learn from."""
    how = {"windows": WindowSpec(3, 100), "estimator": "history"}
    warm = compare(jobs, CLUSTER, ["saf", "qssf"], warm=True, **how)
    assert [s.label for s in warm.standings] == ["saf", "qssf"]
    assert warm.runs[0].schedule.settings.estimator == "history-warm"
    for run in warm.runs:
        first = warm.windows[run.window].first
        before, part = jobs.window(0, first), jobs.window(first, 100)
        policy = Qssf().after(before) if run.contender else "saf"
        alone = simulate(part, CLUSTER, policy, estimator=History().after(before))
        np.testing.assert_array_equal(run.schedule.start_s, alone.start_s)
    cold = compare(jobs, CLUSTER, ["saf", "qssf"], **how)
    assert same_starts(warm, cold) == [True, True, False, False, False, False]  # nothing is before the first window


def test_a_job_has_one_error_whatever_window_it_is_seen_in(jobs):
    """Noisy estimates belong to the job, in windows that share it and in the whole trace alike."""
    whole = compare(jobs, CLUSTER, ["sjf"], estimator="noisy").runs[0].schedule
    for run in compare(jobs, CLUSTER, ["sjf"], windows=WindowSpec(3, 100), estimator="noisy").runs:
        first = whole.jobs.id.tolist().index(run.schedule.jobs.id[0])
        np.testing.assert_array_equal(run.schedule.estimate_s, whole.estimate_s[first : first + 100])


def test_schedules_of_one_pipeline_are_told_apart_by_what_differs(jobs):
    """No two contenders have one name."""
    made = [
        simulate(jobs, CLUSTER, "saf", estimator=e, view=v) for e, v in (("oracle", 0), ("history", 0), ("history", 9))
    ]
    labels = [s.label for s in Comparison.of_schedules([*made, made[0]]).standings]
    assert labels == [
        "saf (estimator oracle, view 0) #1",
        "saf (estimator history, view 0)",
        "saf (estimator history, view 9)",
        "saf (estimator oracle, view 0) #2",
    ]


def test_a_pipeline_has_one_name_in_every_command(jobs):
    """As `rltune evaluate` names it."""
    got = compare(jobs, CLUSTER, ["saf"], ["easy"], ["spread"], estimator="oracle")
    assert [s.label for s in got.standings] == ["saf + easy, spread"]
    assert Comparison.of_schedules([got.runs[0].schedule]).standings[0].label == "saf + easy, spread"


def test_a_warm_window_does_not_depend_on_what_comes_later(jobs):
    longer = jobs.duration_s.copy()
    longer[400:] *= 7
    how = {"windows": WindowSpec(3, 100), "estimator": "history", "warm": True}
    one, other = (compare(j, CLUSTER, ["qssf"], **how) for j in (jobs, jobs.with_columns(duration_s=longer)))
    assert same_starts(one, other) == [True, True, False]


def test_a_warm_start_is_said_and_a_cold_one_too(jobs):
    how = {"windows": WindowSpec(3, 100), "estimator": "history", "backfills": ["none", "easy"]}
    warm = comparison_notes(compare(jobs, CLUSTER, ["saf", "qssf"], warm=True, **how))
    assert (
        "Warm start: estimator history, policy qssf began each window with what had ended before it, "
        "the same for all pipelines." in warm
    )
    assert "The window at the trace's beginning has no job before it." in warm
    assert not any("nothing learnt" in note for note in warm)
    cold = comparison_notes(compare(jobs, CLUSTER, ["saf"], **how))
    assert any("nothing learnt" in note for note in cold)
    assert not any("Warm" in note for note in cold)


def test_a_warm_start_that_cannot_be_is_refused(jobs):
    for whole in (None, Steady(0.2)):
        with pytest.raises(InputError, match="needs jobs before those that are run"):
            compare(jobs, CLUSTER, ["saf"], windows=whole, estimator="history", warm=True)
    with pytest.raises(InputError, match="neither estimator oracle nor a policy learns"):
        compare(jobs, CLUSTER, ["saf"], windows=WindowSpec(3, 100), warm=True, estimator="oracle")


def test_a_history_of_one_s_own_is_kept_in_a_warm_window(jobs):
    own = History().after(jobs.window(0, 10))
    got = compare(jobs, CLUSTER, ["qssf"], windows=WindowSpec(2, 50), estimator=own, warm=True)
    assert any(note.startswith("Warm start: policy qssf began") for note in got.notes)


def test_a_script_without_a_guard_gets_a_sentence_and_does_not_hang(tmp_path):
    """Workers run the script again; that fails in each of them, and the parent must hear of it."""
    script = tmp_path / "bare.py"
    script.write_text(
        "import numpy as np\n"
        "from rltune.cluster import Cluster\n"
        "from rltune.evaluation import compare\n"
        "from rltune.jobs import Jobs\n"
        "n = 50_000\n"
        "compare(Jobs.from_arrays(np.arange(n), 1, 1), Cluster.uniform(1, 1), ['fcfs', 'saf'], workers=2)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=False)
    assert "outside `if __name__" in done.stderr


INTERRUPTED = """
import signal
import time
import numpy as np
from rltune import Cluster, Jobs
from rltune.evaluation import WindowSpec
from rltune.evaluation import compare

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who is started in the background is deaf to it
    rng = np.random.default_rng(0)
    jobs = Jobs.from_arrays(np.arange(20_000) * 60.0, rng.exponential(900, 20_000), 1)
    def told(done, total, label):
        print(done, flush=True)
        if done == 4:
            time.sleep(60)  # until the interrupt: a starved parent may find all done, while its workers go on
    got = compare(jobs, Cluster.uniform(4, 4), ["fcfs"], windows=WindowSpec(1_000, 15_000), workers=2, progress=told)
    print("partial", got.complete, len(got.runs) == got.standings[0].windows > 0)
"""


def test_ctrl_c_with_workers_ends_soon_with_what_is_done(tmp_path):
    """As from a terminal: parent and workers get the signal, some of them while they send a result."""
    script = tmp_path / "compare.py"
    script.write_text(INTERRUPTED)
    run = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    while run.stdout.readline().strip() != "4":
        assert run.poll() is None
    os.killpg(run.pid, signal.SIGINT)
    out, _ = run.communicate(timeout=300)
    assert out.splitlines()[-1] == "partial False True"


def test_each_pipeline_may_know_run_times_in_its_own_way(jobs):
    """Each has the starts that it has alone; labels say what each knows, and one pipeline may be there twice."""
    both = compare(
        jobs, CLUSTER, (), pipelines=["sjf + easy", "sjf + easy"], estimators=[None, "oracle"],
        windows="whole", estimator="history", baseline="sjf + easy",
    )  # fmt: skip
    assert [c.label for c in both.contenders] == ["sjf + easy (history)", "sjf + easy (oracle)"]
    for run, known in zip(both.runs, ("history", "oracle"), strict=True):
        alone = simulate(jobs.sorted(), CLUSTER, "sjf", "easy", estimator=known)
        np.testing.assert_array_equal(run.schedule.start_s, alone.start_s)
    assert "estimates: history and oracle, as named" in text_of(both.table()).replace("\n", " ")
    with pytest.raises(InputError, match="listed twice"):
        compare(jobs, CLUSTER, (), pipelines=["sjf", "sjf"], estimators=["oracle", "oracle"])
    for wrong in (["oracle"], ["oracle"] * 3):
        with pytest.raises(InputError, match=f"estimators holds {len(wrong)} for 2 pipelines; give one a pipeline"):
            compare(jobs, CLUSTER, (), pipelines=["sjf", "saf"], estimators=wrong)
    for wrong in ([np.ones(len(jobs)), None], "oracle"):
        with pytest.raises(InputError, match="estimators holds names, or None, one a pipeline"):
            compare(jobs, CLUSTER, (), pipelines=["sjf", "saf"], estimators=wrong)
