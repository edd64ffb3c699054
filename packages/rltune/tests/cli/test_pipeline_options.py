"""A pipeline may be named by the settings file that holds it."""

import pytest

from rltune.cli.pipeline_options import as_table_names, estimator_of, other_knowledge, own_estimators

SETTINGS = '[pipeline]\npolicy = "sjf"\nbackfill = "easy"\nestimator = "user"\n'


@pytest.mark.parametrize("name", ["ours.toml", "ours.toml.new", "ours"])
def test_a_settings_file_is_read_whatever_its_name(tmp_path, name):
    file = tmp_path / name
    file.write_text(SETTINGS)
    assert as_table_names(str(file)) == "sjf + easy, best-fit"
    assert estimator_of(None, str(file)) == "user"


def test_each_pipeline_has_the_knowledge_of_its_own_settings(tmp_path):
    """An --estimator is for all; other commands say what they run otherwise than the settings."""
    file = tmp_path / "ours.toml"
    file.write_text(SETTINGS)
    given = ["saf + easy", str(file)]
    assert own_estimators(None, given, "history.txt") == [None, "user"]
    assert own_estimators("oracle", given, "history.txt") == [None, None]
    told = f"{file} knows run times by user; here all know them by history (--estimator)."
    assert other_knowledge(given, ["history"]) == [told]
    assert other_knowledge(given, ["user"]) == []


def test_other_names_stay_as_they_are(tmp_path, monkeypatch):
    """A model's file is a policy, not settings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ours.rltune").write_text("weights")
    assert [as_table_names(text) for text in ("saf + easy", "ours.rltune")] == ["saf + easy", "ours.rltune"]
