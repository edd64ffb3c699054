"""Jobs that the cluster can never run: an error when they are many, and in the headline when they are allowed."""

import json

import pytest

REFUSED = 3


@pytest.fixture
def typed(tmp_path):
    """Three jobs, one of which wants a GPU type that the cluster has under another name."""
    path = tmp_path / "typed.csv"
    path.write_text("submit_s,duration_s,gpus,gpu_types\n0,100,2,\n1,50,1,v100\n2,10,1,A100\n")
    on = tmp_path / "typed.toml"
    on.write_text(
        '[[group]]\ncount = 1\ngpus = 2\ngpu_type = "V100-32GB"\n[[group]]\ncount = 1\ngpus = 2\ngpu_type = "a100"\n'
    )
    return path, "-c", on


@pytest.mark.parametrize(
    "words",
    [
        ("simulate",),
        ("compare",),
        ("evaluate",),
        ("train", "-o", "{m}"),
        ("evolve", "-o", "{m}"),
        ("transfer", "-p", "saf", "--rules", "f1"),
    ],
    ids=lambda words: words[0],
)
def test_more_than_one_in_a_hundred_is_an_error_with_a_code_of_its_own(rltune, typed, words, tmp_path):
    said = rltune(words[0], *typed, *(str(word).format(m=tmp_path / "m.rltune") for word in words[1:]))
    assert (said.code, said.out) == (REFUSED, "")
    assert said.err.splitlines()[-1] == (
        "rltune: 1 of 3 jobs (33.3 %) can never run on this cluster: 1 job of GPU type v100, which no group has "
        "(did you mean V100-32GB? There are V100-32GB, a100). "
        "Mend the cluster's TOML, or leave these jobs out by --allow-rejected"
    )
    assert not (tmp_path / "m.rltune").exists()


def test_allowed_they_are_in_the_headline_and_the_notes(rltune, typed, tmp_path):
    said = rltune("compare", *typed, "-p", "fcfs", "-b", "none", "--allow-rejected", "--json", tmp_path / "all.json")
    assert said.code == 0
    assert "(csv, 3 jobs, 1 of them rejected) on" in said.out.splitlines()[0]
    content = json.loads((tmp_path / "all.json").read_text())
    assert "1 of them rejected" in content["trace"]
    assert any("did you mean V100-32GB?" in note for note in content["notes"])


def test_other_spellings_of_types_and_partitions_reject_nobody(rltune, tmp_path):
    (tmp_path / "t.csv").write_text("submit_s,duration_s,gpus,gpu_types,vc\n0,100,2,a100,GPU\n1,50,1,A100,gpu\n")
    (tmp_path / "c.toml").write_text('[[group]]\ncount = 1\ngpus = 2\ngpu_type = "A100"\nvc = "Gpu"\n')
    said = rltune("simulate", tmp_path / "t.csv", "-c", tmp_path / "c.toml", "-p", "fcfs", "--json")
    assert (said.code, json.loads(said.out)["rejected"]) == (0, 0)


def test_a_check_of_the_history_ends_with_the_same_code(rltune, typed):
    said = rltune("trace", "check", *typed)
    assert (said.code, said.out) == (REFUSED, "")
    assert "wants GPUs of type v100" in said.err


def test_a_missing_column_is_in_the_notes_of_a_result(rltune, tmp_path):
    history = tmp_path / "h.txt"
    head = "JobID|State|Submit|Start|End|ReqTRES|AllocTRES|NodeList"
    history.write_text(f"{head}\n1|COMPLETED|100|110|120|cpu=1,gres/gpu=1|cpu=1,gres/gpu=1|n1\n")
    said = rltune("trace", "info", history)
    assert "Column TimelimitRaw is missing" in " ".join((said.out + said.err).split())
