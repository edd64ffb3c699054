"""Policies by name, and that the reference speaks of all of them."""

from pathlib import Path

import pytest

from rltune.estimate import NAMES
from rltune.policy import Policy, get_policy, policy_table
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
