"""Pipelines out of a command's words: --policy, --backfill and --placement crossed, and those of --pipeline."""

from typing import TYPE_CHECKING, Any

from rltune.cli.parsing import split
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.engine.pipeline import Pipeline


def several(
    policy: str | None, backfill: str, placement: str, pipeline: list[str] | None, usual: str, **how: Any
) -> "tuple[Pipeline, ...]":
    """Make all pipelines that are named; the usual policies are taken if nothing is."""
    from rltune.trials.pipelines import line_up

    names = split(policy if policy is not None else "" if pipeline else usual)
    return line_up(names, split(backfill), split(placement), pipeline or (), **how)


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
    return read_pipeline(pipeline, **how)
