"""Pipelines out of a command's words: --policy, --backfill and --placement crossed, and those of --pipeline."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltune.cli.estimator_argument import estimator_for
from rltune.cli.parsing import split
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.engine.pipeline import Pipeline
    from rltune.live.control_settings import PipelineSettings

SETTINGS = ".toml"
POLICY_FILES = (".rltune", ".py")


def several(
    policy: str | None, backfill: str, placement: str, pipeline: list[str] | None, usual: str, **how: Any
) -> "tuple[Pipeline, ...]":
    """Make all pipelines that are named; the usual policies are taken if nothing is."""
    from rltune.trials.pipelines import line_up

    names = split(policy if policy is not None else "" if pipeline else usual)
    given = [as_table_names(text) for text in pipeline or ()]
    return line_up(names, split(backfill), split(placement), given, **how)


def one(
    policy: str | None, backfill: str | None, placement: str | None, pipeline: str | None, usual: str, **how: Any
) -> "Pipeline":
    """Make the one pipeline that is named, by its parts or as a whole."""
    from rltune.engine.parse_pipeline import parse_pipeline, read_pipeline

    if pipeline is None:
        return parse_pipeline(policy or usual, backfill or "none", placement or "best-fit", **how)
    around = [how.pop(name) for name in ("guard", "search", "preempt", "remaining")]
    if any((policy, backfill, placement)) or around != ["off", "off", "off", "ends-now"]:
        raise InputError(
            "--pipeline says all: leave out --policy, --backfill, --placement, --guard, --search, --preempt and "
            "--remaining, "
            "or write them in it, as in 'saf+guard:24h + easy, milp:8'"
        )
    return read_pipeline(as_table_names(pipeline), **how)


def as_table_names(pipeline: str) -> str:
    """Return a pipeline as tables name it; a settings file, such as `rltune tune` writes, is read."""
    if not _names_settings(pipeline):
        return pipeline
    found = _settings(pipeline)
    return f"{found.policy} + {found.backfill}, {found.placement}"


def estimator_of(given: str | None, pipeline: str | None) -> str | None:
    """Return what is known of run times: as given, or as a settings file says; None if nothing does."""
    return given or (_settings(pipeline).estimator if pipeline is not None and _names_settings(pipeline) else None)


def own_estimators(given: str | None, pipelines: list[str] | None, trace: str) -> list[str | None]:
    """Return what each pipeline knows of run times by its settings file; None for what the command says of all."""
    told = [None if given else estimator_of(None, pipeline) for pipeline in pipelines or ()]
    return [estimator_for(one, trace) if one else None for one in told]


def other_knowledge(pipelines: list[str] | None, known: list[str]) -> list[str]:
    """Return what to say of settings files that know run times otherwise than the command does."""
    told = {pipeline: estimator_of(None, pipeline) for pipeline in pipelines or ()}
    return [
        f"{name} knows run times by {own}; here all know them by {' and '.join(known)} (--estimator)."
        for name, own in told.items()
        if own is not None and known != [own]
    ]


def _names_settings(pipeline: str) -> bool:
    """Return whether a pipeline is named by its settings file: by its ending, or because such a file is there."""
    return pipeline.endswith(SETTINGS) or (not pipeline.endswith(POLICY_FILES) and Path(pipeline).is_file())


def _settings(path: str) -> "PipelineSettings":
    from rltune.live.control_settings_file import load_settings

    return load_settings(Path(path)).pipeline
