"""A network that scores jobs that take turns, waiting or running, written without numpy and without the core."""

import math
from dataclasses import dataclass

from reference.ask import Job
from reference.remaining import best_rate


@dataclass(frozen=True)
class Network:
    inputs: tuple[str, ...]
    hidden: tuple[int, ...]
    weights: tuple[float, ...]
    norm: tuple[tuple[float, float], ...]  # shift and scale of every input

    @classmethod
    def of(cls, model) -> "Network":
        return cls(model.recipe.inputs, model.hidden, tuple(model.weights), tuple(map(tuple, model.norm[:, :2])))

    def score(self, m, job: Job) -> float:
        """GPU-seconds: e to the power of minus the logit."""
        raw = [FEATURES[name](m, job) for name in self.inputs]
        x = [(value - shift) * scale for value, (shift, scale) in zip(raw, self.norm, strict=True)]
        return math.exp(min(-self._logit(x), 600.0))

    def _logit(self, x: list[float]) -> float:
        at = 0
        for width in self.hidden:
            bias = at + len(x) * width
            y = [self.weights[bias + o] for o in range(width)]
            for i, value in enumerate(x):
                y = [y[o] + value * self.weights[at + i * width + o] for o in range(width)]
            x, at = [max(v, 0.0) for v in y], bias + width
        out = self.weights[at + len(x)]
        for i, value in enumerate(x):
            out += self.weights[at + i] * value
        return out


def _n(job: Job) -> int:
    return max(1, job.gpus)


FEATURES = {
    "gpus": lambda _, job: math.log1p(job.gpus),
    "requested_time": lambda _, job: math.log1p(job.estimate),
    "job_size": lambda _, job: math.log1p(_n(job) * job.estimate),
    "submit_time": lambda m, job: math.log1p(max(0.0, m.now - job.submit)),
    "urgency": lambda m, job: math.log1p(max(0.0, m.now - job.submit) / max(job.estimate, 60.0)),
    "queue_length": lambda m, _: math.log1p(m.queue_length),
    "attained": lambda _, job: math.log1p(_n(job) * job.service),
    "displaced": lambda _, job: float(job.preemptions),
    "index": lambda m, job: math.log1p(_n(job) / best_rate(m, job, job.saved)),
    "willing": lambda _, job: float(job.preemptible),
    "runs": lambda m, job: float(any(run.job.index == job.index for run in m.running)),
}
