"""The demonstration: a played cluster, a real controller that watches it, and its journal, all in this process."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rltune.cluster import Cluster
from rltune.engine.simulate import simulate
from rltune.live.clock import SystemClock
from rltune.live.control_settings import ControlSettings, PipelineSettings
from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.serve.played_cluster import PlayedCluster
from rltune.trace.synthetic import synthesise

CLUSTER = "philly-slice"
# As `rltune train synth:philly,jobs=6000,load=1.0 -c philly-slice --epochs 16 --windows 16x128` went.
TRAINING = Path(__file__).parent / "assets" / "demo-training"
PIPELINES = ("fcfs + easy", "saf + easy")  # whose schedule is played, and who watches
_LOAD = 0.9  # so that there is a queue to look at
_JOBS = 12_000
_BEGIN = 0.5  # of the jobs have come before the play begins
_BEFORE_S = 86_400.0  # watched in advance, so that charts and histories are not empty at first
_STEP_S = 1800.0  # between two looks of that time


@dataclass(frozen=True)
class Demo:
    """A demonstration that runs."""

    journal: Path
    controller: Controller
    thread: threading.Thread


@contextmanager
def demonstration(speed: float = 60.0, jobs: int = _JOBS, seed: int = 0) -> Iterator[Demo]:
    """Play a made-up history at a speed, watched by a controller in shadow, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="rltune-demo-") as folder:
        demo = _begin(Path(folder) / "journal.db", speed, jobs, seed)
        demo.thread.start()
        try:
            yield demo
        finally:
            demo.controller.stop()
            demo.thread.join(timeout=60)


def _begin(path: Path, speed: float, jobs: int, seed: int) -> Demo:
    cluster = Cluster.load(CLUSTER)
    work = synthesise("philly", jobs=jobs, seed=seed, load=_LOAD, cluster=cluster)
    schedule = simulate(work, cluster, policy="fcfs", backfill="easy", estimator="user")
    begin = float(np.quantile(work.submit_s, _BEGIN))
    now = time.time()
    clock = _PlayClock(factor=speed, shown_s=now - _BEFORE_S, at_s=now)
    settings = ControlSettings(pipeline=PipelineSettings(policy="saf", estimator="history"))
    played = PlayedCluster(schedule, clock, begin - _BEFORE_S, remembered_s=2 * _STEP_S)
    controller = Controller(played, Journal.create(path), settings, clock)
    _watch_until(now, controller, clock)
    return Demo(path, controller, threading.Thread(target=controller.run, name="demo controller", daemon=True))


def _watch_until(end_s: float, controller: Controller, clock: _PlayClock) -> None:
    """Let the controller look at the time before the play, in large steps; the clock then stands at `end_s`."""
    for shown_s in np.arange(end_s - _BEFORE_S, end_s + 1.0, _STEP_S):
        clock.skip_to(float(shown_s))
        controller.cycle()
    clock.skip_to(end_s)


@dataclass
class _PlayClock(SystemClock):
    """A clock that can be put on; no time passes unseen, as a clock that jumps would make a controller distrust it."""

    skipped_s: float = 0.0

    def skip_to(self, shown_s: float) -> None:
        """Go on from another time."""
        self.skipped_s += shown_s - self.now_s()

    def now_s(self) -> float:
        return super().now_s() + self.skipped_s

    def elapsed_s(self) -> float:
        return super().elapsed_s() + self.skipped_s
