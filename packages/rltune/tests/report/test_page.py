"""The report: self-contained, safe with any name, small enough, and alive in a browser."""

import html
import json
import re
import shutil
import subprocess
from base64 import b64decode

import numpy as np
import pytest

from rltune import simulate
from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.evaluation import Comparison, Steady, WindowSpec, compare
from rltune.jobs import Jobs
from rltune.report import render, write_report
from rltune.report.chart_data import page_data

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NASTY = "</script><script>alert(1)</script>&<b>"
CLUSTER = Cluster.uniform(6, 8)


def workload(n, seed=0, load=1.0):
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 4, 8, 16], n, p=[0.55, 0.15, 0.1, 0.15, 0.05])
    duration = rng.lognormal(6, 1.2, n)
    length = float((gpus * duration).sum()) / CLUSTER.gpu_count / load
    names = np.array(["ann", "bob", NASTY])
    return Jobs.from_arrays(
        submit_s=np.sort(rng.uniform(0, length, n)),
        duration_s=duration,
        gpus=gpus,
        user=names[rng.integers(0, 3, n)],
        vc=rng.integers(0, 30, n),
    )


@pytest.fixture(scope="module")
def result():
    return compare(
        workload(1500),
        CLUSTER,
        ["fcfs", "saf"],
        backfills=["none", "easy"],
        windows=WindowSpec(6, 200),
        estimator="oracle",
    )


@pytest.fixture(scope="module")
def page(result):
    return render(result, trace=f"trace {NASTY}")


def test_nothing_from_outside_is_referenced(page):
    without_namespace = page.replace("http://www.w3.org/2000/svg", "")
    for pattern in (
        r"https?:",
        r"\bsrc\s*=",
        r"<link",
        r"@import",
        r"url\(",
        r"<iframe",
        r"\bfetch\(",
        r"XMLHttpRequest",
    ):
        assert not re.search(pattern, without_namespace), pattern


def test_names_cannot_break_out_of_the_page(page):
    assert NASTY not in page
    assert "alert(1)</script>" not in page
    assert html.escape(NASTY, quote=False) in page


def test_the_tables_are_there_without_scripts(page):
    text = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    for part in (
        "gap to bound",
        "saf + easy",
        "p99",
        "Jain",
        "9 to 16 GPUs",
        "oracle",
        "6 windows of 200 jobs",
        "10 smaller VCs",
    ):
        assert part in text, part


def test_charts_cover_every_window_and_begin_with_eight_series(result):
    """Means over windows are those of the runs; of many contenders the best and the baseline are drawn at first."""
    data = page_data(result, 0, 1000)
    waits = np.array([unpacked(row) for row in data["by_window"]["wait"]])
    for run in result.runs:
        assert waits[run.contender, run.window] == pytest.approx(run.summary.wait_s.mean, rel=1e-5)
    mean, *windows = data["times"]
    assert len(windows) == len(result.windows) == 6
    each = [[unpacked(line["use"]) for line in time["lines"]] for time in windows]
    assert np.allclose([unpacked(line["use"]) for line in mean["lines"]], np.mean(each, axis=0), atol=1e-5)
    names = ["fcfs", "sjf", "saf", "wfp3", "f1"]
    many = compare(workload(300), CLUSTER, names, ["none", "easy"], windows=None, estimator="oracle", baseline="fcfs")
    shown = page_data(many, 0, 1000)["shown"]
    assert len(shown) == 8
    assert many.baseline in shown
    left = {many.contenders[i].label for i in range(10) if i not in shown}
    worst = sorted((s.value, s.label) for s in many.standings if s.label != "fcfs")[-2:]
    assert left == {label for _, label in worst}


def unpacked(packed):
    return np.frombuffer(b64decode(packed["b"]), dtype=np.float32)


def test_the_same_comparison_gives_the_same_page(result):
    assert render(result) == render(result)


def test_ten_thousand_jobs_stay_under_three_megabytes():
    jobs = workload(10_000, load=0.9)
    result = compare(jobs, CLUSTER, ["fcfs", "sjf", "saf", "wfp3"], backfills=["none", "easy"], estimator="oracle")
    assert len(render(result).encode()) < 3_000_000


def test_more_jobs_than_a_gantt_holds_are_said():
    jobs = workload(30_000, load=0.8)
    made = Comparison.of_schedules([simulate(jobs, CLUSTER, "saf", estimator="oracle")])
    page = render(made)
    assert "of 30,000 jobs: all that run in the stretch" in page
    assert len(page.encode()) < 3_000_000


