"""A real Slurm on this machine, with pretended GPUs, in one folder: to try things on, and for tests."""

from rltune.live.slurm.testbed.bed import FOLDER, Testbed
from rltune.live.slurm.testbed.needs import missing

__all__ = ["FOLDER", "Testbed", "missing"]
