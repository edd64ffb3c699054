"""Settings and scores of jobs that take turns."""

from dataclasses import dataclass

from reference.ask import Job

LEVELS = (3600.0, 36000.0)  # GPU-seconds


@dataclass(frozen=True)
class Turns:
    order: str
    min_run: float = 600.0
    max_preemptions: int = 5
    turn: float = 300.0


def left(estimate: float, done: float) -> float:
    """What is believed to be left after so much work."""
    return estimate - done if estimate > done else done / 2


def turn_score(order: str, job: Job) -> float:
    """Score a job as it waits; a running one is asked about as if it were stopped without loss."""
    n = max(1, job.gpus)
    if order == "las":
        return float(sum(n * job.service >= level for level in LEVELS))
    return n * left(job.whole, job.saved)
