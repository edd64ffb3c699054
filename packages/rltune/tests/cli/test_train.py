"""`rltune train`, as a user runs it."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from rltune.cli.training_curve import BARS, sparkline
from rltune.model.curve_file import curve_beside, read_curve
from rltune.model.model_file import read_model

WINDOWS = ("--windows", "4x40:contended=10")
QUICK = {"pool": 8, "held_windows": 2, "held_size": 40, "held_every": 1, "hidden": "8x8", "imitate": 1, "ppo.passes": 1}
SETTINGS = [word for key, value in QUICK.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture
def learn(rltune, history, two, tmp_path):
    """Train for two short epochs, with these options too."""

    def run(*words: object, out="made.rltune"):
        return rltune("train", history, "-c", two, "-o", tmp_path / out, "--epochs", 2, *WINDOWS, *SETTINGS, *words)

    return run


def test_a_model_is_written_and_told(learn, rltune, tmp_path):
    """With its card; the same file can be shown and checked."""
    said = learn()
    assert said.code == 0
    assert "held-out windows of" in said.out
    assert "of saf's" in said.out
    card = read_model(tmp_path / "made.rltune").card
    assert card.settings["epochs"] == 2
    assert card.cluster == "two (2 nodes, 8 GPUs)"
    shown = rltune("model", "show", tmp_path / "made.rltune")
    assert "held out cost over base" in shown.out
    assert json.loads(rltune("model", "show", tmp_path / "made.rltune", "--json").out)["card"] == card.to_dict()
    assert rltune("model", "check", tmp_path / "made.rltune").code == 0


def test_the_placement_to_learn_under_is_an_option(learn, tmp_path):
    """It reaches the card; a word that is no placement is refused."""
    assert learn("--placement", "exclusive").code == 0
    assert read_model(tmp_path / "made.rltune").card.settings["placement"] == "exclusive"
    said = learn("--placement", "tight", "--force")
    assert said.code == 2
    assert "no placement 'tight'" in said.err


def test_a_training_is_resumed_to_the_same_file(learn, tmp_path):
    """One epoch, then a second, is two epochs."""
    learn(out="whole.rltune")
    learn("--epochs", 1, out="parts.rltune")
    said = learn("--resume", out="parts.rltune")
    assert said.code == 0
    whole, parts = (read_model(tmp_path / name) for name in ("whole.rltune", "parts.rltune"))
    assert parts.weights.tolist() == whole.weights.tolist()
    assert parts.card.held_out == whole.card.held_out
    assert parts.card.lessons == whole.card.lessons
    curves = [read_curve(curve_beside(tmp_path / name)) for name in ("whole.rltune", "parts.rltune")]
    assert [[entry["epoch"] for entry in curve] for curve in curves] == [[0, 1, 2]] * 2
    assert curves[0][-1]["reward"] == curves[1][-1]["reward"]


def test_going_on_from_a_model_that_has_seen_what_chooses_is_told(learn, tmp_path):
    """The held-out score of such a training flatters it, and the card counts the jobs of both."""
    assert "was chosen on" not in learn(out="first.rltune").err
    said = learn("--init", tmp_path / "first.rltune", out="second.rltune")
    assert said.code == 0
    assert "was chosen on 150 of the 150 jobs of the validation part" in said.err
    assert len(read_model(tmp_path / "second.rltune").card.lessons.spans) == 4


def test_a_file_that_exists_is_not_replaced(learn, tmp_path):
    """Unless forced."""
    (tmp_path / "made.rltune").write_text("mine")
    said = learn()
    assert said.code == 2
    assert "--force" in said.err
    assert (tmp_path / "made.rltune").read_text() == "mine"


def test_scalars_are_written_for_tensorboard(learn, tmp_path):
    """One point an epoch, under the names of CleanRL."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    learn("--tensorboard", tmp_path / "board")
    found = EventAccumulator(str(tmp_path / "board"))
    found.Reload()
    assert {"losses/approx_kl", "losses/entropy", "charts/SPS", "charts/held_out_cost_over_base"} <= set(
        found.Tags()["scalars"]
    )
    assert [event.step for event in found.Scalars("losses/policy_loss")] == [1, 2]


