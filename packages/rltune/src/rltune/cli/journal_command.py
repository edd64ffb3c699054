"""`rltune journal`: what the controller wrote down."""

from pathlib import Path
from typing import Annotated

import typer

from rltune.cli import completion, options
from rltune.cli.command import Command
from rltune.cli.compile_notice import compile_core
from rltune.cli.console import count, make_room, require_free, show, show_json, show_line
from rltune.cli.control_command import JOURNAL
from rltune.cli.dates import moment
from rltune.cli.exits import Mannered
from rltune.cli.options import examples
from rltune.cli.terminal_progress import spinner
from rltune.errors import InputError

DIFFERS = 1

app = typer.Typer(cls=Mannered, no_args_is_help=True, help="Read what `rltune control` wrote down.")

_File = Annotated[Path, typer.Option("--journal", "-j", help="The journal.", metavar="FILE")]


@app.command(
    cls=Command, epilog=examples("rltune journal story 4711", "rltune journal story 4711 -j /var/lib/rltune/journal.db")
)
def story(
    job: Annotated[int, typer.Argument(help="The job's number.", metavar="JOB", autocompletion=completion.jobs)],
    journal: _File = JOURNAL,
    json: options.Json = False,
) -> None:
    """Show a job's whole story: seen, ranked, changed, started, ended, and why it waited."""
    from rltune.live.journal.store import Journal
    from rltune.live.journal.story import story as tell

    lines = tell(Journal.read(journal), job)
    if json:
        show_json([{"at_s": line.at_s, "text": line.text} for line in lines])
        return
    for line in lines:
        show_line(str(line))


@app.command(cls=Command, epilog=examples("rltune journal replay", "rltune journal replay 120 --last 10"))
def replay(
    cycle: Annotated[int, typer.Argument(help="The cycle; 0 = the last.", min=0, metavar="CYCLE")] = 0,
    last: Annotated[int, typer.Option(help="Replay so many, up to this one.", min=1, metavar="N")] = 1,
    journal: _File = JOURNAL,
) -> None:
    """Make recorded decisions again; exit code 1 if one comes out otherwise."""
    from rltune.live.journal.store import Journal
    from rltune.live.replay_cycle import replay as again

    store = Journal.read(journal)
    same = True
    with spinner("deciding again"):
        for number in store.cycles_until(cycle, last):
            made = again(store, number)
            same &= made.same
            verdict = "the same, byte for byte" if made.same else f"differs for jobs {_listed(made.differing)}"
            show_line(f"cycle {number}: {'; '.join((verdict, *made.notes))}")
    if not same:
        raise typer.Exit(DIFFERS)


@app.command("show", cls=Command, epilog=examples("rltune journal show", "rltune journal show --cycle 120"))
def show_journal(
    journal: _File = JOURNAL,
    cycle: Annotated[
        int | None, typer.Option(help="Show this cycle's decision; 0 = the last.", min=0, metavar="N")
    ] = None,
    json: options.Json = False,
) -> None:
    """Show what a journal holds, or one decision: who waits in which order, and why."""
    from rltune.live.journal.journal_text import decision_table, summary
    from rltune.live.journal.store import Journal

    store = Journal.read(journal)
    if cycle is not None:
        show(decision_table(store, cycle))
    elif json:
        show_json(summary(store))
    else:
        for name, value in summary(store).items():
            show_line(f"{name}: {value}")


@app.command(
    cls=Command, epilog=examples("rltune journal export history.parquet", "rltune journal export history.csv.gz")
)
def export(
    out: options.OutTrace,
    journal: _File = JOURNAL,
    force: options.Force = False,
) -> None:
    """Write the jobs that were seen to end as a trace, to train on and to compare with."""
    from rltune import trace
    from rltune.live.journal.store import Journal
    from rltune.trace.table import require_suffix

    require_free([out], force=force)
    require_suffix(out)
    jobs = Journal.read(journal).history(1 << 40)
    if not len(jobs):
        raise InputError(f"{journal}: no job has been seen to end yet")
    trace.write(jobs, make_room(out))
    show_line(f"{out}: {count(len(jobs), 'jobs')}")


@app.command(
    cls=Command,
    epilog=examples("rltune journal report", "rltune journal report --since 2026-01-31 --html out/week.html"),
)
def report(
    journal: _File = JOURNAL,
    since: Annotated[
        str | None, typer.Option(help="Tell of what came since this date, as 2026-01-31T12:00.", metavar="DATE")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write it as a page.", metavar="FILE")] = None,
    json: options.Json = False,
    force: options.Force = False,
) -> None:
    """Show what would have happened in the policy's order, against what did: gains, for whom, stories, health."""
    from rltune.live.journal.store import Journal
    from rltune.shadow import shadow_report, shadow_text

    require_free([html] if html else [], force=force)
    compile_core()
    with spinner("replaying what was seen"):
        made = shadow_report(Journal.read(journal), *([moment(since)] if since else []))
    if json:
        show_json(shadow_text.as_dict(made))
    else:
        for line in shadow_text.lines(made):
            show_line(line)
    if html:
        from rltune.shadow.shadow_page import write_shadow

        write_shadow(made, make_room(html), str(journal))


def _listed(jobs: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, jobs[:10]))
    return f"{shown} and {len(jobs) - 10} more" if len(jobs) > 10 else shown or "none"
