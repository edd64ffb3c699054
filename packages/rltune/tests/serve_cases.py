"""A journal with one cycle of a small cluster, and the service over it."""

from live_cases import MemoryCluster, job, running, settings, snapshot

from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.serve.app import ServeSettings, make_app
from rltune.serve.sight import Watch

HOSTILE = "<script>alert(1)</script>\"' & {{ 7 * 7 }}"
JOBS = (
    running(100, "n0", 4, user="ann", name="trains"),
    running(101, "n1", 3, user="bob"),
    job(1, 4, 60, user="bob", name=HOSTILE),
    job(2, 1, 10, user="ann", partitions=("sla",)),
    job(3, 8, 30, user="ann", name="large"),
    job(4, 1, 30, user="bob", held=True),
)


def journal_of(folder, jobs=JOBS, cycles=1):
    """Let a controller in shadow write a journal."""
    path = folder / "journal.db"
    journal = Journal.create(path)
    cluster = MemoryCluster(snapshot(jobs))
    controller = Controller(cluster, journal, settings(mode="shadow"))
    for _ in range(cycles):
        controller.cycle()
        cluster.pass_time(60.0)
    journal.close()
    return path


def service(path, **more):
    """Put the service over a journal."""
    return make_app(Watch(path), ServeSettings(**more))
