"""The moment that a command asks about: of a running Slurm, of the controller's journal, or of a history."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import wraps
from inspect import Parameter, signature
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli import options
from rltune.cli.compile_notice import compile_core
from rltune.cli.control_command import slurm_of
from rltune.cli.terminal_progress import spinner
from rltune.cli.trace_argument import Workload, load_workload
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.engine.pipeline import Pipeline
    from rltune.estimate.estimators import Estimator
    from rltune.jobs import Jobs
    from rltune.live.see.backend import Backend
    from rltune.live.see.snapshot import Snapshot
    from rltune.present import Present

USUAL = "multifactor + easy"
MOST_HISTORY = 20_000  # ended jobs that a forecast draws from

TraceOption = Annotated[
    str | None,
    typer.Option("--trace", "-t", help="Ask about a history, replayed to --at: a file or synth:NAME.", metavar="TRACE"),
]
ClusterOption = Annotated[
    str | None,
    typer.Option("--cluster", "-c", help="The history's cluster: a preset's name, or a TOML file.", metavar="CLUSTER"),
]
At = Annotated[
    str | None,
    typer.Option(help="When: seconds of the trace, a date such as 2026-01-31T12:00, or a share: 60%.", metavar="TIME"),
]
InForce = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        help="With --trace: what orders the queue, as tables name it.",
        metavar="PIPELINE",
        show_default="as the cluster's file says, or multifactor + easy",
    ),
]
JournalOption = Annotated[
    Path | None, typer.Option("--journal", "-j", help="Ask about a cycle of this journal.", metavar="FILE")
]
CycleNumber = Annotated[
    int, typer.Option("--journal-cycle", help="Which cycle of the journal; 0 = the last.", min=0, metavar="N")
]
Config = Annotated[
    Path | None, typer.Option("--config", help="The controller's settings, of a running Slurm.", metavar="FILE")
]
Testbed = Annotated[
    Path | None, typer.Option(help="Take the Slurm of `rltune slurm testbed` in this folder.", metavar="FOLDER")
]


Service = Annotated[
    str | None,
    typer.Option(
        help="Ask the `rltune serve` at this address; a token is taken from the variable RLTUNE_TOKEN.", metavar="URL"
    ),
]


@dataclass(frozen=True)
class Asked:
    """Which moment is asked about."""

    trace: str | None = None
    cluster: str | None = None
    at: str | None = None
    pipeline: str | None = None
    estimator: str | None = None
    journal: Path | None = None
    cycle: int = 0
    config: Path | None = None
    testbed: Path | None = None
    allow_rejected: bool = False

    def with_time(self, at: str) -> "Asked":
        """Return the same with a time, if none is asked for."""
        return self if self.at is not None else replace(self, at=at)

    def given(self) -> dict[str, object]:
        """Return what was asked for by the names of its options."""
        name_of = {"cycle": "journal-cycle", "allow_rejected": "allow-rejected"}
        return {f"--{name_of.get(f.name, f.name)}": getattr(self, f.name) for f in fields(self)}

    def require_one(self) -> None:
        """Refuse what does not go together."""
        if self.trace is not None and (self.journal or self.config or self.testbed):
            raise InputError("--trace asks about a history; --journal, --config and --testbed about a Slurm: give one")
        if self.trace is not None and (self.cluster is None or self.at is None):
            raise InputError("--trace needs --cluster and --at: the history's cluster, and the time to ask about")
        if self.trace is None and (self.cluster or self.at or self.pipeline):
            raise InputError("--cluster, --at and --pipeline say more of a history: give it by --trace")

    def present(self) -> "Present":
        """Take the moment."""
        self.require_one()
        if self.trace is not None:
            return self.replayed()
        compile_core()
        return self._of_journal() if self.journal is not None else self._of_slurm()

    def site(self) -> "tuple[Jobs, Cluster, Pipeline, Estimator, float]":
        """Read the history, its cluster, the pipeline in force and the time."""
        return self._site_and_clock()[0]

    def _site_and_clock(self) -> "tuple[tuple[Jobs, Cluster, Pipeline, Estimator, float], float | None]":
        """Read the same, and the history's own clock at its time 0, in seconds since 1970."""
        from rltune import Cluster
        from rltune.engine.parse_pipeline import read_pipeline
        from rltune.estimate import get_estimator, sites_estimator

        assert self.trace is not None
        assert self.cluster is not None
        on = Cluster.load(self.cluster)
        work = load_workload(self.trace, None, on, allow_rejected=self.allow_rejected)
        usual = f"{on.scheduler.policy} + {on.scheduler.backfill}" if on.scheduler else USUAL
        pipeline = read_pipeline(self.pipeline or usual)
        compile_core([pipeline])
        guess = get_estimator(self.estimator or sites_estimator(work.jobs))
        return (work.jobs, on, pipeline, guess, self._time(work)), work.origin_s

    def checked_site(self) -> "tuple[Jobs, Cluster, Pipeline, Estimator, float]":
        """Read all of a history that is asked about as a whole."""
        self.require_one()
        return self.site()

    def replayed(self) -> "Present":
        """Replay the history to the time."""
        from rltune.present.of_run import replay

        (jobs, cluster, pipeline, estimator, at_s), origin_s = self._site_and_clock()
        when = f"{self.at}{told_date(str(self.at), at_s, origin_s)}"
        with spinner("replaying the history"):
            return replay(jobs, cluster, pipeline, estimator, at_s, f"{self.trace} at {when}", origin_s)

    def _time(self, work: "Workload") -> float:
        """Return the time asked for, in seconds of the trace; a date is on the history's own clock."""
        text = str(self.at)
        first, last = float(work.jobs.submit_s.min()), float(work.jobs.submit_s.max())
        try:
            at_s = float(text.removesuffix("%"))
        except ValueError:
            return date_of_trace(text, work.origin_s)
        if not isfinite(at_s) or (text.endswith("%") and not 0 <= at_s <= 100):
            raise InputError(f"--at {text}: should be seconds of the trace, a date, or a share from 0% to 100%")
        return first + at_s / 100 * (last - first) if text.endswith("%") else at_s

    def _of_journal(self) -> "Present":
        from rltune.live.journal.store import Journal
        from rltune.live.present_of_slurm import present_of_cycle

        assert self.journal is not None
        with spinner("reading the journal"):
            return present_of_cycle(Journal.read(self.journal), self.cycle)

    def _of_slurm(self) -> "Present":
        return self.looked()[2]

    def looked(self) -> "tuple[Backend, Snapshot, Present]":
        """Look at a running Slurm once: what speaks to it, what it showed, and the moment."""
        from rltune.live.control_settings_file import load_settings
        from rltune.live.pinned_pipeline import pin_pipeline
        from rltune.live.present_of_slurm import present_of_snapshot
        from rltune.live.see.backend import BackendError

        self.require_one()
        if self.trace is not None or self.journal is not None:
            raise InputError("a history and a journal are past: leave out --trace and --journal to ask a running Slurm")
        settings = load_settings(self.config, {"pipeline": {"estimator": self.estimator}})
        backend, _ = slurm_of(self.testbed, settings.slurm.place())
        try:
            with spinner("asking Slurm"):
                snapshot = backend.observe()
        except BackendError as error:
            raise InputError(f"{error}. Without a Slurm, ask a journal (--journal) or a history (--trace)") from None
        history = None if self.testbed else _history_here()
        return backend, snapshot, present_of_snapshot(snapshot, settings, pin_pipeline(settings), history)


