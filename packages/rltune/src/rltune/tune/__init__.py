"""The answer from one's own history: which pipeline to run, chosen on one part of it and tested on a later one."""

from rltune.tune.choose_and_report import tune
from rltune.tune.tuning import Tuning

__all__ = ["Tuning", "tune"]
