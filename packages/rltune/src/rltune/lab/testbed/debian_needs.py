"""What a testbed needs of the machine, and the Debian packages that have it."""

from __future__ import annotations

import os
import shutil

from rltune.errors import InputError
from rltune.lab.testbed.release_folder import COMMAND, cannot_be_made, is_made
from rltune.lab.testbed.slurm_releases import release_named

PACKAGE_OF = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "squeue": "slurm-client",
}
WITH_DATABASE = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server"}
WITH_CLOCK = {"faketime": "faketime"}
WITH_REST = {"slurmrestd": "slurmrestd slurm-wlm-jwt-plugin"}


def missing(*, database: bool = False, clock: bool = False, rest: bool = False, release: str = "") -> str:
    """Return in one sentence why there can be no testbed here; "" if there can. Another release must have been made."""
    if os.geteuid() != 0:
        return "a testbed needs root: Slurm's daemons start jobs as their users"
    if release:
        return _missing_release(release)
    wanted = PACKAGE_OF | (WITH_DATABASE if database else {}) | (WITH_CLOCK if clock else {})
    wanted |= WITH_REST if rest else {}
    packages = [package for program, package in wanted.items() if shutil.which(program) is None]
    if packages:
        return f"a testbed needs Debian's packages {' '.join(packages)}: apt-get install {' '.join(packages)}"
    return ""


def _missing_release(name: str) -> str:
    release = release_named(name)
    if is_made(release):
        return ""
    return cannot_be_made() or f"Slurm {name} has not been made here; `{COMMAND} {name}` makes it, once"


def require(*, database: bool, clock: bool, rest: bool = False, release: str = "") -> None:
    """Refuse if there can be no testbed here."""
    if reason := missing(database=database, clock=clock, rest=rest, release=release):
        raise InputError(reason)
