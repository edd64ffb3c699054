import json

import polars as pl
import pytest

TWO = ("-p", "fcfs,sjf", "-b", "none,easy")


@pytest.fixture
def synthetic():
    return ("compare", "synth:philly,jobs=600,load=1.2", "-c", "philly-slice", *TWO)


def test_the_table_names_every_pipeline_and_the_baseline(rltune, synthetic):
    said = rltune(*synthetic, "--windows", "5x100", "--baseline", "sjf + easy")
    assert said.code == 0
    assert "synthetic philly, 600 jobs, load 1.2 on philly-slice (36 nodes, 192 GPUs)" in said.out
    assert "vs sjf + easy" in said.out
    assert "5 windows of 100 jobs" in said.out


def test_json_alone_on_stdout(rltune, synthetic):
    told = json.loads(rltune(*synthetic, "--windows", "5x100", "--metric", "jct", "--json").out)
    assert [s["label"] for s in told["standings"]] == ["fcfs", "fcfs + easy", "sjf", "sjf + easy"]
    assert told["metric"] == "jct"
    assert told["complete"] is True


@pytest.mark.parametrize("windows", ["whole", "steady:0.3", "3x100:random", "3x100:contended=1", "100:every=200"])
def test_every_form_of_windows(rltune, windows):
    words = ("synth:philly,jobs=600,load=2", "-c", "slurm-five", "-p", "fcfs", "-b", "none")
    assert rltune("compare", *words, "--windows", windows, "--json").code == 0


def test_a_warm_start_is_said_and_needs_windows(rltune, synthetic):
    said = rltune(*synthetic, "--windows", "3x100", "--warm", "--workers", 2)
    assert "estimates: history-warm" in said.out
    assert "Warm start: estimator history began each window" in said.out
    refused = rltune(*synthetic, "--warm")
    assert (refused.code, refused.out) == (2, "")
    assert "a warm start needs jobs before those that are run" in refused.err


def test_files_and_details(rltune, trace, cluster, tmp_path):
    files = [tmp_path / name for name in ("jobs.parquet", "page.html", "r.json")]
    words = ("--jobs-file", files[0], "--report", files[1], "--json", files[2], "--details")
    said = rltune("compare", trace, "-c", cluster, *TWO, *words)
    assert said.code == 0
    assert "wait, large jobs" in said.out
    assert pl.read_parquet(files[0]).height == 4 * 3
    assert json.loads(files[2].read_text())["runs_made"] == 4
    assert trace.name in files[1].read_text()


def test_a_comparison_in_which_nobody_waits_says_so(rltune, trace):
    words = ("compare", trace, "-c", "philly", *TWO, "--json")
    assert "No job waited" in json.loads(rltune(*words).out)["notes"][0]


def test_results_do_not_depend_on_workers(rltune, synthetic):
    words = (*synthetic, "--windows", "2x100", "--json")
    assert rltune(*words).out == rltune(*words, "--workers", 2).out


def test_an_interrupt_shows_what_is_there_and_ends_with_130(rltune, trace, cluster, monkeypatch):
    from rltune.evaluation.compare import Bench

    made = Bench.run
    left = [1]

    def interrupted(self, task):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return made(self, task)

    monkeypatch.setattr(Bench, "run", interrupted)
    said = rltune("compare", trace, "-c", cluster, *TWO, "--json")
    assert said.code == 130
    assert json.loads(said.out)["complete"] is False
    assert said.err.endswith("rltune: interrupted after 1 of 4 runs; only those count\n")
    nothing = rltune("compare", trace, "-c", cluster, *TWO)
    assert (nothing.code, nothing.out) == (130, "")
    assert nothing.err.endswith("rltune: interrupted\n")


def test_several_clusters_are_compared_on_the_same_jobs(rltune, history, two, tmp_path):
    """Every pipeline on every cluster is a row; the larger one waits less, shown pipeline by pipeline."""
    larger = tmp_path / "four.toml"
    larger.write_text('name = "four"\n[[group]]\ncount = 4\ngpus = 4\n')
    words = ("compare", history, "-c", f"{two},{larger}", "-p", "fcfs,saf", "-b", "none", "-w", "6x100")
    said = rltune(*words, "--json", tmp_path / "c.json", "--report", tmp_path / "c.html")
    assert said.code == 0
    made = json.loads((tmp_path / "c.json").read_text())
    assert made["baseline"] == f"fcfs @ {two}"
    values = {s["label"]: s["value"] for s in made["standings"]}
    assert [f"{p} @ {c}" for c in (two, larger) for p in ("fcfs", "saf")] == list(values)
    assert all(values[f"{p} @ {larger}"] < values[f"{p} @ {two}"] for p in ("fcfs", "saf"))
    alone = rltune(*words[:3], larger, *words[4:], "--json", tmp_path / "one.json")
    assert alone.code == 0
    one = json.loads((tmp_path / "one.json").read_text())
    assert [s["value"] for s in one["standings"]] == [values[f"{p} @ {larger}"] for p in ("fcfs", "saf")]
    told = [note for note in made["notes"] if note.startswith("saf: mean wait on")]
    assert len(told) == 1
    assert told[0].endswith(f"of that on {two}.")
    page = (tmp_path / "c.html").read_text()
    assert told[0] in page
    assert f"fcfs @ {larger}" in page


@pytest.mark.parametrize(
    ("clusters", "more", "sentence"),
    [
        ("{two},{two}", (), "give at least one cluster, and each once"),
        ("{two},nowhere", (), "no cluster 'nowhere'"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(rltune, history, two, tmp_path, clusters, more, sentence):
    names = {"two": two, "folder": tmp_path}
    said = rltune("compare", history, "-c", clusters.format(**names), *(word.format(**names) for word in more))
    assert (said.code, said.out) == (2, "")
    assert sentence in said.err
