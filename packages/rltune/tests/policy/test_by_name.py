"""Policies by name, and that the reference speaks of all of them."""

from pathlib import Path

import pytest
from learn.looking import a_model

from rltune.errors import InputError
from rltune.estimate import NAMES
from rltune.model.card import Card
from rltune.model.model_file import save_model
from rltune.policy import Policy, get_policy, policy_table
from rltune.policy import by_name as registry
from rltune.policy.base import Networked
from rltune.policy.multifactor import Multifactor

DOCS = Path(__file__).parents[4] / "docs" / "reference"


@pytest.mark.parametrize("rule", policy_table(), ids=lambda rule: rule.name)
def test_every_policy_is_found_by_its_name_and_says_what_it_is(rule):
    assert get_policy(rule.name) is rule
    assert isinstance(rule, Policy)
    assert rule.about


def test_a_policy_is_taken_as_an_object():
    policy = Multifactor(age=5.0)
    assert get_policy(policy) is policy


def test_the_reference_has_every_policy():
    text = (DOCS / "policies.md").read_text()
    assert [rule.name for rule in policy_table() if f"| `{rule.name}` |" not in text] == []


def test_the_reference_has_every_estimator():
    text = (DOCS / "estimators.md").read_text()
    assert [name for name in NAMES if f"| `{name.partition('[')[0]}" not in text] == []


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Let a folder be that of the models that ship."""
    monkeypatch.setattr(registry, "MODELS", tmp_path / "models")
    return tmp_path / "models"


def test_a_model_is_taken_by_its_file(tmp_path):
    """It is named in results as its file is, without folder and suffix."""
    save_model(model := a_model("sampled"), tmp_path / "mine.rltune")
    policy = get_policy(str(tmp_path / "mine.rltune"))
    assert isinstance(policy, Networked)
    assert policy.name == "mine"
    assert policy.model.sha256 == model.sha256


def test_a_shipped_model_is_taken_by_its_name_and_one_is_the_default(shipped):
    """`learned` is the one for any workload."""
    shipped.mkdir()
    for seed, name in enumerate(("anywhere", "philly")):
        save_model(a_model("sampled", seed=seed, card=Card(trace=name)), shipped / f"{name}.rltune")
    assert registry.shipped_models() == ("anywhere", "philly")
    assert registry.model_names() == ("learned", "learned:anywhere", "learned:philly")
    assert get_policy("learned").model.card.trace == "anywhere"
    assert get_policy("learned:philly").model.card.trace == "philly"
    assert (get_policy("learned").name, get_policy("learned:philly").name) == ("learned", "learned:philly")


def test_a_model_that_does_not_ship_is_said(shipped):
    """One sentence that names those that do, or says that there is none."""
    with pytest.raises(InputError, match=r"no model 'anywhere' ships with this package; there is none; `rltune train`"):
        get_policy("learned")
    shipped.mkdir()
    save_model(a_model(), shipped / "philly.rltune")
    with pytest.raises(InputError, match="no model 'venus' ships with this package; there are: philly"):
        get_policy("learned:venus")


def test_an_unknown_policy_is_answered_with_all_there_are():
    with pytest.raises(
        InputError, match=r"no policy 'lotto'; there are: fcfs, .*, learned, learned:NAME, a model's file"
    ):
        get_policy("lotto")


@pytest.mark.parametrize("name", registry.shipped_models())
def test_every_shipped_model_can_be_read(name):
    """Whatever ships is whole and of a version that is known."""
    assert isinstance(get_policy(f"learned:{name}"), Networked)
