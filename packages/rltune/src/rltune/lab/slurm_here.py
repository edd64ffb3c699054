"""Whether experiments on a real Slurm can be made on this machine."""

from __future__ import annotations

from rltune.lab.testbed import missing


def slurm_available() -> str | None:
    """Return in one sentence why no experiment on Slurm can be made here; None if it can."""
    return missing(database=True, clock=True) or None
