"""A user's mistake is one sentence on stderr, exit code 2, nothing on stdout, and no traceback."""

import pytest

ON = ("{trace}", "-c", "{cluster}")
MISTAKES = {
    "no such file": ("trace", "info", "none.csv"),
    "a folder": ("trace", "check", "{folder}"),
    "an empty file": ("trace", "check", "{empty}"),
    "no trace": ("trace", "info", "{cluster}"),
    "unknown format": ("trace", "info", "{trace}", "--format", "xml"),
    "unknown suffix": ("trace", "convert", "{trace}", "-o", "{folder}/out.txt"),
    "out is a folder": ("trace", "convert", "{trace}", "-o", "{folder}/d.csv"),
    "folder is a file": ("trace", "convert", "{trace}", "-o", "{trace}/out.csv"),
    "unknown kind": ("trace", "synth", "borg", "-o", "{folder}/out.csv"),
    "load without cluster": ("trace", "synth", "philly", "-o", "{folder}/out.csv", "--load", "0.9"),
    "load and days": (
        "trace",
        "synth",
        "philly",
        "-o",
        "{folder}/out.csv",
        "--load",
        "1",
        "--days",
        "1",
        "-c",
        "philly",
    ),
    "unknown column": ("trace", "anonymise", "{trace}", "-o", "{folder}/out.csv", "--keep", "submit_s"),
    "unknown cluster": ("cluster", "show", "nowhere"),
    "broken toml": ("cluster", "check", "{trace}"),
    "no such cluster file": ("cluster", "check", "none.toml"),
    "unknown policy": ("simulate", *ON, "-p", "best"),
    "policy without file": ("simulate", *ON, "-p", "none.py:score"),
    "policy without function": ("simulate", *ON, "-p", "{empty_py}:score"),
    "unknown backfill": ("simulate", *ON, "-b", "eager"),
    "unknown placement": ("simulate", *ON, "--placement", "tetris"),
    "unknown estimator": ("simulate", *ON, "--estimator", "guess"),
    "unknown head": ("simulate", *ON, "--head", "user"),
    "commit with easy": ("simulate", *ON, "--commit", "-b", "easy"),
    "no limits to believe": ("simulate", *ON, "--estimator", "user"),
    "unknown synthetic": ("simulate", "synth:borg", "-c", "{cluster}"),
    "unknown parameter": ("simulate", "synth:philly,speed=2", "-c", "{cluster}"),
    "text in a number": ("simulate", "synth:philly,jobs=many", "-c", "{cluster}"),
    "negative seed": ("simulate", "synth:philly,seed=-1", "-c", "{cluster}"),
    "too many jobs": ("simulate", "synth:philly,jobs=999999999999", "-c", "{cluster}"),
    "negative load": ("simulate", "synth:philly,load=-1", "-c", "{cluster}"),
    "report over the trace": ("simulate", *ON, "--report", "{trace}", "--force"),
    "report is a folder": ("simulate", *ON, "--report", "{folder}"),
    "windows not understood": ("compare", *ON, "-w", "many"),
    "windows of a part that is drawn": ("evaluate", *ON, "-w", "20x64"),
    "pipeline not understood": ("compare", *ON, "--pipeline", "saf + soon"),
    "a pipeline and its parts": ("simulate", *ON, "--pipeline", "saf + easy", "-b", "none"),
    "a pipeline and a guard beside it": ("simulate", *ON, "--pipeline", "saf + easy", "--guard", "24h"),
    "clusters for other traces": ("transfer", "{trace}", "-c", "philly,philly-slice", "-p", "saf"),
    "window too large": ("compare", *ON, "-w", "2x100"),
    "unknown metric": ("compare", *ON, "--metric", "joy"),
    "unknown baseline": ("compare", *ON, "--baseline", "srf"),
    "listed twice": ("compare", *ON, "-p", "fcfs,fcfs"),
    "nothing listed": ("compare", *ON, "-p", ","),
    "nothing contended": ("compare", *ON, "-w", "1x3:contended=9999"),
}


@pytest.mark.parametrize("words", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_sentence(rltune, words, trace, cluster, tmp_path):
    (tmp_path / "d.csv").mkdir()
    (tmp_path / "empty.csv").touch()
    (tmp_path / "empty.py").touch()
    names = {
        "trace": trace,
        "cluster": cluster,
        "folder": tmp_path,
        "empty": tmp_path / "empty.csv",
        "empty_py": tmp_path / "empty.py",
    }
    before = trace.read_bytes()
    said = rltune(*(word.format(**names) for word in words))
    *earlier, last = said.err.splitlines()
    assert said.code == 2
    assert said.out == ""
    assert last.startswith("rltune: ")
    assert len(last) > 20
    assert all(line.startswith("compiling the core") for line in earlier)
    assert trace.read_bytes() == before
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    "words",
    [("fly",), ("simulate",), ("simulate", "--speed"), ("trace", "synth", "philly"), ("compare", *ON, "--workers", 0)],
)
def test_usage_errors_are_one_sentence_too(rltune, words):
    said = rltune(*words)
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("rltune: ")
    assert said.err.endswith(" --help\n")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("comapre",), "'compare'"),
        (("trace", "chek"), "'check'"),
        (("compare", *ON, "--polcy", "saf"), "--policy"),
        (("evaluate", *ON, "--slect"), "--select"),
        (("--verson",), "--version"),
        (("simulate", *ON, "-b", "esay"), "easy"),
        (("compare", *ON, "-p", "saf,sjf", "-b", "easy", "--baseline", "saf+easy"), "saf + easy"),
        (("simulate", "synth:philly,job=5", "-c", "{cluster}"), "jobs"),
    ],
)
def test_a_word_that_is_nearly_right_gets_a_did_you_mean(rltune, words, meant, trace, cluster):
    said = rltune(*(str(word).format(trace=trace, cluster=cluster) for word in words))
    assert said.code == 2
    assert f"did you mean {meant}?" in said.err.replace("Did", "did")


def test_a_word_that_is_far_from_all_gets_none(rltune):
    said = rltune("train", "--hiden", "8x8")
    assert said.err == "rltune: no such option: --hiden. See rltune train --help\n"


def test_a_file_that_cannot_be_written_is_told_before_the_work(rltune, trace, cluster, tmp_path):
    import os

    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    said = rltune("simulate", trace, "-c", cluster, "--report", locked / "r.html")
    assert said.code == 2
    assert "cannot be written" in said.err


def test_names_in_brackets_are_printed_as_they_are(rltune, tmp_path):
    said = rltune("trace", "info", tmp_path / "[red]x[/red].csv")
    assert "[red]x[/red].csv: there is no such file" in said.err
