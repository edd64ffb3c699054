"""Whether an account may change others' jobs, by what Slurm's settings and its accounting say of it."""

from __future__ import annotations

import re

from rltune.live.slurm import scontrol_show as show

_ROOT = "root"
_LEVELS = "accounting_storage/slurmdbd"  # without it nobody is an Operator
_PLAIN = "None"
_NAME = re.compile(r"[\w.@$-]+")


def is_slurms_own(user: str, config: str) -> bool:
    """Return whether an account is root or Slurm's own; so is one that is not told, and all if Slurm's is not."""
    own = show.config(config, "SlurmUser").partition("(")[0]
    return not own or user in {_ROOT, own} or not _NAME.fullmatch(user)


def has_levels(config: str) -> bool:
    """Return whether accounts can have rights; where nothing is told they can."""
    return show.config(config, "AccountingStorageType") in {"", _LEVELS}


def question(user: str) -> tuple[str, ...]:
    """Spell the command that tells the level of an account, and which accounts it coordinates."""
    return ("sacctmgr", "-n", "-P", "show", "user", "withcoord", "where", f"name={user}", "format=user,admin,coord")


def may_drive(user: str, levels: str) -> bool:
    """Read the answer; who is not in it has no level."""
    rows = (line.split("|") for line in levels.splitlines())
    return any(row[0] == user and (row[1] != _PLAIN or any(row[2:])) for row in rows if len(row) > 1)
