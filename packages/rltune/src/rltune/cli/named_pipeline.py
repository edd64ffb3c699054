"""What `simulate` and `compare` share: names checked before work begins, and results written in every form."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltune.cli.console import count, make_room, require_free, show_json, show_line, write_json
from rltune.cli.exits import TO_STDOUT
from rltune.cli.progress_bar import spinner
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.cli.trace_argument import Workload
    from rltune.cluster import Cluster
    from rltune.evaluation import Comparison

NOBODY_WAITED = "No job waited: the cluster is larger than the load, so nothing can be told apart."


def split(names: str) -> list[str]:
    """Take a list with commas apart."""
    return [name.strip() for name in names.split(",") if name.strip()]


@dataclass(frozen=True)
class Outputs:
    """Where results go beside the terminal."""

    json: str | None
    jobs: Path | None
    report: Path | None

    @property
    def json_file(self) -> Path | None:
        """Return the file for JSON, if one is named."""
        return None if self.json in {None, TO_STDOUT} else Path(str(self.json))

    @property
    def only_json(self) -> bool:
        """Return whether stdout belongs to JSON."""
        return self.json == TO_STDOUT

    def require_free(self, *, force: bool, inputs: Iterable[str | Path]) -> None:
        """Make sure that all files may be written."""
        require_free([self.json_file, self.jobs, self.report], force=force, inputs=inputs)

    def write(self, comparison: "Comparison", work: "Workload", cluster: str, content: Mapping[str, Any]) -> None:
        """Write the files asked for, and JSON; then name them."""
        told = {"rltune": _version(), "trace": work.name, "cluster": cluster, **content}
        if self.json_file is not None:
            write_json(told, self.json_file)
        if self.jobs is not None:
            _write_jobs(comparison, self.jobs)
        if self.report is not None:
            _write_report(comparison, self.report, work.name)
        if self.only_json:
            show_json(told)
            return
        for what, path in (("JSON", self.json_file), ("all jobs", self.jobs), ("report", self.report)):
            if path is not None:
                show_line(f"{what}: {path}")


def with_notes(comparison: "Comparison", work: "Workload") -> "Comparison":
    """Put what must be known of the trace under every form of the results."""
    waited = any(standing.wait_s.max > 0 for standing in comparison.standings)
    nothing = () if waited else (NOBODY_WAITED,)
    return replace(comparison, notes=(*work.notes, *nothing, *comparison.notes))


def named(cluster: "Cluster", given: str) -> str:
    """Name a cluster in one line."""
    return f"{cluster.name or given} ({count(cluster.node_count, 'nodes')}, {count(cluster.gpu_count, 'GPUs')})"


def _version() -> str:
    from rltune.version import __version__

    return __version__


def _write_jobs(comparison: "Comparison", path: Path) -> None:
    try:
        with spinner(f"writing {path}"):
            comparison.jobs_parquet(make_room(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _write_report(comparison: "Comparison", path: Path, trace: str) -> None:
    from rltune.report import write_report

    with spinner(f"writing {path}"):
        title = "Scheduler comparison" if len(comparison.contenders) > 1 else "One simulation"
        write_report(comparison, make_room(path), title, trace)
