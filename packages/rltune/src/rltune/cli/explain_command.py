"""`rltune explain`: why a job waits."""

from typing import Annotated

import typer

from rltune.cli import completion, options, present_options, service_client
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs
from rltune.cli.present_options import Asked
from rltune.cli.terminal_progress import spinner

EXAMPLES = examples(
    "rltune explain 4711",
    "rltune explain 4711 --journal /var/lib/rltune/journal.db",
    "rltune explain 4711 --service https://head:8080            # without any right on the cluster",
    "rltune explain 1234 --trace history.txt -c my.toml --at 2026-01-31T12:00",
    "rltune explain all --trace synth:philly -c philly-slice --at 60%",
)
EVERYBODY = "all"
Job = Annotated[
    str,
    typer.Argument(
        help="The job's number; `all` for one line on everybody who waits.",
        metavar="JOB",
        autocompletion=completion.jobs,
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Leave out what change of its request would start it sooner.")]


@present_options.about_a_moment
def explain(
    job: Job,
    asked: Asked,
    service: present_options.Service = None,
    quick: Quick = False,
    json: options.JsonOrFile = None,
    force: options.Force = False,
) -> None:
    """Show why a job waits: the dominant reason with its evidence, the others, and what would start it."""
    outputs = Outputs(json)
    outputs.require_free(force=force)
    if service is not None:
        service_client.require_alone(asked.given())
        answer = service_client.explanation(service, job, changes=not quick)
        outputs.write_json(answer.to_dict())
        outputs.show_lines([str(answer)])
        return
    present = asked.present()
    from rltune.explain import Explainer

    with spinner("asking the core"):
        explainer = Explainer(present)
        if job == EVERYBODY:
            every = explainer.all_reasons()
        else:
            told = explainer.explain(job, changes=not quick)
    if job == EVERYBODY:
        outputs.write_json({name: {"why": reason.why, "text": reason.text} for name, reason in every.items()})
        reasons = [f"{name}  {reason}" for name, reason in every.items()] or ["no job waits"]
        lines = [str(present), *reasons, *(f"Note: {note}." for note in present.notes)]
    else:
        outputs.write_json({**told.to_dict(), "present": present.to_dict()})
        lines = [str(present), str(told)]
    outputs.show_lines(lines)
