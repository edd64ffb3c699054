"""What one cycle of the controller came to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class CycleReport:
    """What one cycle came to."""

    outcome: str = "ok"  # ok, failed
    cycle: int = 0  # in the journal
    waiting: int = 0
    starts: int = 0
    changes: int = 0  # made
    refused: int = 0
    postponed: int = 0
    gave_way: int = 0  # running jobs that were told to stop
    acting: bool = False
    decide_s: float = 0.0
    seconds: float = 0.0
    events: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.outcome != "ok":
            return f"cycle failed: {'; '.join(self.events)}"
        done = f"{self.changes} changes" if self.acting or self.changes else "no changes made"
        late = f", {self.postponed} postponed" if self.postponed else ""
        refused = f", {self.refused} refused" if self.refused else ""
        gave_way = f", {self.gave_way} give way" if self.gave_way else ""
        what = f"{self.waiting} waiting, {self.starts} should start, {done}{refused}{late}{gave_way}"
        return f"cycle {self.cycle}: {what}, {self.seconds:.2f} s"
