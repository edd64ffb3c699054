"""How far a replay of a history is from what happened, why, and what the history itself tells of the site."""

from rltune.calibration.calibrate import Calibration, calibrate

__all__ = ["Calibration", "calibrate"]
