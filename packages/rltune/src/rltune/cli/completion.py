"""Names that the shell completes."""

from collections.abc import Iterable
from importlib import resources


def presets(incomplete: str) -> list[str]:
    """Complete the clusters that come with the package."""
    files = (resources.files("rltune") / "presets").iterdir()
    return _beginning(incomplete, sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml")))


def policies(incomplete: str) -> list[str]:
    """Complete a policy, or the last of a list of them."""
    from rltune.plugins import POLICIES
    from rltune.policy import policy_table
    from rltune.policy.by_name import model_names

    known = (policy.name for policy in policy_table())
    return _last_of_list(incomplete, (*known, *model_names(), *POLICIES.names()))


def backfills(incomplete: str) -> list[str]:
    """Complete a backfilling, or the last of a list of them."""
    from rltune.engine.pipeline import BACKFILLS

    return _last_of_list(incomplete, BACKFILLS)


def placements(incomplete: str) -> list[str]:
    """Complete a placement, or the last of a list of them."""
    from rltune.placement.placers import NAMES

    return _last_of_list(incomplete, NAMES)


def heads(incomplete: str) -> list[str]:
    """Complete what is blocked by a job that does not fit."""
    from rltune.engine.pipeline import HEADS

    return _beginning(incomplete, HEADS)


def estimators(incomplete: str) -> list[str]:
    """Complete an estimator."""
    from rltune.estimate import NAMES
    from rltune.plugins import ESTIMATORS

    known = (name.partition("[")[0].removesuffix("PATH").removesuffix("NAME") for name in NAMES)
    return _beginning(incomplete, (*known, *ESTIMATORS.names()))


def metrics(incomplete: str) -> list[str]:
    """Complete a metric to compare by."""
    from rltune import plugins
    from rltune.evaluation import METRICS

    return _beginning(incomplete, (*METRICS, *plugins.METRICS.names()))


def formats(incomplete: str) -> list[str]:
    """Complete a trace format."""
    from rltune.trace import formats as known

    return _beginning(incomplete, known())


def kinds(incomplete: str) -> list[str]:
    """Complete a kind of synthetic trace."""
    from rltune.trace.synthetic import KINDS

    return _beginning(incomplete, KINDS)


def windows(incomplete: str) -> list[str]:
    """Complete common ways to cut a trace."""
    counted = ("20x1024", "20x1024:random", "20x1024:contended=600")
    return _beginning(incomplete, ("whole", "steady:0.2", *counted, "1024:every=64", "1024:every=64:contended=600"))


def jobs(incomplete: str) -> list[str]:
    """Complete the number of a job that waits: as squeue tells, or as the journal of this machine saw it last."""
    return _beginning(incomplete, _waiting_jobs())


def _waiting_jobs() -> list[str]:
    import subprocess

    asked = ("squeue", "--noheader", "--states=PENDING", "--format=%i")
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=2, check=True)
        return done.stdout.split()
    except (OSError, subprocess.SubprocessError):
        return _waiting_by_journal()


def _waiting_by_journal() -> list[str]:
    from rltune.errors import InputError
    from rltune.live.journal.default_place import default_journal
    from rltune.live.journal.packing import unpack_snapshot
    from rltune.live.journal.store import Journal

    try:
        snapshot = unpack_snapshot(Journal.read(default_journal()).cycle(0).snapshot)
    except InputError:  # there is none, or it holds nothing
        return []
    return [job.command_name for job in snapshot.pending]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _last_of_list(incomplete: str, names: Iterable[str]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]
