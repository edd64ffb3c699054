"""`--array-limit`: how many tasks of an array may run at once; `sacct` does not tell it of arrays that have ended."""

from typing import TYPE_CHECKING, Annotated

import typer

from rltune.cli.parsing import split
from rltune.errors import InputError, unknown

if TYPE_CHECKING:
    from rltune.jobs import Jobs

ArrayLimits = Annotated[
    str | None,
    typer.Option(
        "--array-limit",
        help="How many tasks of an array may run at once, by its number: 1001=5,1002=3 (`sbatch --array=1-90%5`).",
        metavar="LIST",
    ),
]


def parse_array_limits(text: str | None) -> dict[int, int]:
    """Read how many tasks of which array may run at once."""
    limits: dict[int, int] = {}
    for part in split(text or ""):
        array, _, limit = part.partition("=")
        if not (array.isdecimal() and limit.isdecimal() and int(limit) > 0):
            raise InputError(f"--array-limit {part}: should be the number of an array and a limit above 0: 1001=5")
        if int(array) in limits:
            raise InputError(f"--array-limit names array {array} twice")
        limits[int(array)] = int(limit)
    if text is not None and not limits:
        raise InputError("--array-limit names nothing; leave it out, or give a list with commas: 1001=5,1002=3")
    return limits


def with_array_limits(jobs: "Jobs", limits: dict[int, int]) -> "Jobs":
    """Set the limits of arrays; an array that no job is of is refused."""
    import numpy as np

    known = set(jobs.array[jobs.array >= 0].tolist())
    for array in limits:
        if array not in known:
            raise unknown("array", str(array), [str(one) for one in sorted(known)], "among these jobs")
    told = zip(jobs.array.tolist(), jobs.array_limit.tolist(), strict=True)
    given = [limits.get(array, limit) for array, limit in told]
    return jobs.with_columns(array_limit=np.array(given, dtype=jobs.array_limit.dtype)) if limits else jobs