OPTIONS = {
    "journal": JournalOption,
    "cycle": CycleNumber,
    "trace": TraceOption,
    "cluster": ClusterOption,
    "at": At,
    "pipeline": InForce,
    "estimator": options.Estimator,
    "config": Config,
    "testbed": Testbed,
    "allow_rejected": options.AllowRejected,
}


def about_a_moment(command: Callable[..., None]) -> Callable[..., None]:
    """Add to a command the options that say which moment is asked about; it gets them as one value, `asked`."""
    own = signature(command)
    default = {one.name: one.default for one in fields(Asked)}
    bundle = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default[name], annotation=annotation)
        for name, annotation in OPTIONS.items()
    ]
    parameters = [new for old in own.parameters.values() for new in (bundle if old.name == "asked" else [old])]

    @wraps(command)
    def run(**given: Any) -> None:
        asked = Asked(**{name: given.pop(name) for name in OPTIONS})
        command(asked=asked, **given)

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {**{one.name: one.annotation for one in parameters}, "return": None}
    return run


def date_of_trace(text: str, origin_s: float | None) -> float:
    """Read a date on a history's own clock, which began at a time, as seconds of the trace."""
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--at {text}: should be seconds of the trace, a date, or a share from 0% to 100%") from None
    if origin_s is None:
        raise InputError(f"--at {text}: this history tells no dates: give seconds of the trace, or a share such as 60%")
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - origin_s


def told_date(asked: str, at_s: float, origin_s: float | None) -> str:
    """Return the date on a history's own clock of a time that was asked for otherwise; "" where there is none."""
    if origin_s is None or not _is_number(asked.removesuffix("%")):
        return ""
    from rltune.present.told_date import date_and_time

    return f" ({date_and_time(origin_s + at_s)})"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _history_here() -> "Jobs | None":
    """Return the jobs that the controller of this machine saw end; None if it has no journal that may be read."""
    from rltune.live.journal.default_place import default_journal
    from rltune.live.journal.store import Journal

    try:
        return Journal.read(default_journal()).history(MOST_HISTORY)
    except InputError:
        return None
