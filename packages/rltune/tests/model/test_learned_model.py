"""A model's file: what was saved is what is read, and what is no such file is refused with a sentence."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from learn.looking import a_model

from rltune.errors import InputError
from rltune.model.card import Card
from rltune.model.feature_sets import FEATURES, RECIPES, get_recipe
from rltune.model.learned_model import Model, json_hash, n_weights
from rltune.model.model_file import VERSION, parse_model, read_model, save_model


def written(tmp_path, **changes):
    """Save a model; give its file and what was saved."""
    model = a_model("sampled", base="f1", drift="whole", card=Card(trace="philly", settings={"seed": 7}), **changes)
    path = tmp_path / "a.rltune"
    save_model(model, path)
    return path, model


def rewritten(path, **entries):
    """Change entries of a model's file and let its hash match again, as a later version's writer would."""
    body = {**json.loads(path.read_text()), **entries}
    body.pop("file_sha256")
    return json.dumps({**body, "file_sha256": json_hash(body)})


def same(a: Model, b: Model) -> bool:
    arrays = np.array_equal(a.weights, b.weights) and np.array_equal(a.norm, b.norm)
    rest = all(getattr(a, name) == getattr(b, name) for name in ("recipe", "hidden", "base", "drift", "card"))
    return arrays and rest


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_model_is_read_as_it_was_saved(tmp_path, recipe):
    """Weights to the bit, and everything else."""
    model = a_model(recipe, card=Card(trace="philly"))
    save_model(model, tmp_path / "m.rltune")
    assert same(read_model(tmp_path / "m.rltune"), model)


def test_the_same_model_has_the_same_hash_and_another_has_not(tmp_path):
    """The hash names this very model."""
    path, model = written(tmp_path)
    assert read_model(path).sha256 == model.sha256
    assert replace(model, weights=model.weights + 1.0).sha256 != model.sha256


def test_a_model_is_a_few_kilobytes(tmp_path):
    """Eight inputs and layers of 32 and 16 need 833 weights of four bytes."""
    model = a_model("sampled", (32, 16))
    save_model(model, tmp_path / "m.rltune")
    assert n_weights(8, (32, 16)) == 833
    assert (tmp_path / "m.rltune").stat().st_size < 8000


def test_saving_over_a_model_leaves_no_part_behind(tmp_path):
    """A file is replaced when the new one is whole."""
    path, _ = written(tmp_path)
    written(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_folder_that_is_not_there_is_said(tmp_path):
    """No traceback for a mistyped folder."""
    with pytest.raises(InputError, match="cannot be written: No such file"):
        save_model(a_model(), tmp_path / "none" / "m.rltune")


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_model(tmp_path / "none.rltune")


@pytest.mark.parametrize("text", ["", "not json", "[1, 2]", "{}", '{"format": "other", "version": 1}', "3"])
def test_a_foreign_file_is_refused(tmp_path, text):
    """Whatever it is, it is no model."""
    path = tmp_path / "f.rltune"
    path.write_text(text)
    with pytest.raises(InputError, match="is no model of rltune"):
        read_model(path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "f.rltune"
    path.write_bytes(b"\xff\xfe\x00\x01" * 9)
    with pytest.raises(InputError, match="cannot be read: not text"):
        read_model(path)


@pytest.mark.parametrize("version", [VERSION + 1, 99, 0, "2", None])
def test_a_newer_file_is_refused_though_it_is_whole(tmp_path, version):
    """A version that this one does not know is said, not guessed at."""
    path, _ = written(tmp_path)
    with pytest.raises(InputError, match=f"is of version {version}; this rltune reads up to {VERSION}"):
        parse_model(rewritten(path, version=version), "m")


def test_every_damaged_byte_is_noticed(tmp_path):
    """A changed character anywhere makes a file that is refused, or one that says the same."""
    path, model = written(tmp_path, hidden=(2, 2))
    text = path.read_text()
    noticed = 0
    for at in range(0, len(text), 7):
        changed = text[:at] + ("x" if text[at] != "x" else "y") + text[at + 1 :]
        try:
            assert same(parse_model(changed, "m"), model), f"a change at {at} went unnoticed"
        except InputError:
            noticed += 1
    assert noticed > len(text) // 20


def test_a_cut_file_is_refused(tmp_path):
    """A download that broke off is no model."""
    path, _ = written(tmp_path)
    for share in (0.2, 0.5, 0.9):
        with pytest.raises(InputError):
            parse_model(path.read_text()[: int(share * len(path.read_text()))], "m")


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ({"weights": "AAAAAA=="}, "has not 1 weights"),
        ({"weights": "no base64!"}, "is damaged"),
        ({"hidden": [6]}, "is damaged"),
        ({"norm": [[0, 1, 0, 1]]}, "not as many"),
        ({"inputs": ["gpus", "moon phase"]}, "is damaged"),
        ({"base": "lottery"}, "no base policy 'lottery'"),
        ({"drift": "maybe"}, "no drift 'maybe'"),
        ({"card": None, "hidden": None}, "is damaged"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path, entries, why):
    """A matching hash does not make nonsense a model."""
    path, _ = written(tmp_path)
    with pytest.raises(InputError, match=why):
        parse_model(rewritten(path, **entries), "m")


def test_weights_that_are_not_finite_are_refused(tmp_path):
    """A training that has blown up gives no model."""
    model = a_model("gpus", (2, 2), weights=np.full(13, np.nan))
    save_model(model, tmp_path / "m.rltune")
    with pytest.raises(InputError, match="not finite"):
        read_model(tmp_path / "m.rltune")


def test_features_are_named_or_listed():
    """A recipe is known by name, or is names of features joined by +."""
    assert get_recipe("naive").inputs == RECIPES["naive"].inputs
    assert get_recipe("gpus+busy").inputs == ("gpus", "busy")
    assert get_recipe("wide+vc+gpus").inputs == (*RECIPES["wide"].inputs, "vc")  # a list may be among them
    with pytest.raises(InputError, match="no features 'sampled'"):
        get_recipe("sampled+gpus")  # the situation decides about its slots
    with pytest.raises(InputError, match="no features 'colour'; there are: sampled"):
        get_recipe("gpus+colour")


def test_the_paper_has_seventeen_features():
    """Table 3 of the paper, in its order, and ours after them."""
    assert RECIPES["paper-17"].inputs == FEATURES[:17]
    assert [len(RECIPES[name].inputs) for name in ("sampled-7", "sampled", "sampled-9")] == [7, 8, 9]


def test_the_reference_has_every_feature_and_recipe():
    """Whatever `--features` takes stands in the documentation."""
    text = (Path(__file__).parents[4] / "docs" / "reference" / "features.md").read_text()
    assert [name for name in FEATURES if f"| `{name}` |" not in text] == []
    assert [name for name in RECIPES if f"`{name}`" not in text] == []
