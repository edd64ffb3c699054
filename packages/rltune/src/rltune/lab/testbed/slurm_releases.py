"""Releases of Slurm that a testbed can run beside the machine's own: each is Debian's, from another suite."""

from __future__ import annotations

from dataclasses import dataclass

from rltune.errors import InputError

_PACKAGES = (
    "munge",
    "slurmctld",
    "slurmd",
    "slurm-client",
    "slurmdbd",
    "slurmrestd",
    "slurm-wlm-jwt-plugin",
    "mariadb-server",
    "faketime",
)


@dataclass(frozen=True)
class SlurmRelease:
    """What a release needs. Everything but its name has been found by trying."""

    name: str  # as Slurm counts: year and month
    suite: str  # of Debian
    packages: tuple[str, ...] = _PACKAGES
    borrowed: tuple[str, str] | None = None  # (suite, package): a library that its slurmdbd needs instead of its own
    of_mariadbd: tuple[str, ...] = ()  # further words


RELEASES = (
    SlurmRelease("24.11", "trixie"),
    # Its slurmdbd dies of libmariadb 11.8.9 ("Number of columns in result"), and asks for the older isolation.
    SlurmRelease("26.05", "sid", borrowed=("trixie", "libmariadb3"), of_mariadbd=("--innodb-snapshot-isolation=OFF",)),
)
BORROWED = "/opt/borrowed"  # where a borrowed library lies within the release's folder


def release_named(name: str) -> SlurmRelease:
    """Find a release by its name."""
    for release in RELEASES:
        if release.name == name:
            return release
    known = " and ".join(release.name for release in RELEASES)
    raise InputError(f"no release {name} can be made here; {known} can, and without --release it is this machine's own")
