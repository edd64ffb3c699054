"""Slurm's commands for a testbed of another release: programs by the same names, which enter where it runs."""

from __future__ import annotations

from pathlib import Path

from rltune.lab.testbed.daemon_parent import PATH
from rltune.lab.testbed.slurm_conf import OPERATOR
from rltune.whole_file import write_whole

DOORS = "bin"  # the folder of them within the testbed's
AS_OPERATOR = "as-operator"  # runs its words there, as an account without privileges
TO_OPERATOR = ("setpriv", f"--reuid={OPERATOR}", f"--regid={OPERATOR}", "--clear-groups")
_COMMANDS = (
    "sacct",
    "sacctmgr",
    "salloc",
    "sbatch",
    "scancel",
    "scontrol",
    "sdiag",
    "sinfo",
    "sprio",
    "squeue",
    "srun",
    "sshare",
)
# The PATH is set here: with the caller's, a door would find itself again behind itself.
_DOOR = """#!/bin/sh
read -r parent <'{folder}/run/parent.pid'
PATH={path}
exec nsenter --target="$parent" --mount --root --wd {words} "$@"
"""


def write_doors(folder: Path) -> None:
    """Write them; only root can go through."""
    doors = folder / DOORS
    doors.mkdir()
    for name, words in {**{name: name for name in _COMMANDS}, AS_OPERATOR: " ".join(TO_OPERATOR)}.items():
        write_whole(doors / name, _DOOR.format(folder=folder, path=PATH, words=words))
        (doors / name).chmod(0o755)
