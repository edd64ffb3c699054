"""What must be so after every fault, whatever it was.

Every job ran to its end exactly once, every extra spell has a named cause, nothing of the controller's is left, and
what the controller said is what Slurm holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rltune.lab.faults.scene import Scene
from rltune.live.decide.ranking import by_slurm
from rltune.live.journal.packing import unpack_decision
from rltune.live.journal.store import Journal
from rltune.live.see.snapshot import LiveJob

Standing = Mapping[int, tuple[object, ...]]


def standing(scene: Scene) -> dict[int, tuple[object, ...]]:
    """Return of every waiting job what a controller could have changed, as Slurm has it."""
    return {job.id: _changeable(job) for job in scene.bed.waiting_jobs()}


def _changeable(job: LiveJob) -> tuple[object, ...]:
    return job.site_factor, job.nice, job.excluded_nodes, job.required_nodes


def _with_others(values: tuple[object, ...], job: int, scene: Scene) -> tuple[object, ...]:
    """Return what a job had before, with the SiteFactor and Nice that another hand has given it since."""
    site, nice, *nodes = values
    return (scene.site_by_others.get(job, site), scene.nice_by_others.get(job, nice), *nodes)


def holds_what_was_said(scene: Scene) -> str:
    """Compare the order of the last decision with Slurm's, if the controller acts; return what differs."""
    if not scene.alive or not scene.journal.exists():
        return ""
    journal = Journal.read(scene.journal)
    try:
        record = journal.cycle(0)
    finally:
        journal.close()
    if not record.acting:
        return ""
    meant = [waiting.job for waiting in unpack_decision(record.decision).waiting if waiting.competes]
    ordered = sorted(scene.bed.backend().observe().pending, key=by_slurm)
    there = {job.id for job in ordered}
    held = [job.id for job in ordered if job.id in set(meant)]
    wanted = [job for job in meant if job in there]
    return "" if held == wanted else f"the controller means the order {wanted}, Slurm holds {held}"


def nothing_is_left(scene: Scene, before: Standing, code: int) -> Iterator[str]:
    """Compare every waiting job with what it was before the controller came; `release` must have told the truth."""
    scene.free_held()
    before = {job: _with_others(values, job, scene) for job, values in before.items()}
    now = standing(scene)
    changed = {job: (before[job], now[job]) for job in before.keys() & now.keys() if before[job] != now[job]}
    fresh = {job: values for job, values in now.items() if job not in before and values[0] and job in _ours(scene)}
    left = sorted({*changed, *fresh})
    strangers = sorted(job for job in now if job not in _ours(scene))
    if left:
        about = changed.get(left[0]) or fresh[left[0]]
        yield f"{len(left)} jobs keep what the controller set, such as {left[0]}: {about}"
    if strangers:
        yield f"jobs {strangers} are nobody's"
    if (code == 0) == bool(left):
        yield f"release ended with {code} though {len(left)} jobs are left"
    elif code:
        yield f"release ended with {code}"


def _ours(scene: Scene) -> set[int]:
    """Return the numbers of the jobs that were submitted; of arrays and heterogeneous jobs Slurm show more records."""
    known = {int(key.split("_")[0]) for key in scene.expected} | set(scene.extra)
    seen = scene.bed.backend().observe().jobs
    return known | {job.id for job in seen if job.array_id in known or job.het_id in known}


def ran_once(scene: Scene) -> Iterator[str]:
    """Ask the jobs themselves how often they started, and whether they came to their end."""
    starts, ends = scene.spells.counts()
    for key, cause in scene.expected.items():
        if key in scene.excused:
            continue
        if ends[key] != 1:
            yield f"job {key} came to its end {ends[key]} times"
        if starts[key] > 1 and not cause:
            yield f"job {key} started {starts[key]} times and nobody knows why"
    for key in (starts.keys() | ends.keys()) - scene.expected.keys():
        yield f"job {key} ran and was never submitted"