def test_a_model_can_be_the_beginning(learn, tmp_path):
    """And one of other features cannot."""
    learn(out="first.rltune")
    assert learn("--init", tmp_path / "first.rltune", out="second.rltune").code == 0
    said = learn("--init", tmp_path / "first.rltune", "--features", "naive", out="third.rltune")
    assert said.code == 2
    assert "same features" in said.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--objective", "speed"), "no objective 'speed'"),
        (("--p99", "soon"), "1.5x"),
        (("--base", "best"), "no base policy"),
        (("--set", "reward=never"), "no reward 'never'"),
        (("--backfill", "conservative"), "no backfill to train under"),
        (("--features", "nothing"), "no features 'nothing'"),
        (("--set", "hidden=32x"), "two widths or three"),
        (("--estimator", "guess"), "no estimator 'guess'"),
        (("--set", "variation.cluster=1.5"), "can be varied"),
        (("--windows", "4x40:contended=1e9"), "lower contended="),
        (("--windows", "whole"), "100x256"),
        (("--set", "hiden=8x8"), "did you mean hidden?"),
        (("--set", "ppo.entrpy=1"), "did you mean ppo.entropy?"),
        (("--set", "p9=1x"), "did you mean p99?"),
        (("--set", "epochs"), "write KEY=VALUE"),
        (("--set", "imitate=some"), "setting imitate should be something like 10"),
        (("--set", "imitate=-1"), "setting imitate should be 0 or more"),
        (("--set", "ppo.clip=inf"), "setting ppo.clip should be"),
        (("--set", "ppo=3"), "setting ppo should be a table"),
        (("--settings", "nowhere.toml"), "nowhere.toml: cannot be read"),
        (("--resume",), "no checkpoint"),
        (("--init", "nowhere.rltune"), "cannot be read"),
    ],
)
def test_a_mistake_is_one_sentence(learn, words, sentence):
    """And exit code 2; no file is written."""
    said = learn(*words)
    assert said.code == 2
    assert sentence in said.err
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1


def test_a_settings_file_says_what_options_do_not(learn, tmp_path):
    """Options win over --set, and that over the file."""
    file = tmp_path / "train.toml"
    file.write_text('seed = 3\nbase = "sjf"\nestimators = ["oracle"]\n[ppo]\nentropy = 0.01\n')
    assert learn("--settings", file, "--set", "base=fcfs", "--seed", 5).code == 0
    model = read_model(tmp_path / "made.rltune")
    assert (model.base, model.card.settings["seed"], model.card.settings["ppo entropy"]) == ("fcfs", 5, 0.01)
    file.write_text("epochs = [")
    assert "is no TOML" in learn("--settings", file, out="other.rltune").err


def test_the_settings_that_are_printed_are_those_that_are_usual(rltune, tmp_path):
    """So the file may be given as it is."""
    from rltune.cli.train_command import train_settings
    from rltune.cli.training_settings_file import read_settings
    from rltune.learn.train_settings import TrainSettings

    said = rltune("train", "--print-settings")
    assert said.code == 0
    (tmp_path / "train.toml").write_text(said.out)
    assert train_settings(read_settings(tmp_path / "train.toml"), {}, None) == TrainSettings()


def test_without_torch_it_says_how_to_install_it(learn, monkeypatch):
    """In one sentence."""
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "torch" else real(name, *more))
    said = learn()
    assert said.code == 2
    assert said.err.strip() == "rltune: training needs torch: pip install 'rltune[train]'"


@pytest.mark.slow
def test_ctrl_c_writes_the_best_model_so_far_and_can_be_resumed(history, two, tmp_path):
    """With exit code 130, and a word on how to go on."""
    out = tmp_path / "made.rltune"
    words = ["train", history, "-c", two, "-o", out, "--epochs", 5000, *WINDOWS, *SETTINGS, "--set", "patience=0"]
    command = [sys.executable, "-c", "from rltune.cli import main; main()", *map(str, words)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        while not (tmp_path / "made.rltune.checkpoint").exists():
            assert process.poll() is None
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "--resume" in err
    assert "Traceback" not in err
    assert len(read_model(out).weights) > 0


def test_the_curve_is_drawn_on_a_logarithmic_scale():
    """Highest first here; of a long one only the last part, of an equal one the lowest bar."""
    assert sparkline([100.0, 10.0, 1.0]) == BARS[7] + BARS[4] + BARS[0]
    assert len(sparkline(list(np.linspace(1, 2, 500)))) == 60
    assert sparkline([3.0, 3.0]) == BARS[0] * 2
    assert sparkline([]) == ""
