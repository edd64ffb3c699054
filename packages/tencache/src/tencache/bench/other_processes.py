"""Notices what other processes take of the machine while something is timed."""

import os
import time
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_STAT = Path("/proc/stat")


def others_busy_s() -> float:
    """Return the CPU seconds that all other processes have used; a constant where the system does not tell."""
    try:
        fields = _STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, _idle, _wait, irq, soft_irq, steal = map(int, fields)
    return (user + nice + system + irq + soft_irq + steal) / _TICKS_PER_S - time.process_time()
