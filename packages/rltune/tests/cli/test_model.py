"""`rltune model show` and `check`."""

from dataclasses import replace

import numpy as np
import pytest
from learn.looking import a_model

from rltune.model.card import Card, HeldOut, Lessons
from rltune.model.model_file import save_model
from rltune.model.probe import logits, require_sound
from rltune.trace import synthesise, write


@pytest.fixture
def kept(tmp_path):
    """Write a model, changed as told; give its path."""

    def write(**changes):
        path = tmp_path / "one.rltune"
        save_model(replace(a_model("sampled"), **changes), path)
        return path

    return write


def test_what_a_model_is_can_be_seen(rltune, kept):
    """Its card, its layers and the range of every input."""
    said = rltune("model", "show", kept(card=Card(settings={"seed": 3}, held_out=HeldOut(windows=5))))
    assert said.code == 0
    for text in (
        "layers: 8 x 6 x 4 x 1",
        "seed: 3",
        "held out windows: 5",
        "unknown: its file",
        "demand_supply",
    ):
        assert text in said.out


def test_a_model_that_ships_is_shown_by_its_name(rltune):
    """With the command that made it."""
    assert "command: rltune evolve" in rltune("model", "show", "learned:philly").out
    assert rltune("model", "check", "learned").code == 0
    assert "no model 'nope' ships" in rltune("model", "show", "learned:nope").err


def test_a_sound_model_is_told_so(rltune, kept):
    """With its hash."""
    said = rltune("model", "check", kept())
    assert said.code == 0
    assert "sha256 " in said.out


def test_a_user_can_ask_whether_jobs_taught_a_model(rltune, kept, tmp_path):
    """In one sentence, of jobs that did, of jobs that did not, and of a model that does not say."""
    jobs = synthesise("philly", 300)
    write(jobs, tmp_path / "own.csv")
    write(synthesise("philly", 300, seed=1), tmp_path / "other.csv")
    lessons = Lessons.of([("own.csv", jobs.window(0, 200))], [("own.csv", jobs.window(200, 50))])
    model = kept(card=Card(lessons=lessons, unknown=""))
    said = rltune("model", "check", model, tmp_path / "own.csv")
    assert said.code == 0
    assert "was taught by 200 and chosen on 50 of the 300 jobs of" in said.out
    assert "none of the 300 jobs of" in rltune("model", "check", model, tmp_path / "other.csv").out
    assert "what taught it is not known" in rltune("model", "check", kept(), tmp_path / "own.csv").out
    shown = rltune("model", "show", kept(card=Card(lessons=lessons, unknown=""))).out
    assert "taught by: 200 jobs over" in shown
    assert "chosen on: 50 jobs over" in shown


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"weights": np.zeros(a_model("sampled").weights.size)}, "orders nothing"),
        ({"norm": np.array([[0.0, 1.0, 2.0, 2.0]] * 8)}, "no range or scale for its input gpus"),
        ({"weights": a_model("sampled").weights * 1e300}, "no numbers|damaged"),
    ],
)
def test_a_model_that_cannot_be_used_is_refused(changes, sentence):
    """In one sentence that says why."""
    from rltune.errors import InputError

    with pytest.raises(InputError, match=sentence), np.errstate(over="ignore", invalid="ignore"):
        require_sound(replace(a_model("sampled"), **changes), "it")


@pytest.mark.parametrize("content", ["", "{}", '{"format": "rltune-model", "version": 99}'])
def test_what_is_no_model_or_a_later_one_is_refused(rltune, tmp_path, content):
    """As is a file that was changed by hand."""
    path = tmp_path / "other.rltune"
    path.write_text(content)
    for verb in ("show", "check"):
        said = rltune("model", verb, path)
        assert said.code == 2
        assert len(said.err.strip().splitlines()) == 1


def test_a_changed_file_is_refused(rltune, kept):
    """Its contents no longer match its hash."""
    path = kept()
    path.write_text(path.read_text().replace('"saf"', '"sjf"'))
    said = rltune("model", "check", path)
    assert said.code == 2
    assert "damaged" in said.err


def test_answers_are_those_of_the_core():
    """The probe computes what the core does."""
    from kernel.test_network import by_numpy

    model = a_model("sampled")
    rows = np.random.default_rng(0).normal(size=(5, 8))
    assert logits(model, rows).tolist() == pytest.approx([by_numpy(model, row) for row in rows])
