"""Where a command's results go: JSON, parquet and a page beside the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltune.cli.apart import TO_STDOUT
from rltune.cli.console import count, make_room, require_free, show_json, show_line, write_json
from rltune.cli.terminal_progress import spinner

if TYPE_CHECKING:
    from rltune.cli.trace_argument import Workload
    from rltune.cluster import Cluster
    from rltune.engine.pipeline import Pipeline
    from rltune.evaluation import Comparison, Run

NOBODY_WAITED = "No job waited: the cluster is larger than the load, so nothing can be told apart."


@dataclass(frozen=True)
class Outputs:
    """Where results go beside the terminal."""

    json: str | None = None
    jobs_file: Path | None = None
    report: Path | None = None

    @property
    def json_file(self) -> Path | None:
        """Return the file for JSON, if one is named."""
        return None if self.json in {None, TO_STDOUT} else Path(str(self.json))

    @property
    def only_json(self) -> bool:
        """Return whether stdout belongs to JSON."""
        return self.json == TO_STDOUT

    def require_free(self, *, force: bool = False) -> None:
        """Make sure that all files may be written, and that their names say how."""
        if self.jobs_file is not None:
            from rltune.trace.table import require_suffix

            require_suffix(self.jobs_file)
        require_free([self.json_file, self.jobs_file, self.report], force=force)

    def write_json(self, content: Mapping[str, Any]) -> None:
        """Write JSON into its file, or print it, or neither."""
        if self.json_file is not None:
            write_json(content, self.json_file)
        if self.only_json:
            show_json(content)

    def show_lines(self, lines: Iterable[str]) -> None:
        """Print results, unless stdout belongs to JSON; then name the files."""
        if not self.only_json:
            for line in lines:
                show_line(line)
        self.name_files()

    def name_files(self) -> None:
        """Print which files were written, unless stdout belongs to JSON."""
        for what, path in (("JSON", self.json_file), ("all jobs", self.jobs_file), ("report", self.report)):
            if path is not None and not self.only_json:
                show_line(f"{what}: {path}")

    def write(
        self,
        comparison: "Comparison",
        work: "Workload",
        cluster: str,
        content: Mapping[str, Any],
        pipelines: "Sequence[Pipeline]" = (),
    ) -> None:
        """Write the files asked for, and JSON; then name them. With its pipelines, jobs come with why they waited."""
        self.write_json({"rltune": _version(), "trace": work.name, "cluster": cluster, **content})
        if self.jobs_file is not None:
            _write_jobs(comparison, self.jobs_file, pipelines)
        if self.report is not None:
            _write_report(comparison, self.report, work.name)
        self.name_files()


def with_notes(comparison: "Comparison", work: "Workload") -> "Comparison":
    """Put what must be known of the trace under every form of the results."""
    waited = any(standing.wait_s.max > 0 for standing in comparison.standings)
    rejected = any(standing.rejected for standing in comparison.standings)
    nothing = () if waited or rejected else (NOBODY_WAITED,)
    return replace(comparison, notes=(*work.notes, *nothing, *comparison.notes))


def cluster_line(cluster: "Cluster", given: str) -> str:
    """Name a cluster in one line."""
    return f"{cluster.name or given} ({count(cluster.node_count, 'nodes')}, {count(cluster.gpu_count, 'GPUs')})"


def cluster_and_file(cluster: "Cluster", given: str) -> str:
    """Name a cluster in one line with the file that it is of: a calibrated one often has the name of the other."""
    line = cluster_line(cluster, given)
    named = cluster.name and given.endswith(".toml") and given != cluster.name
    return line.replace(" (", f" ({given}: ", 1) if named else line


def _version() -> str:
    from rltune.version import __version__

    return __version__


def _write_jobs(comparison: "Comparison", path: Path, pipelines: "Sequence[Pipeline]") -> None:
    from rltune.explain.reasons_while_waiting import looks_a_run, reasons_while_waiting

    looks = looks_a_run(len(comparison.runs))
    known = len(pipelines) == len(comparison.contenders)  # on several clusters there are more contenders

    def waited_for(run: "Run") -> list[str | None]:
        if not known:
            return [None] * len(run.schedule.jobs)
        return reasons_while_waiting(run.schedule, pipelines[run.contender], looks)

    with spinner(f"writing {path}"):
        comparison.write_jobs(make_room(path), waited_for)


def _write_report(comparison: "Comparison", path: Path, trace: str) -> None:
    from rltune.report import write_report

    with spinner(f"writing {path}"):
        title = "Scheduler comparison" if len(comparison.contenders) > 1 else "One simulation"
        write_report(comparison, make_room(path), title, trace)
