"""A card says where a model comes from, survives its file, and is read from files of every version."""

import json
from dataclasses import replace

import pytest
from learn.looking import a_model

from rltune.errors import InputError
from rltune.model.card import NOT_NOTED, Card, HeldOut, Lessons
from rltune.model.learned_model import json_hash
from rltune.model.model_file import parse_model, read_model, save_model
from rltune.trace import synthesise


@pytest.fixture(scope="module")
def full():
    """Make a card with every entry."""
    jobs = synthesise("philly", 500)
    return Card(
        made_by="rltune 9",
        command="rltune evolve a.csv",
        trace="a.csv",
        cluster="ours",
        estimators=("history", "user"),
        held_out=HeldOut(windows=4, cost_over_base=0.8),
        lessons=Lessons.of([("a.csv", jobs.window(0, 400))], [("a.csv", jobs.window(400, 50))]),
        unknown="",
        settings={"seed": 1},
    )


def first_version(model, card):
    """Write a model as version 1 did: a card of any entries, and one hash over everything."""
    body = {"format": "rltune-model", "version": 1, **model.deciding(), "card": card}
    return json.dumps({**body, "sha256": json_hash(body)})


@pytest.mark.parametrize("empty", [True, False])
def test_a_card_is_read_as_it_was_written(tmp_path, full, empty):
    """Fingerprints too, and that nothing is known."""
    card = Card() if empty else full
    save_model(a_model(card=card), tmp_path / "m.rltune")
    assert read_model(tmp_path / "m.rltune").card == card


def test_the_hash_names_what_decides_and_not_the_card(tmp_path, full):
    """A journal that names a model still does when more is known of where it came from."""
    model = a_model("sampled")
    assert replace(model, card=full).sha256 == model.sha256
    for change in ({"base": "f1"}, {"drift": "off"}, {"norm": model.norm + 1}, {"weights": model.weights * 2}):
        assert replace(model, **change).sha256 != model.sha256
    save_model(replace(model, card=full), tmp_path / "m.rltune")
    body = json.loads((tmp_path / "m.rltune").read_text())
    assert body["sha256"] == model.sha256
    assert body["file_sha256"] != model.sha256


def test_a_file_whose_card_was_changed_is_refused(tmp_path, full):
    """Though what decides is as it was."""
    save_model(a_model(card=full), tmp_path / "m.rltune")
    text = (tmp_path / "m.rltune").read_text().replace("rltune evolve a.csv", "rltune evolve b.csv")
    with pytest.raises(InputError, match="do not match its hash"):
        parse_model(text, "m")


def test_a_file_of_the_first_version_is_read_with_nothing_known_of_its_jobs():
    """Its entries are where they are now, or among the settings; its name is that of the same model today."""
    model = a_model("sampled")
    old = {
        "made_by": "rltune 0.1.0",
        "trace": "a.csv",
        "estimators": "history,user",
        "held_out": {"windows": 3, "cost_over_base": 0.9},
        "trained_on_jobs": [0, 480],
        "seed": 4,
    }
    read = parse_model(first_version(model, old), "old")
    assert read.sha256 == model.sha256
    assert read.card.estimators == ("history", "user")
    assert read.card.held_out == HeldOut(windows=3, cost_over_base=0.9)
    assert read.card.settings == {"trained_on_jobs": [0, 480], "seed": 4}
    assert (read.card.lessons, read.card.unknown) == (None, NOT_NOTED)


@pytest.mark.parametrize(
    "entries",
    [
        {"lessons": {"spans": []}},
        {"lessons": {"spans": [], "taught": {"jobs": 1, "below": 5, "packed": "AAAA"}, "chose": {}}},
        {"held_out": {"colour": 1}},
        {"settings": 3},
        {"estimators": 3},
    ],
)
def test_a_card_that_contradicts_itself_is_refused(tmp_path, entries):
    """In one sentence, when the file is read."""
    save_model(a_model(), tmp_path / "m.rltune")
    body = json.loads((tmp_path / "m.rltune").read_text())
    body["card"] |= entries
    body.pop("file_sha256")
    with pytest.raises(InputError, match="is damaged"):
        parse_model(json.dumps({**body, "file_sha256": json_hash(body)}), "m")


def test_a_model_prints_itself_in_a_few_lines(full):
    """What it sees, what it is, which jobs taught it, and how it did."""
    text = repr(a_model("sampled", card=full))
    assert text == str(a_model("sampled", card=full))
    assert len(text.splitlines()) <= 9
    for part in (
        "inputs: gpus, requested_time",
        "layers: 8 x 6 x 4 x 1",
        "base policy: saf",
        "taught by: 400 jobs over",
        "of a.csv",
        "estimates: history, user",
        "held out: 0.800 of saf's cost on 4 windows",
    ):
        assert part in text
    assert "taught by: not known: its file does not say" in repr(a_model("sampled"))


def test_many_spans_are_told_together():
    """As of a model that was taught by windows of many generated traces."""
    windows = [("made up", synthesise("pai", 30, seed)) for seed in range(9)]
    assert "taught by: 270 jobs in 9 spans of made up" in repr(a_model(card=Card(lessons=Lessons.of(windows, []))))


def test_a_model_prints_itself_in_a_notebook(full):
    """As a table, with nothing of a card taken for markup."""
    shown = a_model("sampled", card=replace(full, estimators=("<b>",)))._repr_html_()
    assert "<th>layers</th><td>8 x 6 x 4 x 1</td>" in shown
    assert "&lt;b&gt;" in shown
