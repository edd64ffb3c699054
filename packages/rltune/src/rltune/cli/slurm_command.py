"""`rltune slurm`: a real Slurm on this machine to try things on, and an experiment on it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rltune.cli import completion as complete
from rltune.cli.console import make_room, say, show_json, show_line, show_table
from rltune.cli.exits import Mannered
from rltune.cli.options import examples
from rltune.cli.terminal_progress import bar, spinner
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.cluster import Cluster
    from rltune.lab.experiment.experiment_plan import ExperimentPlan
    from rltune.lab.testbed import Testbed

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
        "rltune slurm testbed up --release 26.05",
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
            help="The first of its ports, three and one a node; free ones are looked for if not told.",
            metavar="N",
            min=1024,
            max=60_000,
        ),
    ] = None,
    release: Annotated[
        str,
        typer.Option(
            help="Another release of Slurm than this machine's own: 24.11 or 26.05. Made and kept if it is not there.",
            metavar="RELEASE",
        ),
    ] = "",
    rest: Annotated[bool, typer.Option("--rest", help="With a slurmrestd on loopback, and a token for it.")] = False,
) -> None:
    """Start a Slurm: munge, slurmctld and a slurmd a node, on loopback only.

    Needs root and Debian's packages of Slurm; what is missing is named. Jobs see as many GPUs as they were given,
    but there are none: let them sleep.
    """
    from rltune.cluster import Cluster
    from rltune.lab.testbed import Testbed

    cluster = Cluster.load(nodes)
    if release:
        _install(release)
    with spinner("starting Slurm"):
        bed = Testbed.up(
            folder, cluster, factor=_factor(clock), database=database, port=port, release=release, rest=rest
        )
    _tell_ignored(cluster)
    show_line(f"Slurm is up in {bed.folder} with {len(bed.nodes)} nodes. To use it:")
    show_line(f"  export SLURM_CONF={bed.folder}/etc/slurm.conf")
    if release:
        show_line(f"  export PATH={bed.folder}/bin:$PATH")
    if rest:
        show_line(f'  slurm.rest = "{bed.rest}", slurm.token = "{bed.token_file}"')
    show_line("  sinfo -N -o '%N %G %T'; sbatch --gpus-per-node=2 --wrap='sleep 60'; squeue")
    show_line(f"To end it: rltune slurm testbed down{_option(folder)}")


@testbed_app.command(epilog=examples("rltune slurm testbed install 24.11 26.05"))
def install(
    releases: Annotated[list[str], typer.Argument(help="24.11, 26.05.", metavar="RELEASE...")],
) -> None:
    """Make other releases of Slurm for testbeds, beside this machine's own, and keep them.

    Each is a small Debian below ~/.cache/rltune ($XDG_CACHE_HOME), made by debootstrap from where this machine's
    packages come from: some minutes and 1 GB. To be rid of it, remove its folder.
    """
    from rltune.lab.testbed.slurm_releases import release_named

    for release in releases:
        release_named(release)  # all are known before the first is made
    for release in releases:
        show_line(f"Slurm {release} is in {_install(release)}")


@testbed_app.command(epilog=examples("rltune slurm testbed down", "rltune slurm testbed down --folder /var/tmp/bed"))
def down(folder: Folder = DEFAULT_FOLDER) -> None:
    """End it: daemons, jobs, and all that is in its folder."""
    from rltune.lab.testbed import Testbed

    with spinner("stopping Slurm"):
        Testbed.open(folder).down()
    show_line(f"{folder}: is gone, and all that ran in it")


@testbed_app.command(epilog=examples("rltune slurm testbed status", "rltune slurm testbed status --json"))
def status(
    folder: Folder = DEFAULT_FOLDER,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Return what of it runs, how many jobs there are, and what time its clock shows."""
    from rltune.lab.testbed import Testbed

    bed = Testbed.open(folder)
    told = _status(bed)
    if json:
        show_json(told)
        return
    for key, value in told.items():
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
        show_line(f"{key}: {shown or '-'}")


