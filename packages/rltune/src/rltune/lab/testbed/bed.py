"""A testbed: up, down, and what one does with it in between."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.lab.testbed import debian_needs as needs
from rltune.lab.testbed import slurm_conf as conf
from rltune.lab.testbed.daemon_parent import PATH, Nursery, wait_until
from rltune.lab.testbed.held_ports import held_ports
from rltune.lab.testbed.release_doors import DOORS, write_doors
from rltune.lab.testbed.release_folder import kept_folder
from rltune.lab.testbed.slurm_releases import release_named
from rltune.lab.testbed.testbed_spec import Spec, ports_needed
from rltune.live.rest_place import RestPlace
from rltune.live.see.snapshot import LiveJob
from rltune.live.slurm.client import Slurm
from rltune.live.slurm.dialect import KNOWN, dialect_for, plain_record
from rltune.live.slurm.rest_client import SlurmRest
from rltune.whole_file import write_whole

FOLDER = Path("/var/lib/rltune-testbed")
PRESET = "slurm-five"
FASTEST = 600  # beyond it daemons are too slow for their own clock
_ABOUT = "testbed.json"
_DAY_S = 86_400
_FOLDERS = ("etc", "run", "log", "state", "spool", "dev", "scratch")


@dataclass(frozen=True)
class Testbed:
    """A Slurm that runs in a folder. As a context manager it goes down at the end."""

    __test__ = False  # no test, though tests use it

    folder: Path
    factor: int  # how much faster its clock runs
    database: bool
    nodes: tuple[str, ...]
    daemons: Mapping[str, Sequence[str]]  # commands by name, in the order in which they start
    clock_at: tuple[float, float]  # one moment: by its clock, and by the machine's
    release: str = ""  # of Slurm; "" = the machine's own
    rest: str = ""  # where its slurmrestd listens; "" = there is none

    @classmethod
    def up(
        cls,
        folder: Path = FOLDER,
        cluster: Cluster | None = None,
        *,
        factor: int = 1,
        database: bool = False,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        release: str = "",
        rest: bool = False,
    ) -> Testbed:
        """Start a Slurm with the nodes of a cluster, by default the paper's five."""
        if not 1 <= factor <= FASTEST:
            raise InputError(f"the clock can run 1 to {FASTEST} times as fast, not {factor}")
        needs.require(database=database, clock=factor > 1, rest=rest, release=release)
        cluster = cluster or Cluster.preset(PRESET)
        _require_room(folder)
        with held_ports(ports_needed(cluster), port) as ports:
            spec = Spec(
                folder.resolve(),
                cluster,
                ports,
                factor,
                database,
                settings or {},
                release_named(release) if release else None,
                rest,
            )
            try:
                return cls._start(spec)
            except BaseException:
                end_testbed(spec.folder)
                raise

    @classmethod
    def open(cls, folder: Path = FOLDER) -> Testbed:
        """Find the testbed of a folder."""
        try:
            about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise InputError(f"{folder}: there is no testbed here") from None
        about["nodes"], about["clock_at"] = tuple(about["nodes"]), tuple(about["clock_at"])
        return cls(folder=folder.resolve(), **about)

    @classmethod
    def _start(cls, spec: Spec) -> Testbed:
        _write(spec)
        nursery = Nursery(spec.folder)
        nursery.open(spec.factor, kept_folder(spec.release) if spec.release else None)
        if spec.release:
            write_doors(spec.folder)
        if spec.database:
            _make_database(spec.folder, nursery.entering)
        bed = cls(
            spec.folder,
            spec.factor,
            spec.database,
            tuple(n.name for n in spec.nodes),
            conf.commands(spec),
            _clock(spec.folder),
            spec.release.name if spec.release else "",
            conf.rest_url(spec.ports[-1]) if spec.rest else "",
        )
        bed._write_about()
        for name in bed.daemons:
            bed.start(name, wait=not name.startswith("slurmd-"))
            if name == "slurmdbd":
                bed.run("sacctmgr", "-i", stdin=conf.accounts())
        bed.wait_for("all nodes to be idle", bed._all_idle)
        if spec.rest:
            bed.make_token(conf.OPERATOR if spec.database else "root")
        return bed

    def down(self) -> None:
        """End all of it and remove the folder."""
        end_testbed(self.folder)

    def start(self, daemon: str, *, wait: bool = True) -> None:
        """Start a daemon and wait until it answers."""
        self._nursery.start(daemon, self.daemons[daemon])
        if wait:
            self.wait_for(f"{daemon} to answer", lambda: self._answers(daemon) or self._refuse_dead(daemon))

    def _refuse_dead(self, daemon: str) -> Literal[False]:
        """Refuse to wait for a daemon that has ended, with its last words: its files go with the testbed."""
        if self._nursery.has_ended(daemon):
            raise InputError(f"{self.folder}: {daemon} has ended instead of answering: {self._last_words(daemon)}")
        return False

    def _last_words(self, daemon: str) -> str:
        logs = (self.folder / f"log/{daemon}.log", self.folder / f"log/{daemon}.out")
        lines = [line for log in logs if log.exists() for line in log.read_text(errors="replace").splitlines()[-3:]]
        return " / ".join(lines) or "it said nothing"

    def stop(self, daemon: str, sign: signal.Signals = signal.SIGTERM) -> None:
        """Stop a daemon, gently or with SIGKILL, and wait until it is gone."""
        self._nursery.stop(daemon, sign)

    def send(self, daemon: str, sign: signal.Signals) -> None:
        """Send a daemon a signal, such as SIGSTOP, and do not wait."""
        os.kill(self._nursery.pid(daemon), sign)

    def running(self) -> dict[str, bool]:
        """Return for every daemon whether it runs."""
        return {name: self._nursery.pid(name) > 0 for name in self.daemons}

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which Slurm's commands find this one."""
        told = {"SLURM_CONF": f"{self.folder}/etc/slurm.conf", "SLURM_TIME_FORMAT": "%s"}
        if self.release:
            told["PATH"] = f"{self.folder}/{DOORS}:{os.environ.get('PATH', '')}"
        return {**os.environ, **told}

    @property
    def operator(self) -> tuple[str, ...]:
        """Return the words before a command that run it as an unprivileged Operator; needs the database."""
        return self.account(conf.OPERATOR)

    def account(self, user: str) -> tuple[str, ...]:
        """Return the words before a command that run it as another account of the machine."""
        become = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
        # The PATH is the one in there: the programs in the testbed's `bin` are for root alone.
        return (*self._nursery.entering, "env", f"PATH={PATH}", *become) if self.release else become

    def backend(self, *, as_operator: bool = False) -> Slurm:
        """Return what the controller drives, as root or as an unprivileged Operator."""
        return Slurm(self.operator if as_operator else (), self.environment, self.now_s)

    def rest_backend(self, url: str = "") -> SlurmRest:
        """Return what the controller drives through slurmrestd, as an unprivileged Operator if there are accounts."""
        assert self.rest, "this testbed has no slurmrestd"
        return SlurmRest(RestPlace(url or self.rest, str(self.token_file)), self.now_s)

    @property
    def token_file(self) -> Path:
        """Return where the token for its slurmrestd lies."""
        return self.folder / "etc/token"

    @property
    def rest_socket(self) -> str:
        """Return the other address of its slurmrestd."""
        return f"unix:{self.folder}/rest/sock"

    def make_token(self, user: str, lifespan_s: int = _DAY_S, file: Path | None = None) -> Path:
        """Make a token for an account, and return the file that it is in."""
        token = self.run("scontrol", "token", f"username={user}", f"lifespan={lifespan_s}")
        write_whole(file or self.token_file, token, private=True)
        return file or self.token_file

    def now_s(self) -> float:
        """Return the time by its clock."""
        fake_s, real_s = self.clock_at
        return fake_s + (time.time() - real_s) * self.factor

    def run(self, *command: str, stdin: str = "", check: bool = True, timeout_s: float = 60.0) -> str:
        """Run one of Slurm's commands and give what it prints."""
        done = subprocess.run(
            command, env=self.environment, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if check and done.returncode:
            raise InputError(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def submit(
        self,
        duration_s: float = 0.0,
        *options: str,
        gpus: int = 0,
        gpu_type: str = "",
        nodes: int = 1,
        limit_min: int | None = None,
        name: str = "job",
        command: str = "",
    ) -> int:
        """Submit a job with so many GPUs on each node, and give its number. It sleeps so long by the testbed's clock.

        Or it runs a command of its own.
        """
        words = ["sbatch", "--parsable", f"--nodes={nodes}", f"--job-name={name}", "--output=/dev/null", "--chdir=/"]
        if gpus:
            words.append("--gpus-per-node=" + ":".join(filter(None, (gpu_type, str(gpus)))))
        if limit_min is not None:
            words.append(f"--time={limit_min}")
        wrapped = command or f"sleep {duration_s / self.factor:.3f}"
        printed = self.run(*words, *options, f"--wrap={wrapped}")
        return int(printed.split(";")[0])

    def jobs(self) -> list[dict[str, Any]]:
        """List the jobs as squeue's JSON has them, ended ones too, in the shape of the oldest release."""
        release = self.release or KNOWN[0]
        words = ("squeue", "--all", "--states=all", dialect_for(release).json_word)
        return [plain_record(record) for record in json.loads(self.run(*words))["jobs"]]

    def job(self, job: int) -> dict[str, Any]:
        """Return one job as squeue's JSON has it."""
        return next(j for j in self.jobs() if j["job_id"] == job)

    def waiting_jobs(self) -> tuple[LiveJob, ...]:
        """Return the waiting jobs, once sprio tells of all that compete: it is silent on one that was just released."""
        seen: tuple[LiveJob, ...] = ()

        def told() -> bool:
            nonlocal seen
            look = self.backend().observe()
            seen = look.pending
            competing = (job for job in seen if not (job.held or job.dependency or job.begin_s > look.taken_s))
            return all(job.site_factor is not None for job in competing)

        self.wait_for("sprio to tell of all jobs that compete", told)
        return seen

    def wait_for(self, what: str, done: Callable[[], bool], timeout_s: float = 120.0) -> None:
        """Wait, by the machine's clock, until something is so."""
        wait_until(what, done, self.folder, timeout_s)

    def clear(self) -> None:
        """Cancel all jobs, delete reservations, make all nodes and partitions usable, and wait until all is idle."""
        jobs = set(self.run("squeue", "-h", "-a", "-o", "%A").split())
        if jobs:
            self.run("scancel", *jobs, check=False)  # some may end in between
        for line in self.run("scontrol", "-o", "show", "reservation").splitlines():
            if line.startswith("ReservationName="):
                self.run("scontrol", "delete", line.split()[0])
        self.run("scontrol", "update", f"NodeName={','.join(self.nodes)}", "State=RESUME", check=False)
        self.wait_for("all nodes to be idle", self._all_idle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    @property
    def _nursery(self) -> Nursery:
        return Nursery(self.folder)

    def _answers(self, daemon: str) -> bool:
        if daemon == "munged":
            return (self.folder / "run/munge.sock").exists()
        if daemon == "mariadbd":
            return (self.folder / "run/mysql.sock").exists()
        if daemon == "slurmdbd":
            return "Cluster" in self.run("sacctmgr", "list", "cluster", check=False)
        if daemon == conf.REST:
            return Path(self.rest_socket.removeprefix("unix:")).exists()
        if daemon == "slurmctld":
            return "is UP" in self.run("scontrol", "ping", check=False)
        return self._all_idle()

    def _all_idle(self) -> bool:
        states = self.run("sinfo", "-h", "-N", "-o", "%N %T", check=False).splitlines()
        return len(set(states)) == len(self.nodes) and all(s.endswith(" idle") for s in states)

    def _write_about(self) -> None:
        about = {
            "factor": self.factor,
            "database": self.database,
            "nodes": self.nodes,
            "daemons": self.daemons,
            "clock_at": self.clock_at,
            "release": self.release,
            "rest": self.rest,
        }
        write_whole(self.folder / _ABOUT, json.dumps(about, indent=1))


def end_testbed(folder: Path) -> None:
    """End all that belongs to a folder and remove it, however far its start had come."""
    Nursery(folder.resolve()).close()
    if folder.exists():
        shutil.rmtree(folder)


def _require_room(folder: Path) -> None:
    if (folder / _ABOUT).exists():
        raise InputError(f"{folder}: a testbed is up here already; end it with `rltune slurm testbed down`")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is in use; a testbed wants a folder of its own")


def _write(spec: Spec) -> None:
    """Make the folder with everything that daemons read."""
    for name in _FOLDERS:
        (spec.folder / name).mkdir(parents=True, exist_ok=True)
    for node in spec.nodes:
        (spec.folder / "spool" / node.name).mkdir()
    for gpu in range(max(n.group.gpus for n in spec.nodes)):
        _make_device(spec.folder / f"dev/gpu{gpu}")
    etc = spec.folder / "etc"
    write_whole(etc / "slurm.conf", conf.slurm_conf(spec))
    write_whole(etc / "gres.conf", conf.gres_conf(spec))
    if spec.release:
        write_whole(etc / "cgroup.conf", conf.cgroup_conf())
    _write_secret(etc / "munge.key", secrets.token_bytes(1024))
    if spec.rest:
        _write_secret(etc / "jwt.key", secrets.token_bytes(32))
        (spec.folder / "rest").mkdir()
        shutil.chown(spec.folder / "rest", conf.REST_USER, conf.REST_USER)
    if spec.database:
        _write_secret(etc / "slurmdbd.conf", conf.slurmdbd_conf(spec).encode())


def _make_device(path: Path) -> None:
    """Make something that Slurm takes for a GPU: a device that swallows what it is given."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:  # in some containers; with a plain file jobs are not told which GPUs are theirs
        path.touch()


def _write_secret(path: Path, data: bytes) -> None:
    path.touch(mode=0o600, exist_ok=False)
    write_whole(path, data)


def _make_database(folder: Path, entering: Sequence[str]) -> None:
    how = ("--auth-root-authentication-method=socket", "--skip-test-db", "--user=root")
    words = [*entering, "mariadb-install-db", "--no-defaults", *how, *conf.database_words(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"{folder}: no database could be made: {done.stdout.strip() or done.stderr.strip()}")


def _clock(folder: Path) -> tuple[float, float]:
    """Read one moment by both clocks: the parent wrote its own time into a file, the machine dated the file."""
    file = folder / "run/clock"
    wait_until("the testbed's clock", lambda: file.read_text(encoding="utf-8").endswith("\n"), folder)
    return float(file.read_text(encoding="utf-8")), file.stat().st_mtime
