"""Policies: who runs next. Rules are scored in the compiled core; a user's own is a Python function."""

from rltune.policy.base import Policy, QueueView, Rule
from rltune.policy.by_name import get_policy, policy_table

__all__ = ["Policy", "QueueView", "Rule", "get_policy", "policy_table"]
