"""A job that can give way: it counts seconds of work, writes checkpoints, and goes on from the last when run again.

    python3 checkpointing_job.py FOLDER WORK_S CHECKPOINT_S RESTART_S [FACTOR]

It needs nothing but Python and may be killed at any time: a checkpoint is there whole or not at all. FOLDER/JOB.json is
the checkpoint, FOLDER/JOB.log what happened: one line a start, resume (a restart is over), checkpoint, stop, end and
over (it was run again though it had ended), with the work done by then and the time by the machine's clock, which is
not the fast one.
On a clock that runs FACTOR times as fast it takes so much less of the machine's time.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType


@dataclass(frozen=True)
class Task:
    """What is to be done, and where it is kept what was."""

    folder: Path
    name: str
    work_s: float
    checkpoint_s: float
    restart_s: float
    factor: float = 1.0

    @property
    def checkpoint(self) -> Path:
        """Return the file of the checkpoint."""
        return self.folder / f"{self.name}.json"

    @property
    def log(self) -> Path:
        """Return the file of the log."""
        return self.folder / f"{self.name}.log"

    def saved_s(self) -> float:
        """Return the work up to the last checkpoint; 0 if there is none."""
        try:
            return float(json.loads(self.checkpoint.read_text(encoding="utf-8"))["done_s"])
        except FileNotFoundError:
            return 0.0

    def save(self, done_s: float) -> None:
        """Write a checkpoint: beside the old one, to the disk, then in its place."""
        beside = self.checkpoint.with_suffix(".new")
        with beside.open("w", encoding="utf-8") as file:
            json.dump({"done_s": done_s}, file)
            file.flush()
            if self.factor == 1:  # on a fast clock a hundred jobs would wait for one disk, and no machine is to fail
                os.fsync(file.fileno())
        beside.replace(self.checkpoint)
        self.tell("checkpoint", done_s)

    def tell(self, what: str, done_s: float) -> None:
        """Add a line to the log, in one piece."""
        line = f"{what} {done_s:.3f} {time.time():.3f}\n".encode()
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(log, line)
        os.close(log)

    def has_ended(self) -> bool:
        """Return whether the log tells of the end: Slurm can requeue a job before it knows that it is over."""
        return self.log.exists() and "\nend " in self.log.read_text(encoding="utf-8")

    def run(self) -> None:
        """Work from the last checkpoint to the end."""
        again, ended = self.log.exists(), self.has_ended()
        done_s = began_with = self.saved_s()
        if ended:
            self.tell("start", done_s)
            self.tell("over", done_s)
            return
        begin_s = math.inf  # not before the restart is over

        def now_done() -> float:
            return began_with + max(0.0, time.monotonic() - begin_s) * self.factor

        def stop(sign: int, frame: FrameType | None) -> None:  # noqa: ARG001  the handler's form
            self.tell("stop", now_done())
            os._exit(0)  # at once: what is kept is in the checkpoint

        signal.signal(signal.SIGTERM, stop)
        self.tell("start", done_s)
        if again:
            time.sleep(self.restart_s / self.factor)
            self.tell("resume", done_s)
        begin_s = time.monotonic()
        while done_s < self.work_s:
            done_s = min(self.work_s, (done_s // self.checkpoint_s + 1) * self.checkpoint_s)
            time.sleep(max(0.0, (done_s - now_done()) / self.factor))
            self.save(done_s)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.tell("end", done_s)


def main(words: list[str]) -> None:
    """Run the task of a command line; the job's number names it."""
    folder, *numbers = words
    Task(Path(folder), os.environ.get("SLURM_JOB_ID", "job"), *map(float, numbers)).run()


if __name__ == "__main__":
    main(sys.argv[1:])
