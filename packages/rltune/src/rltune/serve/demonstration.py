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
PIPELINES = ("fcfs + easy", "saf + easy")  # whose schedule is played, and who watches
_LOAD = 1.1  # so that there is a queue to look at
_JOBS = 12_000
_BEGIN = 0.3  # of the jobs have come before the play begins


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
    clock = SystemClock(factor=speed, shown_s=now, at_s=now)
    settings = ControlSettings(pipeline=PipelineSettings(policy="saf", estimator="history"))
    controller = Controller(PlayedCluster(schedule, clock, begin), Journal.create(path), settings, clock)
    controller.cycle()  # so that there is something to see at once
    return Demo(path, controller, threading.Thread(target=controller.run, name="demo controller", daemon=True))
