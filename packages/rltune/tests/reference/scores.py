"""The table of scores; lower runs first."""

import math

from reference.ask import Job

SMALL = 1e-15


def score(policy: str, job: Job, now: float) -> float:
    n = max(1, job.gpus)
    return FORMULAS[policy](job.submit, now - job.submit, job.estimate, n)


def _fcfs(s: float, w: float, r: float, n: int) -> float:
    return s


def _sjf(s: float, w: float, r: float, n: int) -> float:
    return r


def _srf(s: float, w: float, r: float, n: int) -> float:
    return float(n)


def _saf(s: float, w: float, r: float, n: int) -> float:
    return n * r


def _wfp3(s: float, w: float, r: float, n: int) -> float:
    x = w / max(r, SMALL)
    return -(x * x * x) * n


def _unicep(s: float, w: float, r: float, n: int) -> float:
    return -w / (max(math.log2(n), SMALL) * max(r, SMALL))


def _f1(s: float, w: float, r: float, n: int) -> float:
    return math.log10(_positive(r)) * n + 870.0 * math.log10(_positive(s))


def _positive(x: float) -> float:
    return x if x > 0 else 0.1


FORMULAS = {"fcfs": _fcfs, "sjf": _sjf, "srf": _srf, "saf": _saf, "wfp3": _wfp3, "unicep": _unicep, "f1": _f1}
