"""The `--estimator` of a command: a column of its trace is found in the trace's own file, and old names are told."""

from rltune.cli.console import say


def estimator_for(spec: str, trace: str) -> str:
    """Return what to estimate by, as all else takes it."""
    from rltune.estimate import of_trace
    from rltune.estimate.estimator_names import OLD_NAME
    from rltune.estimate.predicted import PREDICTED

    name, colon, rest = spec.partition(":")
    if name == OLD_NAME:
        say(f"write --estimator {PREDICTED}{colon}{rest}; the old name ends with the next release")
        return f"{PREDICTED}{colon}{rest}"
    return of_trace(spec, trace)
