"""`rltune cluster`: the machine a history is replayed on, shown, checked, or taken from a running Slurm."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltune.cli import completion as complete
from rltune.cli import options
from rltune.cli.command import Command
from rltune.cli.console import count, require_free, show, show_line, write_text
from rltune.cli.exits import Mannered
from rltune.cli.options import examples
from rltune.cli.terminal_progress import spinner
from rltune.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from rltune.cluster import Cluster, Limit

app = typer.Typer(cls=Mannered, no_args_is_help=True, help="Look at clusters: presets, and TOML files of your own.")


@app.command("show", cls=Command, epilog=examples("rltune cluster show", "rltune cluster show philly-slice"))
def show_cluster(
    cluster: Annotated[
        str | None,
        typer.Argument(help="A preset's name, or a TOML file.", metavar="CLUSTER", autocompletion=complete.presets),
    ] = None,
) -> None:
    """Show a cluster's node groups, totals, limits and maintenance; without a name, list the presets."""
    from rltune.cluster import Cluster

    if cluster is None:
        show(_presets())
        return
    found = Cluster.load(cluster)
    show_line(found.about or found.name or cluster)
    show(_groups(found))
    for line in _more(found):
        show_line(line)


@app.command(cls=Command, epilog=examples("rltune cluster check my.toml"))
def check(
    cluster: Annotated[Path, typer.Argument(help="The TOML file of a cluster.", metavar="CLUSTER")],
) -> None:
    """Check a cluster's TOML file."""
    from rltune.cluster import Cluster

    found = Cluster.from_toml(cluster)
    _require_scheduler(found, cluster)
    show_line(f"{cluster}: is a cluster of {_totals(found)}")


def _require_scheduler(cluster: "Cluster", path: Path) -> None:
    """Refuse a policy or backfilling of the site that there is not."""
    from rltune.engine.parse_pipeline import parse_pipeline

    if (named := cluster.scheduler) is not None:
        try:
            parse_pipeline(named.policy, named.backfill)
        except InputError as error:
            raise InputError(f"{path}: [scheduler]: {error}") from None


@app.command("import-slurm", cls=Command, epilog=examples("rltune cluster import-slurm -o ours.toml"))
def import_slurm(
    out: Annotated[Path, typer.Option("--out", "-o", help="The TOML file to write.", metavar="FILE.toml")],
    force: options.Force = False,
) -> None:
    """Write the nodes, GPUs, partitions and maintenance of this Slurm as a cluster.

    What our TOML has no word for (features, other reservations, nodes that are down) stands in comments.
    """
    from rltune.live.see.backend import BackendError
    from rltune.live.slurm.client import Slurm
    from rltune.live.slurm.cluster_toml import to_toml

    require_free([out], force=force)
    try:
        with spinner("asking Slurm"):
            seen = Slurm().observe()
    except BackendError as error:
        raise InputError(str(error)) from None
    _write(to_toml(seen, out.stem), "Slurm", out)


