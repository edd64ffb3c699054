"""Submits jobs at their times, by the testbed's clock, beside whatever else is done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.lab.experiment.job_profiles import YIELDS
from rltune.lab.testbed import Testbed

_TRIES = 3  # under a fast clock a client loses its patience now and then
_STEP_S = 0.2


@dataclass
class Submitter:
    """A thread that submits; `ids` are Slurm's numbers, in the order of the jobs, as far as it has come."""

    bed: Testbed
    jobs: Jobs
    begin_s: float  # by the testbed's clock, when submit_s is 0
    command: Callable[[Jobs, int], str] | None = None  # what the job of a row runs; without it jobs sleep
    ids: list[int] = field(default_factory=list)
    error: Exception | None = None
    _halt: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="submitter", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, however far it has come."""
        self._halt.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def done(self) -> bool:
        """Return whether all jobs are submitted; an error of the thread is raised here."""
        if self.error is not None:
            raise self.error
        return len(self.ids) == len(self.jobs)

    def by_row(self) -> dict[int, int]:
        """Return Slurm's numbers by the jobs' rows, as far as it has come."""
        return dict(zip(self._rows(), self.ids, strict=False))

    def _rows(self) -> list[int]:
        rows: list[int] = np.argsort(self.jobs.submit_s, kind="stable").tolist()
        return rows

    def _run(self) -> None:
        try:
            for row in self._rows():
                if not self._wait_until(self.begin_s + self.jobs.submit_s[row]):
                    return
                self.ids.append(self._submit(row))
        except Exception as error:  # noqa: BLE001  raised again by whoever waits
            self.error = error

    def _wait_until(self, at_s: float) -> bool:
        while (left_s := (at_s - self.bed.now_s()) / self.bed.factor) > 0:
            if self._halt.wait(min(left_s, _STEP_S)):
                return False
        return not self._halt.is_set()

    def _submit(self, row: int) -> int:
        for attempt in range(1, _TRIES + 1):
            try:
                return self._sbatch(row)
            except InputError:
                if found := self._find(row):
                    return found
                if attempt == _TRIES:
                    raise
        raise AssertionError

    def _sbatch(self, row: int) -> int:
        jobs = self.jobs
        nodes = max(1, int(jobs.nodes[row]))
        gpus = int(jobs.gpus[row]) // nodes
        return self.bed.submit(
            float(jobs.duration_s[row]),
            f"--cpus-per-gpu={int(jobs.cpus[row] // jobs.gpus[row])}",
            f"--uid={jobs.user.name_of(row)}",
            f"--comment={row} {YIELDS}" if jobs.preemptible[row] else f"--comment={row}",
            gpus=gpus,
            gpu_type=jobs.gpu_types.name_of(row),
            nodes=nodes,
            limit_min=int(jobs.limit_s[row] // 60),
            name=jobs.name.name_of(row),
            command=self.command(jobs, row) if self.command else "",
        )

    def _find(self, row: int) -> int:
        """Find a job whose submission was taken though the client gave up; 0 if there is none."""
        for line in self.bed.run("squeue", "-h", "-o", "%A %k", check=False).splitlines():
            number, _, comment = line.partition(" ")
            if comment.split()[:1] == [str(row)]:
                return int(number)
        return 0
