"""The answer from one's own history: which pipeline to run, chosen on one part of it and tested on a later one."""

from rltune.tune.tuning import Tuning, tune

__all__ = ["Tuning", "tune"]