@app.command(
    "import",
    cls=Command,
    epilog=examples(
        "scontrol show nodes > nodes.txt; rltune cluster import nodes.txt -o ours.toml",
        "ssh head scontrol show nodes | rltune cluster import - -o ours.toml",
        "rltune cluster import LOG.swf.gz -o machine.toml",
    ),
)
def import_printed(
    file: Annotated[
        str,
        typer.Argument(
            help="What `scontrol show nodes` or `sinfo -N -o '%N %P %G %c %m %f %T'` printed, or JSON; "
            "or an SWF log, whose header tells the machine. - is stdin.",
            metavar="FILE",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The TOML file to write.", metavar="FILE.toml")],
    force: options.Force = False,
) -> None:
    """Write a cluster from what Slurm printed into a file, so that no Slurm is needed here.

    What our TOML has no word for (features, nodes that are down) stands in comments. Maintenance is not in such a file;
    `rltune cluster import-slurm` asks a running Slurm for it.
    """
    require_free([out], force=force)
    _write(_imported(_printed(file), file, out.stem), file, out)


def _write(text: str, origin: str, out: Path) -> None:
    """Write what was imported, once it is known to be a cluster."""
    from rltune.cluster import Cluster

    found = Cluster.from_text(text, f"what {origin} tells")
    write_text(text, out)
    show_line(f"{out}: is a cluster of {_totals(found)}")


def _imported(text: str, file: str, name: str) -> str:
    from rltune.live.slurm.cluster_toml import to_toml
    from rltune.live.slurm.printed_nodes import printed_snapshot
    from rltune.trace.swf_machine import is_swf, machine_toml

    if is_swf(text):
        return machine_toml(text, file, name)
    return to_toml(printed_snapshot(text, file), name)


def _printed(file: str) -> str:
    from rltune.trace.trace_file import read_source

    return sys.stdin.read() if file == "-" else read_source(file).text


def _presets() -> "Table":
    from rich.table import Table
    from rich.text import Text

    from rltune.cluster import Cluster

    table = _plain(Table("preset", "nodes", "GPUs", "what it is"))
    for name in Cluster.presets():
        one = Cluster.preset(name)
        table.add_row(*map(Text, (name, f"{one.node_count:,}", f"{one.gpu_count:,}", one.about)))
    return table


def _groups(cluster: "Cluster") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = _plain(Table("group", "nodes", "GPUs a node", "GPU type", "CPUs", "memory", "VCs", "rack"))
    for column in (4, 5):
        table.columns[column].justify = "right"
    for i, group in enumerate(cluster.groups):
        memory = "-" if group.mem_gib is None else f"{group.mem_gib:,.0f} GiB"
        rack = group.rack + (f" ({group.nodes_per_rack} nodes each)" if group.nodes_per_rack else "")
        cells = (
            f"{i} {group.name}".strip(),
            f"{group.count:,}",
            str(group.gpus),
            group.gpu_type or "any",
            "-" if group.cpus is None else f"{group.cpus:g}",
            memory,
            ", ".join(group.vc) or "all",
            rack or "-",
        )
        table.add_row(*map(Text, cells))
    return table


def _plain(table: "Table") -> "Table":
    table.box = None
    table.padding = (0, 2, 0, 0)
    for column in (1, 2):
        table.columns[column].justify = "right"
    return table


def _totals(cluster: "Cluster") -> str:
    parts = [(cluster.node_count, "nodes"), (cluster.gpu_count, "GPUs"), (len(cluster.groups), "groups")]
    parts += [(len(cluster.vcs), "VCs")] if cluster.vcs else []
    return ", ".join(count(n, what) for n, what in parts)


def _more(cluster: "Cluster") -> Iterator[str]:
    """Return what no column holds."""
    yield f"in all: {_totals(cluster)}"
    for gpu_type, factor in cluster.speed.items():
        yield f"speed of {gpu_type}: {factor:g}"
    if (ours := cluster.scheduler) is not None:
        weights = ", ".join(f"{name} {value}" for name, value in sorted(ours.weights.items()))
        yield f"scheduler: {ours.policy} + {ours.backfill}" + (f" ({weights})" if weights else "")
    for limit in cluster.limits:
        yield f"limit of {_who(limit)}: {_allowance(limit)}"
    for window in cluster.maintenance:
        where = f"groups {', '.join(map(str, window.groups))}" if window.groups else "all groups"
        yield f"maintenance: {where}, from {window.start_s:,.0f} s to {window.end_s:,.0f} s"
    for outage in cluster.outages:
        yield f"outage: node {outage.node}, from {outage.down_s:,.0f} s to {outage.up_s:,.0f} s"
    for rule in cluster.preemption:
        yield f"preemption: {rule}"


def _who(limit: "Limit") -> str:
    return f"each {limit.scope}" if limit.name == "*" else f"{limit.scope} {limit.name}"


def _allowance(limit: "Limit") -> str:
    allowed: list[tuple[Any, str]] = [
        (limit.max_gpus, "GPUs"),
        (limit.max_running, "running jobs"),
        (limit.max_submitted, "submitted jobs"),
    ]
    return ", ".join(f"{n:,} {what}" for n, what in allowed if n is not None) or "nothing is limited"