def test_one_schedule_steady_state_and_no_names_have_a_report(tmp_path):
    jobs = Jobs.from_arrays(np.arange(50) * 10.0, 100, 1)
    write_report(Comparison.of_schedules([simulate(jobs, CLUSTER, estimator="oracle")]), tmp_path / "a" / "one.html")
    one = (tmp_path / "a" / "one.html").read_text()
    assert "One pipeline was run, fcfs: mean wait 0.0 s." in one
    assert "Nothing beats" not in one
    assert "resamples" not in one
    steady = render(compare(jobs, CLUSTER, ["fcfs", "sjf"], windows=Steady(0.5), estimator="oracle"))
    assert "measured interval" in steady
    assert "<h2>By VC</h2>" not in steady


def test_an_interrupted_comparison_says_so_first():
    def progress(done, total, label):
        if done == 3:
            raise KeyboardInterrupt

    part = compare(
        workload(400), CLUSTER, ["fcfs", "saf"], windows=WindowSpec(4, 100), progress=progress, estimator="oracle"
    )
    assert "<li>Interrupted: 3 of 8 runs" in render(part)


def test_what_cannot_be_written_or_shown_is_said(result, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(result, tmp_path / "file" / "r.html")
    with pytest.raises(InputError, match="window 99"):
        render(result, window=99)


POKE = """<script>
const began = performance.now();
for (let i = 0; i < 10; i++) gantt.paint();
const each = (performance.now() - began) / 10;
const box = gantt.canvas.getBoundingClientRect();
const t = gantt.run.start[gantt.run.job[5]] + 1, lane = gantt.run.lane[5] + 0.5;
gantt.point({ clientX: box.left + gantt.x(t), clientY: box.top + gantt.y(lane) });
const facts = gantt.tip.textContent;
gantt.zoom("t", 0.1, t);
charts[0].draw();
const chart = charts[0].box.getBoundingClientRect();
charts[0].point({ clientX: chart.left + 200, clientY: chart.top + 50 });
legend.firstChild.click();
colourChoice.value = "vc";
redraw();
const keys = document.getElementById("gantt-legend").children.length;
const first = document.querySelector("table[data-sortable]");
const heads = [...first.querySelectorAll("button.sort")];
heads[1].click(); heads[1].click();
const sorted = [...first.tBodies[0].rows].map((row) => row.cells[0].textContent);
const texts = ["97.7 min", "2.2 h", "-0.7 [-12.7, 11.9] h", "30 s", "", "1.5 d", "12 of 20", "1,204.5", "any"];
const cells = texts.map((text) => {
  const cell = document.createElement("td");
  cell.textContent = text;
  return sortValue(cell);
});
timeChoice.value = "2";
timeChoice.dispatchEvent(new Event("change"));
document.body.dataset.poked = JSON.stringify({
  each, facts, keys, zoomed: gantt.t[1] - gantt.t[0] < gantt.data.end, bars: gantt.run.job.length,
  paths: charts[0].box.querySelectorAll("path").length, tip: charts[0].tip.textContent,
  buttons: legend.querySelectorAll("button").length,
  sorted, cells, choices: [...timeChoice.options].map((option) => option.textContent),
  times: charts.find((chart) => chart.name === "Jobs waiting over time").kind,
  wide: document.documentElement.scrollWidth <= innerWidth,
});
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: the report is not opened in a browser")
def test_the_page_lives_in_a_browser(result, tmp_path):
    """Charts are drawn, hovering tells a job's facts, zooming zooms, hiding hides; nothing is wider than a phone."""
    write_report(result, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text().replace("</body>", POKE)
    (tmp_path / "poked.html").write_text(text)
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    more = "--disable-component-update --disable-sync --virtual-time-budget=5000 --window-size=500,900 --dump-dom"
    command = [CHROMIUM, *flags.split(), *more.split(), f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, f"file://{tmp_path / 'poked.html'}"], capture_output=True, text=True, timeout=300, check=True
    )
    assert 'data-ready="yes"' in done.stdout
    found = re.search(r'data-poked="([^"]*)"', done.stdout)
    assert found, "the scripts of the page stopped early"
    state = json.loads(html.unescape(found[1]))
    assert state["zoomed"]
    assert state["wide"]
    assert (state["buttons"], state["paths"]) == (4, 3)
    assert state["keys"] == 8
    means = {s.label: s.value for s in result.standings}
    assert [means[label] for label in state["sorted"]] == sorted(means.values(), reverse=True)
    assert state["cells"] == [97.7 * 60, 2.2 * 3600, -0.7 * 3600, 30, "", 1.5 * 86_400, 12, 1204.5, "any"]
    assert state["choices"][0] == "all windows, on average"
    assert sorted(state["choices"][1:]) == [f"window {i}" for i in range(1, 7)]
    assert state["times"] == "time"
    assert "waited" in state["facts"]
    assert "%" in state["tip"]
    assert state["bars"] >= 200
    assert state["each"] < 200
