"""What if: another policy, other nodes, limits, load or partitions, on a history or on the present queue."""

from rltune.whatif.edits import Edit, parse_edit
from rltune.whatif.on_history import what_if
from rltune.whatif.on_present import what_if_now
from rltune.whatif.outcome_of_change import Solved, WhatIf
from rltune.whatif.solve_target import Target, solve

__all__ = ["Edit", "Solved", "Target", "WhatIf", "parse_edit", "solve", "what_if", "what_if_now"]
