import json

import pytest
from learn.looking import a_model

from rltune.model.model_file import save_model

ON = ("synth:philly,jobs=1500,load=2", "-c", "slurm-five")
SMALL = ("--windows", "60:every=20:contended=30", "--holdout", 0.3)


@pytest.fixture
def evaluation(rltune):
    def run(*words):
        return rltune("evaluate", *ON, "-p", "saf,srf", "-b", "none,easy", *SMALL, *words)

    return run


def test_the_table_says_what_was_run(evaluation):
    """Trace, cluster, pipelines, windows, reference."""
    said = evaluation("--baseline", "saf + easy")
    assert said.code == 0
    assert "synthetic philly, 1,500 jobs, load 2 on slurm-five" in said.out
    assert "ratio to saf + easy" in said.out
    assert "contended windows of 60" in said.out
    assert "srf + easy" in said.out


def test_choices_are_printed(evaluation):
    """With every configuration of the validation part."""
    said = evaluation("--select")
    assert "validation part: jobs 600 to 1,049" in said.out
    assert "static, without backfilling" in said.out
    assert "nothing was chosen on the test part" in said.out


def test_details_break_down_by_size(evaluation):
    """And give the means of every metric."""
    said = evaluation("--details")
    assert "mean wait by the GPUs that a job asks for" in said.out
    assert "means over the windows" in said.out


def test_json_alone_on_stdout(evaluation):
    """Nothing else is there."""
    told = json.loads(evaluation("--json", "--metric", "slowdown", "--estimator", "oracle").out)
    assert told["metric"] == "slowdown"
    assert told["estimator"] == "oracle"
    assert [s["pipeline"] for s in told["test"]["standings"]] == ["fcfs", "saf", "saf + easy", "srf", "srf + easy"]
    assert told["cluster"].startswith("slurm-five")


def test_further_pipelines_are_named_one_by_one(evaluation):
    """A search or the solver around one policy need not be put around all."""
    told = json.loads(evaluation("--pipeline", "saf+search:4 + easy, milp:4", "--select", "--json").out)
    assert {c["pipeline"] for c in told["choices"] if c["side"] == "learned"} == {"saf+search:4 + easy, milp:4"}
    assert evaluation("--pipeline", "saf + soon").code != 0


def test_pipelines_alone_are_all_that_is_run(rltune):
    """Without --policy the usual ones are not taken; FCFS stands beside, as always."""
    told = json.loads(rltune("evaluate", *ON, "--pipeline", "saf + easy", *SMALL, "--json").out)
    assert [s["pipeline"] for s in told["test"]["standings"]] == ["fcfs", "saf + easy"]


def test_a_guard_and_a_search_go_around_every_policy(evaluation):
    """And are in the names."""
    told = json.loads(evaluation("--guard", "2h", "--search", 4, "--json").out)
    assert told["test"]["standings"][1]["pipeline"] == "saf+search:4+guard:2h"


def test_results_do_not_depend_on_processes(evaluation):
    """Bit by bit."""
    assert evaluation("--json").out == evaluation("--json", "--workers", 2).out


def test_files_are_written_and_named(evaluation, tmp_path):
    """JSON and the page."""
    files = [tmp_path / "new" / name for name in ("e.json", "e.html")]
    said = evaluation("--json", files[0], "--report", files[1], "--select")
    assert json.loads(files[0].read_text())["choices"]
    assert "Evaluation on held-out windows" in files[1].read_text()
    assert said.out.endswith(f"JSON: {files[0]}\nreport: {files[1]}\n")
    assert evaluation("--json", files[0]).code == 2


def test_the_matrix_of_models_and_traces(rltune):
    """Two of each, on one cluster."""
    traces = ("synth:philly,jobs=1500,load=2", "synth:helios,jobs=1500,load=2")
    words = (*traces, "-p", "saf,srf", "-c", "slurm-five", "--rules", "fcfs,sjf", *SMALL)
    said = rltune("transfer", *words)
    assert said.code == 0
    assert "synthetic helios, 1,500 jobs" in said.out
    assert "best rule" in said.out
    told = json.loads(rltune("transfer", *words, "--json").out)
    assert len(told["cells"]) == 4
    assert {cell["trace"] for cell in told["cells"]} == {
        "synth:philly,jobs=1500,load=2",
        "synth:helios,jobs=1500,load=2",
    }


def test_a_ray_cluster_that_is_not_there_is_one_sentence(rltune):
    """Told at once."""
    said = rltune("evaluate", *ON, "-p", "saf", *SMALL, "--ray", "127.0.0.1:1")
    assert (said.code, said.out) == (2, "")
    assert "rltune: no Ray cluster at '127.0.0.1:1'" in said.err


def test_ray_gives_what_one_process_gives(evaluation, ray_cluster):
    """The whole command, on a cluster of two workers."""
    assert evaluation("--json", "--ray", ray_cluster).out == evaluation("--json").out


def test_several_estimators_are_crossed(evaluation, tmp_path):
    """In the terminal and in JSON; a page shows one."""
    said = evaluation("--select", "--estimator", "history,oracle")
    assert said.out.count("test part: jobs") == 2
    assert "over the static choice with oracle" in said.out
    told = json.loads(evaluation("--select", "--estimator", "history,oracle", "--json").out)
    assert [e["estimator"] for e in told["evaluations"]] == ["history", "oracle"]
    assert {(c["estimator"], c["against_estimator"]) for c in told["crossings"]} == {
        (a, b) for a in ("history", "oracle") for b in ("history", "oracle")
    }
    refused = evaluation("--estimator", "history,oracle", "--report", tmp_path / "e.html")
    assert (refused.code, "a report shows one estimator" in refused.err) == (2, True)
    assert evaluation("--estimator", "history,history").code == 2


def test_a_model_is_named_by_its_file_and_set_against_the_rules(rltune, tmp_path):
    """In evaluate and in transfer."""
    save_model(a_model(base="srf"), tmp_path / "mine.rltune")
    said = rltune("evaluate", *ON, "-p", f"saf,{tmp_path / 'mine.rltune'}", "-b", "none,easy", *SMALL, "--select")
    assert "mine / saf" in said.out
    assert "learned, with any backfilling" in said.out
    words = (*ON, "-p", tmp_path / "mine.rltune", "--rules", "saf", *SMALL)
    assert "to srf" in rltune("transfer", *words).out
