import json
import re
from pathlib import Path

import pytest

import rltune as package
from rltune.trace import load

DATA = Path(__file__).parents[1] / "trace" / "data"


def test_info_sums_a_trace_up(rltune, trace):
    said = rltune("trace", "info", trace)
    assert said.code == 0
    assert f"{trace} (csv, 3 jobs)" in said.out
    assert re.search(r"^users +3 *$", said.out, re.MULTILINE)
    assert re.search(r"^jobs of one GPU +[0-9.]+ %", said.out, re.MULTILINE)


def test_info_as_json_is_json_alone(rltune, trace):
    said = rltune("trace", "info", trace, "--json")
    told = json.loads(said.out)
    assert told["jobs"] == 3
    assert said.err == ""


def test_info_takes_a_synthetic_trace(rltune):
    told = json.loads(rltune("trace", "info", "synth:helios,jobs=300,days=2", "--json").out)
    assert told["jobs"] == 300
    assert told["span_days"] == pytest.approx(2, rel=0.01)


def test_info_says_that_gpu_shares_were_rounded_up(rltune):
    assert "1 of 4 jobs asked a share of a GPU" in rltune("trace", "info", DATA / "pai_job_sim.csv").out


NASTY = "[red]x[/] :boom: [/nobody]"


def test_names_that_look_like_markup_are_shown_as_they_are(rltune, trace, cluster, tmp_path, monkeypatch):
    trace.write_text(f"submit_s,duration_s,gpus,user,vc,{NASTY}\n0,100,2,{NASTY},{NASTY},1\n1,9,1,b,{NASTY},1\n")
    assert f"{NASTY}: 100.0 %" in rltune("trace", "info", trace).out
    assert f"2  {NASTY}" in rltune("trace", "check", trace).out
    simulated = rltune("simulate", trace, "-c", cluster)
    assert NASTY in simulated.out
    odd = tmp_path / f"{NASTY.replace('/', '')}.csv"
    odd.write_bytes(trace.read_bytes())
    assert str(odd) in rltune("trace", "check", odd).out
    monkeypatch.chdir(tmp_path)
    Path("[red]x.py").write_text("def score(queue):\n    return queue.submit_s\n")
    said = rltune("compare", trace, "-c", cluster, "-p", "[red]x.py:score,fcfs", "--details")
    assert said.out.count("[red]x:score") >= 4


def test_check_names_each_rule(rltune):
    said = rltune("trace", "check", DATA / "sacct.txt")
    assert said.code == 0
    assert "never-started" in said.out
    assert json.loads(rltune("trace", "check", DATA / "sacct.txt", "--json").out)["rows"] == 17


def test_check_against_a_cluster_names_the_job_that_is_too_large(rltune, trace, cluster):
    assert f"every job fits {cluster}" in rltune("trace", "check", trace, "--cluster", cluster).out
    trace.write_text("submit_s,duration_s,gpus\n0,1,3\n" + 100 * "1,1,1\n")
    said = rltune("trace", "check", trace, "--cluster", cluster)
    assert (said.code, said.out) == (2, "")  # 3 if they were more than one in a hundred
    assert f"{trace}, line 2, column gpus" in said.err


def test_format_is_believed(rltune, trace):
    assert rltune("trace", "info", trace, "--format", "csv").code == 0
    assert "looks like format csv, not swf" in rltune("trace", "info", trace, "--format", "swf").err


def test_convert_gives_the_same_jobs_and_does_not_overwrite(rltune, trace, tmp_path):
    out = tmp_path / "new" / "out.parquet"
    said = rltune("trace", "convert", trace, "-o", out)
    assert said.code == 0
    assert "3 rows read, 3 jobs kept" in said.out
    assert load(out).jobs.duration_s.tolist() == [100, 50, 10]
    before = out.read_bytes()
    again = rltune("trace", "convert", DATA / "small.swf", "-o", out)
    assert (again.code, again.out, out.read_bytes()) == (2, "", before)
    assert "give --force to replace it" in again.err
    assert rltune("trace", "convert", DATA / "small.swf", "-o", out, "--force").code == 0
    assert out.read_bytes() != before


def test_what_is_read_is_never_written(rltune, trace):
    before = trace.read_bytes()
    said = rltune("trace", "convert", trace, "-o", trace, "--force")
    assert said.code == 2
    assert trace.read_bytes() == before


def test_synth_makes_the_same_trace_from_the_same_seed(rltune, tmp_path):
    words = ("trace", "synth", "philly", "--jobs", 200, "--cluster", "philly-slice", "--seed", 7)
    said = rltune(*words, "-o", tmp_path / "a.csv")
    rltune(*words, "-o", tmp_path / "b.csv", "--load", 0.9)
    assert "200 jobs over" in said.out
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_anonymise_hides_names_and_keeps_what_is_asked(rltune, trace, tmp_path):
    said = rltune("trace", "anonymise", trace, "-o", tmp_path / "out.csv", "--keep", "vc")
    text = (tmp_path / "out.csv").read_text()
    assert said.code == 0
    assert "random key" in said.err
    assert "ann" not in text
    assert '"a"' in text


def test_anonymise_takes_its_secret_from_the_environment(rltune, trace, tmp_path, monkeypatch):
    made = []
    for salt in ("one", "one", "two"):
        monkeypatch.setenv("RLTUNE_SALT", salt)
        assert rltune("trace", "anonymise", trace, "-o", tmp_path / "out.csv", "--force").code == 0
        made.append((tmp_path / "out.csv").read_bytes())
    assert made[0] == made[1] != made[2]


def test_version_is_the_package_s(rltune):
    assert rltune("--version").out == f"rltune {package.__version__}\n"


def test_arrays_get_the_limits_that_sacct_does_not_tell(rltune, tmp_path):
    history = tmp_path / "jobs.csv"
    history.write_text("submit_s,duration_s,gpus,array\n0,5,1,1001\n0,5,1,1001\n0,5,1,-1\n")
    out = tmp_path / "out.csv"
    assert rltune("trace", "convert", history, "-o", out, "--array-limit", "1001=1").code == 0
    assert load(out).jobs.array_limit.tolist() == [1, 1, 0]
    refused = rltune("trace", "convert", history, "-o", out, "--force", "--array-limit", "1002=1")
    assert refused.code == 2
    assert "no array '1002' among these jobs" in refused.err
