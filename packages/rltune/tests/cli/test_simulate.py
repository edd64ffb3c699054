import json

import polars as pl
import pytest


def test_simulate_sums_up(rltune, trace, cluster):
    said = rltune("simulate", trace, "--cluster", cluster, "--estimator", "oracle")
    assert said.code == 0
    assert "3 jobs ran, 0 rejected" in said.out
    assert said.err in {"", "compiling the core, once (about a minute) ...\n"}


def test_json_holds_the_waits_and_nothing_else_is_on_stdout(rltune, trace, cluster):
    told = json.loads(rltune("simulate", trace, "-c", cluster, "--estimator", "oracle", "--json").out)
    assert told["wait_s"]["mean"] == (0 + 99 + 98) / 3
    assert told["settings"]["estimator"] == "oracle"
    assert told["trace"].endswith("(csv, 3 jobs)")
    assert told["cluster"] == "two (1 node, 2 GPUs)"


def test_policy_backfill_placement_and_the_rest_reach_the_engine(rltune, trace, cluster):
    words = ("-p", "sjf", "-b", "easy", "--placement", "spread", "--estimator", "noisy:0.5", "--head", "global")
    more = ("--view", 2, "--seed", 3, "--guard", "24h:4x", "--search", "8:slowdown", "--remaining", "history")
    told = json.loads(rltune("simulate", trace, "-c", cluster, *words, *more, "--json").out)
    assert told["settings"] == {
        "policy": "sjf+search:8:slowdown+guard:24h:4x+remaining:history",
        "backfill": "easy",
        "placement": "spread",
        "estimator": "noisy:0.5",
        "head": "global",
        "commit": False,
        "view": 2,
        "seed": 3,
        "guard": "24h:4x",
        "search": "8:slowdown",
        "cycle_s": 0.0,
        "remaining": "history",
        "preempt": "off",
    }


def test_a_cycle_reaches_the_engine_and_the_page(rltune, trace, cluster, tmp_path):
    page, told = tmp_path / "page.html", tmp_path / "r.json"
    words = ("-p", "sjf", "--cycle", 60, "--report", page, "--json", told)
    assert rltune("simulate", trace, "-c", cluster, *words).code == 0
    assert json.loads(told.read_text())["settings"]["cycle_s"] == 60.0
    assert "Policy is asked" in page.read_text()
    said = rltune("simulate", trace, "-c", cluster, "--cycle", 60, "--search", 4)
    assert said.code == 2
    assert "a search decides in every pass: leave out the cycle of 60 s" in said.err


def test_commit_mode_runs(rltune, trace, cluster):
    words = ("--commit", "-b", "shadow", "--estimator", "oracle", "--json")
    assert json.loads(rltune("simulate", trace, "-c", cluster, *words).out)["settings"]["commit"] is True


def test_a_policy_of_one_s_own(rltune, trace, cluster, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("def newest(queue):\n    return -queue.submit_s\n")
    told = json.loads(rltune("simulate", trace, "-c", cluster, "-p", f"{mine}:newest", "--json").out)
    assert told["settings"]["policy"] == "mine:newest"


def test_files_are_written_named_and_not_overwritten(rltune, trace, cluster, tmp_path):
    out, page, text = tmp_path / "o" / "jobs.parquet", tmp_path / "o" / "page.html", tmp_path / "o" / "r.json"
    words = ("simulate", trace, "-c", cluster, "--jobs-file", out, "--report", page, "--json", text)
    said = rltune(*words)
    assert said.code == 0
    assert f"report: {page}\n" in said.out
    assert pl.read_parquet(out)["start_s"].to_list() == [0, 100, 100]
    assert "<h1>One simulation</h1>" in page.read_text()
    assert json.loads(text.read_text())["jobs"] == 3
    again = rltune(*words)
    assert (again.code, again.out) == (2, "")
    assert rltune(*words, "--force").code == 0


def test_a_synthetic_trace_fits_the_cluster_and_its_load(rltune):
    told = json.loads(rltune("simulate", "synth:philly?jobs=300&seed=1&load=0.5", "-c", "philly-slice", "--json").out)
    assert told["trace"] == "synthetic philly, 300 jobs, seed 1, load 0.5"
    assert told["rejected"] == 0


def test_rounded_shares_are_said_under_the_results(rltune):
    from pathlib import Path

    shares = Path(__file__).parents[1] / "trace" / "data" / "pai_job_sim.csv"
    assert "asked a share of a GPU" in rltune("simulate", shares, "-c", "pai-slice").out
    said = rltune("compare", shares, "-c", "pai-slice", "-p", "fcfs", "-b", "none", "--json")
    assert "asked a share of a GPU" in json.loads(said.out)["notes"][0]


@pytest.mark.parametrize("where", ["at once", "in the function"])
def test_a_policy_that_ends_the_program_is_told_so(rltune, trace, cluster, tmp_path, where):
    """A policy must not make a failed command look like one that did its work."""
    body = "import sys\nsys.exit(0)\n" if where == "at once" else "import sys\n"
    (tmp_path / "mine.py").write_text(f"{body}def score(queue):\n    sys.exit(0)\n")
    said = rltune("simulate", trace, "-c", cluster, "-p", f"{tmp_path}/mine.py:score")
    assert (said.code, said.out) == (2, "")
    assert "SystemExit" in said.err.splitlines()[-1]
