"""`rltune whatif`: another policy, other nodes, limits or load, on a history or on the queue of now."""

from typing import Annotated

import typer

from rltune.cli import options, present_options, service_client
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs
from rltune.cli.present_options import Asked
from rltune.cli.terminal_progress import counting_bar, spinner
from rltune.errors import InputError

EXAMPLES = examples(
    "rltune whatif add=4x8:A100 --trace history.txt -c my.toml",
    "rltune whatif 'pipeline=saf + easy' load=+20% --trace history.txt -c my.toml",
    "rltune whatif drain=rack3 --journal /var/lib/rltune/journal.db     # the queue of now",
    "rltune whatif 'pipeline=saf + easy' --service https://head:8080    # with an operator's token",
    "rltune whatif --target 'p90 wait < 1h for gpus>=8' --with 8:A100 --with 8:V100 --trace history.txt -c my.toml",
)
Changes = Annotated[
    list[str] | None,
    typer.Argument(
        help="Changes, made together: 'pipeline=saf + easy', add=4x8:A100, remove=2:V100, retire=V100, drain=RACK, "
        "limit=user:*:gpus=16, cap=PARTITION:64, 'join=a|b', turns=las, load=+20%.",
        metavar="CHANGE",
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option("--target", help="Find how many nodes meet this: 'p90 wait < 1h for gpus>=8'.", metavar="TARGET"),
]
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with", help="For --target: nodes of this kind, GPUs:type, as 8:A100. May be given again.", metavar="NODES"
    ),
]
Rolls = Annotated[int, typer.Option(help="On the queue of now: how many futures are drawn.", min=2, metavar="N")]


@present_options.about_a_moment
def whatif(
    asked: Asked,
    changes: Changes = None,
    target: TargetOption = None,
    kinds: With = None,
    service: present_options.Service = None,
    rolls: Rolls = 30,
    seed: options.Seed = 0,
    workers: options.Workers = 2,
    json: options.JsonOrFile = None,
    force: options.Force = False,
) -> None:
    """Show what a change would come to: waits now and then, how sure, and who gains and loses.

    With --trace alone the whole history is run twice; with --at, a journal or a running Slurm, the queue of that
    moment is rolled forward under both.
    """
    outputs = Outputs(json)
    outputs.require_free(force=force)
    from rltune.whatif import parse_edit
    from rltune.whatif.edits import require_once

    edits = [parse_edit(text) for text in changes or ()]
    require_once(edits)
    if bool(edits) == bool(target):
        raise InputError("give changes such as add=4x8:A100, or a --target; not both, and not neither")
    if kinds and target is None:
        raise InputError("--with says which nodes would meet a --target; to add nodes write add=4x8:A100")
    if service is not None:
        service_client.require_alone({**asked.given(), "--target": target})
        _of_service(service, list(changes or ()), outputs)
        return
    if target is not None:
        _solve(target, kinds or [], asked.with_time("100%"), outputs)
        return
    if asked.trace is not None and asked.at is None:
        from rltune.whatif import what_if
        from rltune.whatif.edits import Site

        jobs, on, planned, guess, _ = asked.with_time("100%").checked_site()
        with counting_bar("simulating", "jobs") as tell:
            told = what_if(Site(jobs, on, planned), edits, guess, progress=tell)
    else:
        from rltune.whatif import what_if_now

        present = asked.present()
        with counting_bar("rolling", "futures") as tell:
            told = what_if_now(present, edits, rolls, seed, workers=workers, progress=tell)
    outputs.write_json(told.to_dict())
    outputs.show_lines([str(told)])


def _of_service(service: str, changes: list[str], outputs: Outputs) -> None:
    with spinner("asking the service"):
        told = service_client.what_if(service, changes)
    outputs.write_json(told.to_dict())
    outputs.show_lines([str(told)])


def _solve(target: str, kinds: list[str], asked: Asked, outputs: Outputs) -> None:
    from rltune.whatif import Target, solve
    from rltune.whatif.edits import Site

    if not kinds:
        raise InputError("--target needs --with: the kind of nodes to add, GPUs:type, as 8:A100")
    if asked.trace is None:
        raise InputError("--target is found on a history: give one by --trace")
    wanted = Target.parse(target)
    jobs, on, planned, guess, _ = asked.checked_site()
    with spinner("trying numbers of nodes"):
        found = [solve(Site(jobs, on, planned), wanted, kind, guess) for kind in kinds]
    outputs.write_json({"found": [one.to_dict() for one in found]})
    notes = dict.fromkeys(note for one in found for note in one.lines()[1:])  # most are the same for all kinds
    outputs.show_lines([*(str(one) for one in found), *notes])
