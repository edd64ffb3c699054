"""One row of the table of faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rltune.lab.faults.scene import Scene

Doing = Callable[[Scene], None]


@dataclass(frozen=True)
class Fault:
    """What happens, and how it is mended."""

    name: str
    strike: Doing
    mend: Doing = lambda _: None
    cheap: bool = False  # it is in the tests as well
    heavy: bool = False  # it takes minutes, so it must be asked for
