"""A scene for a fault: a testbed with a queue that waits for a word, and a controller that acts on it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from rltune.errors import InputError
from rltune.lab.faults.spell_log import SpellLog, keys_of
from rltune.lab.faults.wire import Wire
from rltune.lab.testbed import Testbed
from rltune.live.see.ownership import OwnRecords
from rltune.live.see.snapshot import LiveJob
from rltune.whole_file import write_whole

_LAUNCHER = """
import pathlib, sys, time
ahead, by_the_machine = pathlib.Path(sys.argv.pop(1)), time.time
time.time = lambda: by_the_machine() + (float(ahead.read_text()) if ahead.exists() else 0.0)
from rltune.cli import main
main()
"""  # the clock is wound before anything of rltune's takes hold of it
_DOOR = """#!/bin/sh
PATH={path}
[ -e {folder}/hangs ] && exec sleep 3600
[ -e {folder}/slow ] && sleep 6
[ -e {folder}/powerless ] && exec {nobody} {command} "$@"
exec {command} "$@"
"""  # what a controller takes for Slurm's commands
_COMMANDS = ("scontrol", "squeue", "sinfo", "sprio", "sbatch", "scancel", "sacctmgr", "id")
_POLICY = """
from pathlib import Path
def score(queue):
    mood = Path({mood!r})
    if mood.exists() and mood.read_text() == "raises":
        raise RuntimeError("out of its mind")
    return queue.limit_s * (float("nan") if mood.exists() else 1.0)
