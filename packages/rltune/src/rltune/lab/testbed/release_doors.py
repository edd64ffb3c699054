"""Slurm's commands for a testbed of another release: programs by the same names, which enter where it runs."""

from __future__ import annotations

from pathlib import Path

from rltune.lab.testbed.daemon_parent import PATH
from rltune.whole_file import write_whole

DOORS = "bin"  # the folder of them within the testbed's
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
exec nsenter --target="$parent" --mount --root --wd {name} "$@"
"""


def write_doors(folder: Path) -> None:
    """Write them; only root can go through."""
    doors = folder / DOORS
    doors.mkdir()
    for name in _COMMANDS:
        write_whole(doors / name, _DOOR.format(folder=folder, path=PATH, name=name))
        (doors / name).chmod(0o755)
