"""What tests on a real Slurm need of the machine, and what they have to wait for."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from rltune.lab.testbed import Testbed, missing

RELEASES = ["", "24.11", "26.05"]  # "" = the machine's own
NAMES = ["own", *RELEASES[1:]]
EVERYWHERE = os.environ.get("RLTUNE_SLURM") == "all"  # run all that can be on every release and by every way


def require_slurm(**needs) -> None:
    """Skip, with the reason, where no Slurm can be had; never in CI, and never as root on Debian."""
    reason = missing(**needs)
    if reason and (os.environ.get("CI") or (os.geteuid() == 0 and Path("/etc/debian_version").exists())):
        pytest.fail(f"{reason} (or run scripts/setup tests)")
    if reason:
        pytest.skip(reason)


def has_rest() -> bool:
    """Return whether a slurmrestd can be had beside the machine's own Slurm."""
    return not missing(rest=True)


def require_rest(bed) -> None:
    """Skip, with the packages that are missing, where a testbed has no slurmrestd; never in CI."""
    if not bed.rest:
        require_slurm(rest=True)


class ThroughRest:
    """A testbed that tests drive through its slurmrestd and nothing else."""

    def __init__(self, bed) -> None:
        require_rest(bed)
        self._bed = bed

    def __getattr__(self, name):
        return getattr(self._bed, name)

    def backend(self, *, as_operator: bool = False):
        return self.backend_of("slurm" if as_operator else "root")

    def waiting_jobs(self):
        return self.backend().observe().pending

    def backend_of(self, user: str):
        """Return what an account drives, by a token of its own."""
        rest, file = self._bed.rest_backend(), self._bed.folder / f"etc/token.{user}"
        if not file.exists():
            self._bed.make_token(user, file=file)
        return replace(rest, place=replace(rest.place, token_file=str(file)))


def require_release(release: str) -> None:
    """Skip, with the command that helps, where a release of Slurm has not been made; "" is the machine's own."""
    if not release:
        require_slurm()
    elif reason := missing(release=release):
        pytest.skip(reason)


def site_factors(bed: Testbed) -> dict[int, int | None]:
    """Return the SiteFactor of every waiting job; None of those that do not compete."""
    return {job.id: job.site_factor for job in bed.waiting_jobs()}


def short_folder() -> Path:
    """Make a folder that other accounts may enter, with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="rltune-"))
    folder.chmod(0o755)
    return folder
