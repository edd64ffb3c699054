"""What change of its request would start a job now, or sooner: each is made on a copy and run through the core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.explain.explanation import Reason, TriedChange
from rltune.kernel.state import arrays as core
from rltune.present.moment import machine_at, roll
from rltune.present.present import Present, Why
from rltune.text import counted, seconds

if TYPE_CHECKING:
    from rltune.explain.explainer import Explainer

MOST_ROLLED = 3  # kinds of change that start nobody now and are rolled forward
WORTH = 60.0  # seconds sooner, or else it is not told
HOPELESS = frozenset({Why.DEPENDENCY, Why.HOLD, Why.NOT_YET})


@dataclass(frozen=True)
class RequestChange:
    """A change to try."""

    kind: str
    text: str
    columns: dict[str, Any]


def changes_for(explainer: Explainer, row: int, reason: Reason) -> tuple[int, tuple[TriedChange, ...]]:
    """Try changes of a row, the mildest of each kind first; return how many were tried, and those that help."""
    if reason.why in HOPELESS:
        return 0, ()
    present = explainer.present
    now: dict[str, TriedChange] = {}
    mildest: dict[str, RequestChange] = {}
    tried = 0
    for change in candidates(explainer, row, reason):
        if change.kind in now:
            continue
        tried += 1
        mildest.setdefault(change.kind, change)
        if starts_now(present, row, change):
            now[change.kind] = TriedChange(change.text, change.columns, True, present.now_s, np.nan)
    later = [change for kind, change in mildest.items() if kind not in now][:MOST_ROLLED]
    return tried, (*now.values(), *_sooner(present, row, later))


def starts_now(present: Present, row: int, change: RequestChange) -> bool:
    """Make the change, and see whether the core starts the job in a pass."""
    machine = machine_at(changed(present, row, change))
    machine.make_pass(explain=True)
    return bool(machine.state.life["status"][row] == core.RUNNING)


def changed(present: Present, row: int, change: RequestChange) -> Present:
    """Return the present with the change made."""
    return present.with_row(row, **change.columns)


def _sooner(present: Present, row: int, changes: list[RequestChange]) -> Iterator[TriedChange]:
    """Roll the present as it is and with each change; keep those that start the job sooner."""
    if not changes:
        return
    as_it_is = float(roll(present)[row])
    for change in changes:
        start = float(roll(changed(present, row, change))[row])
        if np.isfinite(start) and (not np.isfinite(as_it_is) or as_it_is - start >= WORTH):
            yield TriedChange(change.text, change.columns, False, start, as_it_is - start)


def candidates(explainer: Explainer, row: int, reason: Reason) -> Iterator[RequestChange]:
    """Return changes worth trying, kind by kind, the mildest first."""
    if reason.why is Why.NO_FIT or not int(explainer.present.jobs.gpus[row]):
        yield from _less_beside(explainer.present, row)
    yield from _other_partitions(explainer.present, row)
    yield from _other_types(explainer.present, row)
    yield from _spread(explainer.present, row)
    yield from _shorter(explainer, row)
    yield from _fewer_gpus(explainer, row)


def _less_beside(present: Present, row: int) -> Iterator[RequestChange]:
    """Let it have fewer CPUs or less memory, where those are what it lacks."""
    for name, unit in (("cpus", "CPUs"), ("mem_gib", "GiB of memory")):
        whole = float(getattr(present.jobs, name)[row])
        for part in (whole // 2**i for i in range(1, 7)) if np.isfinite(whole) else ():
            if part >= max(1, int(present.jobs.nodes[row])):
                yield RequestChange(name, f"{part:,.0f} {unit} in place of {whole:,.0f}", {name: part})


def _fewer_gpus(explainer: Explainer, row: int) -> Iterator[RequestChange]:
    jobs = explainer.present.jobs
    gpus, nodes = int(jobs.gpus[row]), int(jobs.nodes[row])
    free = np.unique(explainer.before.state.node["gpu"]).tolist()
    halves = [gpus // 2**i for i in range(1, 12)]
    for fewer in sorted({g for g in (*halves, *free, gpus - 1) if 0 < g < gpus}, reverse=True)[:8]:
        columns: dict[str, Any] = {"gpus": fewer, "nodes": min(nodes, fewer)}
        if int(jobs.gpus_per_node[row]) > fewer:
            columns["gpus_per_node"] = 0
        for name in ("cpus", "mem_gib"):
            whole = float(getattr(jobs, name)[row])
            columns |= {name: whole * fewer / gpus} if np.isfinite(whole) else {}
        yield RequestChange("gpus", f"{counted(fewer, 'GPU')} in place of {gpus}", columns)


def _other_types(present: Present, row: int) -> Iterator[RequestChange]:
    accepted = present.jobs.gpu_types.name_of(row)
    if not accepted or not int(present.jobs.gpus[row]):
        return
    own = {name.casefold() for name in accepted.split("|")}
    for kind in present.cluster.gpu_types:
        if kind.casefold() not in own:
            wider = "|".join(sorted([*accepted.split("|"), kind]))
            yield RequestChange(f"type {kind}", f"type {kind} accepted beside {accepted}", {"gpu_types": wider})


def _other_partitions(present: Present, row: int) -> Iterator[RequestChange]:
    own = present.jobs.vc.name_of(row)
    for vc in present.cluster.vcs:
        if own and vc.casefold() != own.casefold() and not vc.startswith("(") and "#" not in vc:
            same = own.split(" #")[0].casefold() == vc.casefold()  # the partition, less the nodes that it cannot have
            text = f"any node of partition {vc}" if same else f"partition {vc} in place of {own.split(' #')[0]}"
            told = f"{text}, in place of those that it asks for" if same else f"{text}{_new_types(present, row, vc)}"
            yield RequestChange(f"partition {vc}", told, {"vc": vc})


def _new_types(present: Present, row: int, vc: str) -> str:
    """Say that a partition is not its user's own, and which GPUs it would get there, if not the same as now."""
    wanted = tuple(filter(None, present.jobs.gpu_types.name_of(row).split("|")))

    def types(of: str) -> set[str]:
        return {g.gpu_type for g in present.cluster.groups if g.gpus and g.accepted(of, wanted, with_gpus=True)}

    there = types(vc)
    if not int(present.jobs.gpus[row]) or not there or there == types(present.jobs.vc.name_of(row)):
        return ", if its user may"
    return f", which means {' or '.join(sorted(there))} GPUs, if its user may"


def _spread(present: Present, row: int) -> Iterator[RequestChange]:
    """Let the GPUs lie on more nodes."""
    gpus, nodes = int(present.jobs.gpus[row]), max(1, int(present.jobs.nodes[row]))
    for more in (2 * nodes, 4 * nodes):
        if 1 < more <= gpus and gpus % more == 0:
            columns = {"nodes": more, "gpus_per_node": 0}
            yield RequestChange("nodes", f"its GPUs on {more} nodes, {gpus // more} on each", columns)


def _shorter(explainer: Explainer, row: int) -> Iterator[RequestChange]:
    """Let it end before what it would run into."""
    present = explainer.present
    estimate = float(present.estimate_s[row])
    times = [window.start_s for window in present.windows if window.start_s > present.now_s]
    heads = [other for other in explainer.rows_ahead(row, 3) if not explainer.starts(other)]
    times += [time for time in (explainer.reserved_time(head) for head in heads) if np.isfinite(time)]
    for limit in sorted({time - present.now_s for time in times if present.now_s < time}, reverse=True):
        if 60.0 <= limit < estimate:
            text = f"a time limit of {seconds(limit)} in place of {seconds(estimate)}"
            yield RequestChange("limit", text, {"limit_s": limit, "estimate_s": limit})
