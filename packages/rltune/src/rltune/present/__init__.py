"""One moment of a cluster as a value, wherever it comes from: what explain, forecast and what-if are asked about."""

from rltune.present.present import Aside, Present, SetAside, Why

__all__ = ["Aside", "Present", "SetAside", "Why"]