@app.command(
    epilog=examples(
        "rltune slurm experiment --out out/slurm --policy model.rltune",
        "rltune slurm experiment --out out/try --jobs 60 --seeds 1 --policy wfp3",
        "rltune slurm experiment --out out/turns --preempt --clock x240 --cycle 240 --workers 4",
    )
)
def experiment(
    out: Annotated[
        Path, typer.Option(help="The folder in which runs and results gather; named again, it goes on.", metavar="DIR")
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            help="A further arm: a name of `rltune policies`, or a model's file; may be given again.",
            metavar="NAME",
            autocompletion=complete.policies,
        ),
    ] = None,
    placement: Annotated[
        str,
        typer.Option(help="On which nodes, for the further arms.", metavar="NAME", autocompletion=complete.placements),
    ] = "best-fit",
    jobs: Annotated[int, typer.Option(help="Jobs a run.", min=1, max=100_000, metavar="N")] = 1024,
    seeds: Annotated[int, typer.Option(help="How many workloads every arm runs.", min=1, max=1000, metavar="N")] = 3,
    load: Annotated[
        float, typer.Option(help="GPU time asked for over what there is while jobs arrive.", min=0.01, metavar="X")
    ] = 1.2,
    nodes: Annotated[
        str,
        typer.Option(help="A preset's name, or a cluster's TOML.", metavar="CLUSTER", autocompletion=complete.presets),
    ] = "slurm-five",
    clock: Annotated[
        str,
        typer.Option(help="How fast the clock runs: x1 to x60, or to as many as a cycle has seconds.", metavar="xN"),
    ] = "x60",
    cycle: Annotated[float, typer.Option(help="Seconds, by that clock, from one cycle to the next.", metavar="S")] = 60,
    estimator: Annotated[
        str, typer.Option(help="What the controller knows of run times: user or history.", metavar="NAME")
    ] = "user",
    channel: Annotated[str, typer.Option(help="site-factor or priority.", metavar="NAME")] = "site-factor",
    steer: Annotated[str, typer.Option(help="exclude, pin or off.", metavar="HOW")] = "exclude",
    band: Annotated[
        int,
        typer.Option(help="From the first job's number to the last one's: the policy's say beside Slurm.", metavar="N"),
    ] = 10_000,
    preempt: Annotated[
        bool,
        typer.Option(
            "--preempt",
            help="Jobs six times as long that write real checkpoints, of which half agree to give way; two arms more: "
            "a learned order, and one under which jobs take turns. A --policy may be NAME+preempt:ORDER, too.",
        ),
    ] = False,
    workers: Annotated[
        int,
        typer.Option(
            help="Runs at a time, each on a testbed of its own; cycles may overrun.", min=1, max=16, metavar="N"
        ),
    ] = 1,
) -> None:
    """Run the same jobs on a real Slurm: alone, and driven by the controller.

    Arms: tuned multifactor priorities with backfilling and nothing else; smallest area first; and every --policy. A run
    takes as long as its jobs, by a clock that is as much faster as you say. DIR gets a record a run, result.json,
    report.html and gantt.svg. After an interruption the same command goes on with the runs that are missing.
    """
    from rltune.cluster import Cluster
    from rltune.lab.experiment.experiment_plan import ALONE, TURNS_ARMS, Arm, ExperimentPlan
    from rltune.lab.experiment.job_profiles import PLAIN, TURNS
    from rltune.lab.experiment.one_run import control_settings
    from rltune.lab.experiment.perform import perform
    from rltune.live.pinned_pipeline import pin_pipeline

    named = dict.fromkeys([*(TURNS_ARMS if preempt else ()), *(policy or [])])
    further = [Arm.driven(name, placement) for name in named]
    arms = (Arm(ALONE), Arm.driven("saf"), *further)
    plan = ExperimentPlan(
        arms,
        tuple(range(1, seeds + 1)),
        jobs,
        load,
        nodes,
        _factor(clock),
        cycle,
        estimator,
        channel,
        steer,
        band,
        TURNS if preempt else PLAIN,
    )
    Cluster.load(nodes)
    make_room(out / "plan.json")
    for arm in arms[1:]:
        pin_pipeline(control_settings(plan, arm))  # what cannot be decided by is refused before hours are spent
    with bar("jobs ended") as tell:
        perform(plan, out, tell, workers)
    _show_result(plan, out)


def _install(release: str) -> Path:
    from rltune.lab.testbed.release_folder import is_made, make
    from rltune.lab.testbed.slurm_releases import release_named

    wanted = release_named(release)
    if not is_made(wanted):
        say(f"making Slurm {release} from Debian's {wanted.suite}: some minutes, once")
    with spinner(f"making Slurm {release}"):
        return make(wanted)


def _show_result(plan: "ExperimentPlan", folder: Path) -> None:
    from rltune.lab.experiment.experiment_result import ExperimentResult

    result = ExperimentResult.of(plan, folder)
    show_table(result.table())
    for note in result.comparison.notes:
        show_line(note)
    result.write(folder)
    say(f"{folder / 'report.html'} shows every job")


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
        "release": bed.release or "this machine's",
    }


def _nodes(bed: "Testbed") -> str:
    return bed.run("sinfo", "-h", "-N", "-o", "%N %T")


def _factor(text: str) -> int:
    match = re.fullmatch(r"x?(\d+)", text.strip())
    if match is None:
        raise InputError(f"--clock should be x1 to x600, not {text!r}")
    return int(match[1])


def _tell_ignored(cluster: "Cluster") -> None:
    """Return what of a cluster's TOML a testbed does not do."""
    parts = {"limits": cluster.limits, "maintenance": cluster.maintenance, "outages": cluster.outages}
    ignored = [name for name, given in parts.items() if given]
    if ignored:
        say(f"not set up on the testbed: {', '.join(ignored)}; use sacctmgr and scontrol")


def _option(folder: Path) -> str:
    return "" if folder == DEFAULT_FOLDER else f" --folder {folder}"
