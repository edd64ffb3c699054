"""Several runs of an experiment at a time, each in a process and on a testbed of its own.

Not by `spread`, whose workers finish what they are at when Ctrl-C comes: a run takes an hour.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rltune.errors import InputError
from rltune.lab.experiment.experiment_plan import Arm, ExperimentPlan, path_of
from rltune.lab.experiment.one_run import run

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

LOOK_S = 0.5
END_S = 60.0  # for a testbed to be taken down
Told = Callable[[int, int, str], None]
Key = tuple[str, int]  # arm's name, seed


def run_all(plan: ExperimentPlan, folder: Path, missing: Sequence[tuple[Arm, int]], workers: int, told: Told) -> None:
    """Make these runs, so many at a time. If one fails the others are made all the same, and it is told at the end."""
    total = plan.jobs * len(plan.arms) * len(plan.seeds)
    before = total - plan.jobs * len(missing)
    crew = _Crew(plan, folder, list(missing), lambda ended, label: told(before + ended, total, label))
    try:
        while crew.waiting or crew.working:
            while crew.waiting and len(crew.working) < workers:
                crew.begin()
            crew.look()
    finally:
        crew.end()
    if crew.failed:
        raise InputError("; ".join(f"{arm}, seed {seed}: {why}" for (arm, seed), why in crew.failed.items()))


@dataclass
class _Crew:
    """The processes at work, and how far each has come."""

    plan: ExperimentPlan
    folder: Path
    waiting: list[tuple[Arm, int]]
    told: Callable[[int, str], None]  # jobs ended of these runs
    working: dict[Key, BaseProcess] = field(default_factory=dict)
    ended: dict[Key, int] = field(default_factory=dict)
    failed: dict[Key, str] = field(default_factory=dict)
    news: Any = field(default_factory=lambda: get_context("spawn").Queue())

    def begin(self) -> None:
        """Start the next run."""
        arm, seed = self.waiting.pop(0)
        process = get_context("spawn").Process(target=_work, args=(self.plan, self.folder, arm, seed, self.news))
        process.start()
        self.working[arm.name, seed] = process

    def look(self) -> None:
        """Wait a moment, take what there is to hear, and dismiss who is done."""
        done = [key for key, process in self.working.items() if not process.is_alive()]
        time.sleep(LOOK_S)
        self._listen()
        for key in done:
            process = self.working.pop(key)
            process.join()
            if process.exitcode:
                self.failed.setdefault(key, f"its process ended with code {process.exitcode}")

    def _listen(self) -> None:
        heard = False
        while not self.news.empty():
            key, what = self.news.get()
            if isinstance(what, str):
                self.failed[key] = what
            else:
                self.ended[key] = what
                heard = True
        if heard:
            self.told(sum(self.ended.values()), f"{len(self.working)} runs at a time")

    def end(self) -> None:
        """Let who is still at work take its testbed down."""
        for process in self.working.values():
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal.SIGINT)
        for process in self.working.values():
            process.join(END_S)
            process.kill()
        self.news.close()
        self.news.cancel_join_thread()


def _work(plan: ExperimentPlan, folder: Path, arm: Arm, seed: int, news: Any) -> None:
    """Make one run, in a process of its own."""
    key = (arm.name, seed)
    signal.signal(signal.SIGINT, _stop_once)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    try:
        made = run(plan, arm, seed, folder, lambda ended: news.put((key, ended)))
        made.write(path_of(folder, arm, seed))
        news.put((key, plan.jobs))
    except InputError as error:
        news.put((key, str(error)))
    except KeyboardInterrupt:
        return


def _stop_once(number: int, _frame: object) -> NoReturn:
    """Stop, and be left alone while the testbed is taken down: Ctrl-C comes from the terminal and from the parent."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _stop_with_parent() -> None:
    """Stop as by Ctrl-C if the parent is gone, however it went."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGINT)
