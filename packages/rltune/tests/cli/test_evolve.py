"""`rltune evolve`, as a user runs it."""

from contextlib import contextmanager

import pytest
from typer.main import get_command

from rltune.cli import app
from rltune.cli.evolve_command import evolve_plan
from rltune.cli.old_spellings import modern
from rltune.cli.training_settings_file import read_settings
from rltune.learn.cma_es import EvolveSettings
from rltune.learn.evolve import EvolvePlan
from rltune.model.curve_file import curve_beside, read_curve
from rltune.model.model_file import read_model

SMALL = ("--generations", 2, "-w", "2x40:contended=10", "--set", "pool=4", "--set", "held_windows=2")


@pytest.fixture
def find(rltune, history, two, tmp_path):
    """Evolve for two short generations, with these options too."""

    def run(*words: object):
        return rltune("evolve", history, "-c", two, "-o", tmp_path / "made.rltune", *SMALL, *words)

    return run


def plan_of(words: str) -> EvolvePlan:
    """Read a command's words as the program does, in whatever spelling, and make the plan of them."""
    command = get_command(app).commands["evolve"]
    given = command.make_context("evolve", words.split()).params
    steps = {"generations": given["generations"], "seed": given["seed"]}
    below = read_settings(given["settings"], given["set_"] or ())
    return evolve_plan(below, {"features": given["features"], "evolve": steps}, given["windows"], given["workers"])


def test_a_model_is_written_and_told(find, tmp_path):
    """With the base that a file of settings names, unless an option names another."""
    (tmp_path / "evolve.toml").write_text('base = "sjf"\n[evolve]\ntried = 5\n')
    said = find("--settings", tmp_path / "evolve.toml")
    assert said.code == 0
    assert "best of 2 generations" in said.out
    assert read_model(tmp_path / "made.rltune").base == "sjf"
    curve = read_curve(curve_beside(tmp_path / "made.rltune"))
    assert [entry["generation"] for entry in curve] == sorted(entry["generation"] for entry in curve)
    best = read_model(tmp_path / "made.rltune").card.held_out
    assert min(entry["held_out"] for entry in curve) == best.cost_over_base
    assert find("--settings", tmp_path / "evolve.toml", "--base", "fcfs", "--force").code == 0
    assert read_model(tmp_path / "made.rltune").base == "fcfs"


def test_an_interrupt_leaves_the_best_so_far(find, tmp_path, monkeypatch):
    """And says how to go on from it."""

    @contextmanager
    def interrupted(_):
        def tell(generation, *_):
            if generation == 2:
                raise KeyboardInterrupt

        yield tell

    monkeypatch.setattr("rltune.cli.evolve_command.bar", interrupted)
    said = find("--generations", 4)
    assert said.code == 130
    assert said.err.splitlines()[-1].startswith("rltune: interrupted after 2 of 4 generations; ")
    assert "--resume goes on" in said.err
    assert read_model(tmp_path / "made.rltune").card.held_out.generation in {0, 2}


def test_what_was_interrupted_goes_on_to_the_same_model(find, rltune, history, two, tmp_path):
    """Two generations and two more are four; other settings, another file or none are refused."""
    assert find("--generations", 4).code == 0
    whole = read_model(tmp_path / "made.rltune")
    assert find("--generations", 2, "--force").code == 0
    said = find("--generations", 4, "--resume")
    assert said.code == 0
    assert "best of 4 generations" in said.out
    again = read_model(tmp_path / "made.rltune")
    assert again.weights.tolist() == whole.weights.tolist()
    assert again.card.held_out == whole.card.held_out
    assert "made with base = 'saf', not 'f1'" in find("--base", "f1", "--resume").err
    (tmp_path / "made.rltune.checkpoint").write_text('{"version": 1, "identity"')
    assert "no checkpoint of an evolution" in find("--resume").err
    (tmp_path / "made.rltune.checkpoint").unlink()
    assert "there is no checkpoint" in find("--resume").err


def test_several_traces_each_have_their_cluster(rltune, history, two, tmp_path):
    """As many clusters as traces, or one for all; the old --also still works and says so."""
    out = tmp_path / "made.rltune"
    assert rltune("evolve", history, history, "-c", f"{two},{two}", "-o", out, *SMALL).code == 0
    both = read_model(out).weights.tolist()
    old = rltune("evolve", history, "-c", two, "--also", f"{history}@{two}", "-o", out, "--force", *SMALL)
    assert "--also ends with the next release" in old.err
    assert read_model(out).weights.tolist() == both
    refused = rltune("evolve", history, "-c", f"{two},{two}", "-o", out, "--force", *SMALL)
    assert (refused.code, "1 traces and 2 clusters" in refused.err) == (2, True)


def test_the_settings_that_are_printed_are_those_that_are_usual(rltune, tmp_path):
    (tmp_path / "evolve.toml").write_text(rltune("evolve", "--print-settings").out)
    usual = evolve_plan({}, {}, None, workers=1)
    assert evolve_plan(read_settings(tmp_path / "evolve.toml"), {}, None, workers=1) == usual
    assert usual == EvolvePlan(evolve=EvolveSettings(windows=14, threads=1))


def test_the_commands_on_the_cards_of_shipped_models_mean_what_they_meant():
    """They are written in the old spelling."""
    card = "a.csv -c c -o m --features ahead --size 512 --pool 200 --generations 30 --windows 15 --bends 2 --tried 9"
    steps = EvolveSettings(generations=30, tried=9, windows=15, threads=1)
    meant = EvolvePlan(features="ahead", size=512, pool=200, bends=2, hidden=(8, 6), evolve=steps)
    assert plan_of(card) == meant
    assert modern("evolve", card.split())[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--set", "evolve.tryed=5"), "did you mean evolve.tried?"),
        (("--set", "evolve.threads=5"), "no setting 'evolve.threads'"),
        (("--set", "evolve.tried=3"), "4 or more"),
        (("--set", "hidden=2x2"), "needs layers of 3 units"),
        (("--set", "commit=1"), "setting commit should be"),
        (("--also", "x"), "write TRACE@CLUSTER"),
    ],
)
def test_a_mistake_is_one_sentence(find, words, sentence):
    said = find(*words)
    assert (said.code, said.out) == (2, "")
    assert sentence in said.err.splitlines()[-1]