"""
K80 = {"gpus": 2, "gpu_type": "k80"}
JOURNAL_MIB = 32
# A cycle a second makes a fault short; a machine that has much else to do may need longer for one, which is no fault.
PATIENT = "[advanced.health]\nmax_overruns = 1000000\n"
_PATIENCE_S = 240.0  # of a machine that has much else to do


@dataclass
class Scene:
    """One fault's stage. Jobs of the queue wait for nodes whose holders end when `let_go` is called."""

    bed: Testbed
    folder: Path
    random: Random
    expected: dict[str, str] = field(default_factory=dict)  # job: why it may have run more than once; "" = it may not
    excused: set[str] = field(default_factory=set)  # jobs that the fault itself ends
    extra: list[int] = field(default_factory=list)  # jobs that say nothing of their spells
    holders: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)  # jobs that lose what they were submitted with
    held: list[int] = field(default_factory=list)  # until all has been given back
    nice_by_others: dict[int, int] = field(default_factory=dict)
    site_by_others: dict[int, int] = field(default_factory=dict)
    forged: list[int] = field(default_factory=list)  # a user's jobs that look like records
    shell: Mapping[str, str] = field(default_factory=dict)  # settings that controllers find in their environment
    conf: str = ""  # slurm.conf as it was before the fault
    controllers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    wire: Wire | None = None
    _logs: int = 0

    def __post_init__(self) -> None:
        self.folder.chmod(0o755)  # commands of another account look into it
        for name in ("etc", "journal", "bin"):
            (self.folder / name).mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={JOURNAL_MIB}m", "tmpfs", str(self.folder / "journal")]
        subprocess.run(mount, check=True)  # a disk that a fault can fill
        text = (self.bed.folder / "etc/slurm.conf").read_text(encoding="utf-8")
        port = re.search(r"^SlurmctldPort=(\d+)$", text, flags=re.MULTILINE)
        assert port is not None
        self.wire = Wire(int(port[1]))
        conf = text.replace(port[0], f"SlurmctldPort={self.wire.port}")
        write_whole(self.folder / "etc/slurm.conf", conf)
        write_whole(self.folder / "etc/control.toml", PATIENT)
        nobody = shlex.join(self.bed.account("games"))
        for command in _COMMANDS:
            door = self.folder / "bin" / command
            path = self.bed.environment.get("PATH", os.defpath)
            write_whole(door, _DOOR.format(path=path, folder=self.folder, command=command, nobody=nobody))
            door.chmod(0o755)

    @property
    def spells(self) -> SpellLog:
        """Return where jobs say that they start and end."""
        return SpellLog(self.folder / "spells")

    @property
    def journal(self) -> Path:
        """Return where the controller keeps its journal."""
        return self.folder / "journal/control.db"

    def submit(self, *options: str, doing: str = "sleep 0.1", tasks: int = 0, gpus: int = 2, limit_min: int = 5) -> int:
        """Submit a job, or an array, that writes down its spells."""
        words = ["sbatch", "--parsable", "--output=/dev/null", "--chdir=/", f"--time={limit_min}"]
        words += [f"--gpus-per-node=k80:{gpus}"] if gpus else []
        words += [f"--array=1-{tasks}"] if tasks else []
        job = int(self.bed.run(*words, *options, f"--wrap={self.spells.script(doing)}").split(";")[0])
        self.expected |= dict.fromkeys(keys_of(job, tasks), "")
        return job

    def fill(self, waiting: int = 8) -> None:
        """Take both nodes of K80 until `let_go`, and let jobs wait for them."""
        self.holders = [self.submit_holder() for _ in range(2)]
        self.wait_for("the nodes to be taken", lambda: all(self.job(job).on_nodes for job in self.holders))
        self.waiting = [self.submit("--nodes=1", limit_min=self.random.randint(5, 55)) for _ in range(waiting)]

    def try_submit(self, *options: str, **about: int) -> int:
        """Submit a job as `submit` does; 0 if Slurm takes none like it."""
        try:
            return self.submit(*options, **about)  # type: ignore[arg-type]
        except InputError:
            return 0

    def submit_holder(self, *options: str) -> int:
        """Submit a job that holds a node until `let_go`."""
        return self.submit(
            "--nodes=1", *options, doing=f"while [ ! -e {self.folder}/go ]; do sleep 0.2; done", limit_min=60
        )

    def let_go(self) -> None:
        """Let the holders end, and so the queue run; what a user has forged would never end."""
        if self.forged:
            self.bed.run("scancel", *map(str, self.forged), check=False)
        (self.folder / "go").touch()

    def may_run_again(self, job: int, cause: str) -> None:
        """Name why a job may have more than one spell."""
        self.expected[keys_of(job)[0]] = cause

    def job(self, job: int) -> LiveJob:
        """Return a job as Slurm has it now."""
        return self.bed.backend().observe().job_by_id[job]

    def job_ids(self, partition: str) -> list[int]:
        """Return the waiting jobs that may run in a partition."""
        return [job.id for job in self.bed.backend().observe().pending if partition in job.partitions]

    def wait_for(self, what: str, done: Callable[[], bool], timeout_s: float = _PATIENCE_S) -> None:
        """Wait until something is so."""
        self.bed.wait_for(what, done, timeout_s)

    def numbers(self) -> dict[int, int]:
        """Return the site factors that Slurm holds."""
        return {job: parts.site for job, parts in self.bed.backend().priorities().items()}

    def start_controller(
        self, journal: Path | None = None, policy: str = "saf", ahead_s: float = 0.0
    ) -> subprocess.Popen[bytes]:
        """Start a controller that acts, a cycle a second, through the wire; its clock may be ahead of all others'."""
        words = ["control", "--mode", "act", "--partition", "gpu", "--policy", policy, "--cycle", "1"]
        words += ["--config", str(self.folder / "etc/control.toml"), "--journal", str(journal or self.journal)]
        clock = self._own_clock(ahead_s) if ahead_s else self._clock
        self.controllers.append(self._start(words, clock))
        return self.controllers[-1]

    def start_release(self) -> subprocess.Popen[bytes]:
        """Start `rltune control --release`, and do not wait for its end."""
        return self._start(["control", "--release", "--journal", str(self.journal)], self._clock)

    def _start(self, words: Sequence[str], clock: Path) -> subprocess.Popen[bytes]:
        self._logs += 1
        program = (sys.executable, "-c", _LAUNCHER, str(clock))
        with (self.folder / f"controller{self._logs}.log").open("wb") as log:
            return subprocess.Popen([*program, *words], env=self._environment(), stdout=log, stderr=log)

    @property
    def _clock(self) -> Path:
        return self.folder / "ahead"

    def _own_clock(self, ahead_s: float) -> Path:
        file = self.folder / f"ahead{self._logs}"
        write_whole(file, str(ahead_s))
        return file

    def wind_clock(self, ahead_s: float) -> None:
        """Let the controllers' clock be ahead of the machine's from now on."""
        write_whole(self._clock, str(ahead_s))

    def mark(self, name: str, *, on: bool = True) -> None:
        """Let the commands of controllers hang, or be those of a user without rights; or no more."""
        (self.folder / name).touch() if on else (self.folder / name).unlink()

    @property
    def policy_file(self) -> Path:
        """Return where a policy of the site's own is written, which is as its mood is."""
        return self.folder / "policy.py"

    def write_policy(self, comment: str = "") -> str:
        """Write a policy of the site's own, and return its name."""
        write_whole(self.policy_file, comment + _POLICY.format(mood=str(self.folder / "mood")))
        return f"{self.policy_file}:score"

    def upset_policy(self, mood: str) -> None:
        """Let the policy raise, or give what is no number; "" = let it be well again."""
        if mood:
            write_whole(self.folder / "mood", mood)
        else:
            (self.folder / "mood").unlink()

    def act_by_own_policy(self) -> None:
        """Let another controller act, by a policy of the site's own."""
        self.kill_controllers(signal.SIGTERM)
        self.start_controller(policy=self.write_policy())
        self.wait_for("numbers in Slurm", lambda: any(self.numbers().values()))

    def wait_said(self, words: str) -> None:
        """Wait until a controller says something."""
        self.wait_for(f"a controller to say {words!r}", lambda: words in self.said())

    def wait_given_back(self) -> None:
        """Wait until Slurm holds no number of ours."""
        self.wait_for("all to be given back", lambda: not any(self.numbers().values()))

    def act(self) -> None:
        """Start a controller and wait until Slurm holds numbers of its."""
        self.start_controller()
        self.wait_for("numbers in Slurm", lambda: any(self.numbers().values()))

    def pass_cycles(self, count: int, timeout_s: float = 30.0) -> None:
        """Give the controllers time for some cycles; one that is down makes none."""
        before, deadline = self._cycles(), time.monotonic() + timeout_s
        while self._cycles() < before + count and self.alive and time.monotonic() < deadline:
            time.sleep(0.1)

    @property
    def alive(self) -> bool:
        """Return whether a controller runs."""
        return any(process.poll() is None for process in self.controllers)

    def signal_controllers(self, sign: signal.Signals) -> list[subprocess.Popen[bytes]]:
        """Send all controllers that run a signal, and return them."""
        running = [process for process in self.controllers if process.poll() is None]
        for process in running:
            process.send_signal(sign)
        return running

    def kill_controllers(self, sign: signal.Signals) -> list[int]:
        """End all controllers that run; return their exit codes."""
        running = self.signal_controllers(sign)
        codes = [process.wait(_PATIENCE_S) for process in running]
        self.controllers.clear()
        return codes

    def release(self) -> int:
        """Run `rltune control --release` and return its exit code; who takes too long is ended, and writes no more."""
        process = self.start_release()
        try:
            return process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def free_held(self) -> None:
        """Lift the holds that the fault has left."""
        for job in self.held:
            self.bed.run("scontrol", "release", str(job))

    def require_one_lock(self, besides: Collection[int] = ()) -> None:
        """Refuse to go on if not exactly one controller holds the lock."""
        if (found := self._locks(besides)) != 1:
            raise InputError(f"there are {found} locks in Slurm")

    def has_one_lock(self) -> bool:
        """Return whether exactly one controller holds the lock."""
        return self._locks() == 1

    def _locks(self, besides: Collection[int] = ()) -> int:
        return sum(lock.id not in besides for lock in OwnRecords.of(self.bed.backend().observe()).locks)

    def require_no_numbers(self) -> None:
        """Refuse to go on if Slurm holds a number of ours."""
        if held := [job for job, number in self.numbers().items() if number]:
            raise InputError(f"jobs {held} have numbers where none may be written")

    def said(self) -> str:
        """Return what controllers and release have said so far."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))

    def close(self) -> None:
        """End what is left of it; the testbed is cleared, not ended."""
        self.kill_controllers(signal.SIGKILL)
        if self.wire is not None:
            self.wire.close()
        subprocess.run(["umount", "--lazy", str(self.folder / "journal")], check=False)
        if self.conf:
            write_whole(self.bed.folder / "etc/slurm.conf", self.conf)
            self.bed.run("scontrol", "reconfigure")
        self.bed.clear()

    def _cycles(self) -> int:
        return sum(line.startswith("cycle ") for line in self.said().splitlines())

    def _environment(self) -> dict[str, str]:
        told = {"SLURM_CONF": f"{self.folder}/etc/slurm.conf", "HOME": str(self.folder), "COLUMNS": "200"}
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        told["PATH"] = f"{self.folder}/bin:{self.bed.environment.get('PATH', os.defpath)}"
        return {**self.bed.environment, **told, "XDG_CACHE_HOME": cache, **self.shell}


def require_all_up(scene: Scene) -> None:
    """Refuse to go on if the testbed itself is not as it should be after a fault was mended."""
    down = [name for name, runs in scene.bed.running().items() if not runs]
    if down:
        raise InputError(f"the fault was not mended: {', '.join(down)} is down")
