"""`rltune forecast`: when waiting jobs will start, and one that is not submitted yet."""

from typing import TYPE_CHECKING, Annotated

import typer

from rltune.cli import completion, options, present_options, service_client
from rltune.cli.console import show_line
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs
from rltune.cli.present_options import Asked
from rltune.cli.terminal_progress import counting_bar
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.forecast import StartCalibration
    from rltune.present import Present

EXAMPLES = examples(
    "rltune forecast                                           # everybody who waits, on the Slurm of this machine",
    "rltune forecast 4711 --journal /var/lib/rltune/journal.db",
    'rltune forecast --submit "gpus=16,type=V100,time=4h"      # before submitting: which request starts soonest?',
    "rltune forecast --trace history.txt -c my.toml --at 80% --calibrate 12",
    "rltune forecast 4711 --service https://head:8080          # without any right on the cluster",
)
Job = Annotated[
    str | None,
    typer.Argument(
        help="One job's number; everybody who waits if none is named.", metavar="JOB", autocompletion=completion.jobs
    ),
]
Submit = Annotated[
    str | None,
    typer.Option(
        help="A request that is not submitted yet: gpus=16,type=V100,time=4h,nodes=2,partition=a,user=ann.",
        metavar="REQUEST",
    ),
]
Rolls = Annotated[int, typer.Option(help="How many futures are drawn.", min=2, metavar="N")]
Calibrate = Annotated[
    int,
    typer.Option(
        "--calibrate",
        help="With --trace or --journal: forecast at so many earlier moments first, and correct by them.",
        min=0,
        metavar="N",
    ),
]
TellUsers = Annotated[
    bool,
    typer.Option(
        "--tell-users",
        help="On a running Slurm: write why each job waits and when it starts into its AdminComment, as Administrator.",
    ),
]


@present_options.about_a_moment
def forecast(
    asked: Asked,
    job: Job = None,
    submit: Submit = None,
    service: present_options.Service = None,
    rolls: Rolls = 100,
    calibrate: Calibrate = 0,
    seed: options.Seed = 0,
    workers: options.Workers = 2,
    tell_users: TellUsers = False,
    json: options.JsonOrFile = None,
    force: options.Force = False,
) -> None:
    """Show when waiting jobs will start: p10, p50 and p90 of drawn futures, in the order that is in force."""
    outputs = Outputs(json)
    outputs.require_free(force=force)
    if job is not None and submit is not None:
        raise InputError("give a job that waits, or a request that is not submitted yet (--submit), not both")
    if service is not None:
        also = {"--submit": submit, "--calibrate": calibrate, "--tell-users": tell_users}
        service_client.require_alone({**asked.given(), **also})
        told = service_client.forecast(service, job)
        outputs.write_json(told.to_dict())
        outputs.show_lines([str(told)])
        return
    if tell_users:
        _tell_users(asked, rolls, seed, workers)
        return
    present = asked.present()
    made = _calibration(asked, calibrate, seed, workers)
    if submit is not None:
        _offer(present, submit, rolls, seed, workers, made, outputs)
        return
    from rltune.forecast import forecast as run

    if job is not None:
        _require_turn(job, present)
    with counting_bar("rolling", "futures") as tell:
        told = run(present, rolls, seed, made, job=job or "", workers=workers, progress=tell)
    outputs.write_json({**told.to_dict(), "present": present.to_dict()})
    outputs.show_lines([str(present), str(told)])


def _require_turn(job: str, present: "Present") -> None:
    """Refuse a job that is held: nobody knows when it will be released."""
    if job in present.asides:
        aside = present.asides[job]
        raise InputError(f"job {job} has no start to forecast: {aside.why}, {aside.text}")
    present.waiting_row(job)


def _tell_users(asked: Asked, rolls: int, seed: int, workers: int) -> None:
    """Write reasons and forecasts where users look."""
    from rltune.explain import Explainer
    from rltune.forecast import forecast as run
    from rltune.live.tell_waiting import tell_waiting

    backend, snapshot, present = asked.looked()
    with counting_bar("rolling", "futures") as tell:
        made = run(present, rolls, seed, workers=workers, progress=tell)
    told = tell_waiting(backend, snapshot, Explainer(present).all_reasons(), made, present.pipeline.label)
    if told.refused:
        raise InputError(str(told))
    show_line(str(told))


def _calibration(asked: Asked, moments: int, seed: int, workers: int) -> "StartCalibration | None":
    if not moments:
        return None
    if asked.trace is None and asked.journal is None:
        raise InputError("--calibrate tries forecasts on what is past: give a history (--trace) or a --journal")
    from rltune.forecast.calibrate_forecast import calibrate
    from rltune.live.calibrate_on_journal import calibrate_on_journal
    from rltune.live.journal.store import Journal

    with counting_bar("calibrating", "moments") as tell:
        if asked.journal is not None:
            kept = Journal.read(asked.journal)
            return calibrate_on_journal(kept, moments, seed=seed, workers=workers, progress=tell)
        jobs, cluster, pipeline, estimator, at_s = asked.site()
        return calibrate(jobs, cluster, pipeline, estimator, at_s, moments, seed=seed, workers=workers, progress=tell)


def _offer(
    present: "Present",
    submit: str,
    rolls: int,
    seed: int,
    workers: int,
    made: "StartCalibration | None",
    outputs: Outputs,
) -> None:
    from rltune.forecast.before_submitting import compare_requests, parse_request

    request = parse_request(submit)
    with counting_bar("rolling", "requests") as tell:
        told = compare_requests(present, request, rolls, seed, made, workers=workers, progress=tell)
    outputs.write_json(told.to_dict())
    outputs.show_lines([str(told)])
