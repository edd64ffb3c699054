"""`rltune forecast`: when waiting jobs will start, and one that is not submitted yet."""

from typing import TYPE_CHECKING, Annotated

import typer

from rltune.cli import options, present_options
from rltune.cli.options import examples
from rltune.cli.outputs import Outputs
from rltune.cli.present_options import Asked
from rltune.cli.terminal_progress import bar
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.forecast import StartCalibration
    from rltune.present import Present

EXAMPLES = examples(
    "rltune forecast                                           # everybody who waits, on the Slurm of this machine",
    "rltune forecast 4711 --journal /var/lib/rltune/journal.db",
    'rltune forecast --submit "gpus=16,type=V100,time=4h"      # before submitting: which request starts soonest?',
    "rltune forecast --trace history.txt -c my.toml --at 80% --calibrate 12",
)
Job = Annotated[
    str | None, typer.Argument(help="One job's number; everybody who waits if none is named.", metavar="JOB")
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
        help="With --trace: forecast at so many earlier moments first, and correct by them.",
        min=0,
        metavar="N",
    ),
]


def forecast(
    job: Job = None,
    submit: Submit = None,
    journal: present_options.JournalOption = None,
    cycle: present_options.CycleNumber = 0,
    trace: present_options.TraceOption = None,
    cluster: present_options.ClusterOption = None,
    at: present_options.At = None,
    pipeline: present_options.InForce = None,
    estimator: options.Estimator = None,
    rolls: Rolls = 100,
    calibrate: Calibrate = 0,
    seed: options.Seed = 0,
    workers: options.Workers = 2,
    json: options.JsonOrFile = None,
    force: options.Force = False,
    config: present_options.Config = None,
    testbed: present_options.Testbed = None,
    allow_rejected: options.AllowRejected = False,
) -> None:
    """Say when waiting jobs will start: p10, p50 and p90 of drawn futures, in the order that is in force."""
    outputs = Outputs(json)
    outputs.require_free(force=force)
    asked = Asked(trace, cluster, at, pipeline, estimator, journal, cycle, config, testbed, allow_rejected)
    if job is not None and submit is not None:
        raise InputError("give a job that waits, or a request that is not submitted yet (--submit), not both")
    present = asked.present()
    made = _calibration(asked, calibrate, seed, workers)
    if submit is not None:
        _offer(present, submit, rolls, seed, workers, made, outputs)
        return
    from rltune.forecast import forecast as run

    if job is not None and job not in present.asides:
        present.waiting_row(job)
    with bar("rolling") as tell:
        told = run(
            present, rolls, seed, made, workers=workers, progress=lambda done, total: tell(done, total, "futures")
        )
    if job is not None:
        told = told.only(job, present)
    outputs.write_json({**told.to_dict(), "present": present.to_dict()})
    outputs.show_lines([str(present), str(told)])


def _calibration(asked: Asked, moments: int, seed: int, workers: int) -> "StartCalibration | None":
    if not moments:
        return None
    if asked.trace is None:
        raise InputError("--calibrate tries forecasts on a history: give one by --trace")
    from rltune.forecast.calibrate_forecast import calibrate

    jobs, cluster, pipeline, estimator, at_s = asked.site()
    with bar("calibrating") as tell:
        told = lambda done, total: tell(done, total, "moments")  # noqa: E731  shorter than a function
        return calibrate(jobs, cluster, pipeline, estimator, at_s, moments, seed=seed, workers=workers, progress=told)


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

    with bar("rolling") as tell:
        told = compare_requests(
            present,
            parse_request(submit),
            rolls,
            seed,
            made,
            workers=workers,
            progress=lambda done, total: tell(done, total, "requests"),
        )
    outputs.write_json(told.to_dict())
    outputs.show_lines([str(told)])
