"""`rltune slurm`: a real Slurm on this machine to try things on, and an experiment on it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rltune.cli import complete
from rltune.cli.manners import Mannered
from rltune.cli.options import examples
from rltune.cli.output import say, show_json, show_line
from rltune.cli.progress import spinner
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.live.slurm.testbed import Testbed

app = typer.Typer(cls=Mannered, no_args_is_help=True, help="Try things on a real Slurm.")
testbed_app = typer.Typer(
    cls=Mannered, no_args_is_help=True, help="Start and stop a real Slurm on this machine, with pretended GPUs."
)
app.add_typer(testbed_app, name="testbed")

DEFAULT_FOLDER = Path("/var/lib/rltune-testbed")
Folder = Annotated[Path, typer.Option(help="Where it lives; made by up, removed by down.", metavar="FOLDER")]


@testbed_app.command(
    epilog=examples(
        "rltune slurm testbed up",
        "rltune slurm testbed up --nodes ours.toml --clock x60 --database --folder /var/tmp/bed",
    )
)
def up(
    folder: Folder = DEFAULT_FOLDER,
    nodes: Annotated[
        str,
        typer.Option(
            help="Its nodes: a preset's name, or the TOML file of a cluster.",
            metavar="CLUSTER",
            autocompletion=complete.presets,
        ),
    ] = "slurm-five",
    clock: Annotated[
        str, typer.Option(help="How fast its clock runs: x1 to x600. Jobs must sleep accordingly less.", metavar="xN")
    ] = "x1",
    database: Annotated[
        bool, typer.Option("--database", help="With accounting: slurmdbd on a MariaDB of its own, users and a QOS.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            help="The first of its ports, two and one a node; free ones are looked for if not told.",
            metavar="N",
            min=1024,
            max=60_000,
        ),
    ] = None,
) -> None:
    """Start a Slurm: munge, slurmctld and a slurmd a node, on loopback only.

    Needs root and Debian's packages of Slurm; what is missing is named. Jobs see as many GPUs as they were given,
    but there are none: let them sleep.
    """
    from rltune.cluster import Cluster
    from rltune.live.slurm.testbed import Testbed

    cluster = Cluster.load(nodes)
    with spinner("starting Slurm"):
        bed = Testbed.up(folder, cluster, factor=_factor(clock), database=database, port=port)
    _tell_ignored(cluster)
    show_line(f"Slurm is up in {bed.folder} with {len(bed.nodes)} nodes. To use it:")
    show_line(f"  export SLURM_CONF={bed.folder}/etc/slurm.conf")
    show_line("  sinfo -N -o '%N %G %T'; sbatch --gpus-per-node=2 --wrap='sleep 60'; squeue")
    show_line(f"To end it: rltune slurm testbed down{_option(folder)}")


@testbed_app.command(epilog=examples("rltune slurm testbed down", "rltune slurm testbed down --folder /var/tmp/bed"))
def down(folder: Folder = DEFAULT_FOLDER) -> None:
    """End it: daemons, jobs, and all that is in its folder."""
    from rltune.live.slurm.testbed import Testbed

    with spinner("stopping Slurm"):
        Testbed.open(folder).down()
    show_line(f"{folder}: is gone, and all that ran in it")


@testbed_app.command(epilog=examples("rltune slurm testbed status", "rltune slurm testbed status --json"))
def status(
    folder: Folder = DEFAULT_FOLDER,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Tell what of it runs, how many jobs there are, and what time its clock shows."""
    from rltune.live.slurm.testbed import Testbed

    bed = Testbed.open(folder)
    told = _status(bed)
    if json:
        show_json(told)
        return
    for key, value in told.items():
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
        show_line(f"{key}: {shown or '-'}")


def _status(bed: "Testbed") -> dict[str, object]:
    from collections import Counter
    from datetime import UTC, datetime

    running = bed.running()
    answers = running["slurmctld"] and running["munged"]
    jobs = Counter(bed.run("squeue", "-h", "-a", "-r", "-o", "%T").split()) if answers else Counter()
    nodes = Counter(line.split()[1] for line in set(_nodes(bed).splitlines())) if answers else Counter()
    return {
        "folder": str(bed.folder),
        "daemons": {name: "runs" if alive else "is down" for name, alive in running.items()},
        "nodes": dict(nodes),
        "jobs": dict(jobs),
        "clock": f"x{bed.factor}",
        "time": datetime.fromtimestamp(bed.now_s(), UTC).isoformat(timespec="seconds"),
        "accounting": bed.database,
    }


def _nodes(bed: "Testbed") -> str:
    return bed.run("sinfo", "-h", "-N", "-o", "%N %T")


def _factor(text: str) -> int:
    match = re.fullmatch(r"x?(\d+)", text.strip())
    if match is None:
        raise InputError(f"--clock should be x1 to x600, not {text!r}")
    return int(match[1])


def _tell_ignored(cluster: "Cluster") -> None:
    """Say what of a cluster's TOML a testbed does not do."""
    parts = {"limits": cluster.limits, "maintenance": cluster.maintenance, "outages": cluster.outages}
    ignored = [name for name, given in parts.items() if given]
    if ignored:
        say(f"not set up on the testbed: {', '.join(ignored)}; use sacctmgr and scontrol")


def _option(folder: Path) -> str:
    return "" if folder == DEFAULT_FOLDER else f" --folder {folder}"
