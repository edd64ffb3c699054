"""`rltune reproduce`: mistakes are one sentence and leave nothing; a run with no time leaves a report that says so."""

import pytest


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--quick", "--full"), "cannot both be"),
        (("--budget", -1), "0 minutes or more"),
        (("--budget", "nan"), "0 minutes or more"),
        (("--only", "table10"), "table9"),
        (("--traces", "nowhere"), "is no folder"),
    ],
)
def test_a_mistake_is_one_sentence(rltune, tmp_path, words, told):
    said = rltune("reproduce", "--out", tmp_path / "out", *words)
    assert said.code == 2
    assert told in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert not (tmp_path / "out" / "report.html").exists()


def test_a_file_in_the_place_of_the_folder(rltune, tmp_path):
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    said = rltune("reproduce", "--out", tmp_path / "out", "--quick", "--only", "tencache")
    assert said.code == 2
    assert (tmp_path / "out").read_text(encoding="utf-8") == "mine"
