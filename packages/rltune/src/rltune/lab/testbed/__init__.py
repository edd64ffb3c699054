"""A real Slurm on this machine, with pretended GPUs, in one folder: to try things on, and for tests."""

from rltune.lab.testbed.bed import FOLDER, Testbed, end_testbed
from rltune.lab.testbed.debian_needs import missing

__all__ = ["FOLDER", "Testbed", "end_testbed", "missing"]
