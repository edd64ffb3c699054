"""A change tried on the present queue: both futures rolled forward under the same drawn run times and arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rltune.cluster import same_name
from rltune.errors import InputError
from rltune.forecast.rolls import FutureRoller, Progress, drawn_quantiles, drawn_starts
from rltune.forecast.start_forecast import QUANTILES
from rltune.jobs import Floats
from rltune.present.present import Present
from rltune.text import counted
from rltune.trials.intervals import Interval
from rltune.trials.shares import shares_between, small_groups
from rltune.whatif.edits import Edit, Removal, Site, notes_on_types
from rltune.whatif.on_history import changed_site, told_waits
from rltune.whatif.outcome_of_change import WhatIf

ROLLS = 30
_MOST_NAMED = 10
_FEWEST = 3  # jobs of a group: each was rolled many times
_REMOVALS = frozenset({"remove", "retire", "drain"})


def what_if_now(
    present: Present,
    edits: Sequence[Edit],
    rolls: int = ROLLS,
    seed: int = 0,
    *,
    workers: int = 2,
    progress: Progress | None = None,
) -> WhatIf:
    """Roll a present forward as it is and with the changes; a job's wait counts from now."""
    if not edits:
        raise InputError("what if what? give a change")
    if not len(present.waiting):
        raise InputError(f"{present.source or 'this moment'}: no job waits, so there is nothing to compare")
    then = changed_present(present, edits)
    gone = sorted(set(then.down) - set(present.down))
    one = FutureRoller(present, seed).prepare()
    other = FutureRoller(then, seed, horizon_s=one.horizon_s).prepare()
    now_s, then_s = (
        drawn_starts(roller, rolls, workers, progress=progress)[:, present.waiting] - present.now_s
        for roller in (one, other)
    )
    made = _paired(present, now_s, then_s, ", ".join(edit.text for edit in edits), then.pipeline.label)
    types = notes_on_types(Site(present.jobs, present.cluster, present.pipeline), edits)
    return replace(made, notes=(*_taken_away(present, gone, edits), *types, *made.notes))


def _taken_away(present: Present, nodes: list[int], edits: Sequence[Edit]) -> list[str]:
    """Return which nodes are taken away, idle ones first; what runs on them goes on to its end."""
    if not nodes:
        return []
    kinds = {kind for kind, _ in map(_parted, edits)} & _REMOVALS
    first = ", idle ones first" if kinds == {"remove"} else ", by remove= idle ones first" if "remove" in kinds else ""
    named = ", ".join(present.node_name(node) for node in nodes[:_MOST_NAMED])
    more = f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
    busy = len(set(nodes) & set(present.seats.nodes.tolist()))
    ends = f"; what runs on {busy} of them goes on to its end" if busy else ""
    return [f"taken away{first}: {named}{more}{ends}"]


def changed_present(present: Present, edits: Sequence[Edit]) -> Present:
    """Make the changes on the present: what runs goes on where it is, also on nodes that are taken away."""
    kept, edits = _without_removals(present, edits)
    site = changed_site(Site(present.jobs, present.cluster, present.pipeline), edits)
    if not np.array_equal(site.jobs.submit_s, present.jobs.submit_s):
        raise InputError("another load can be tried on a history alone: what waits now has been submitted")
    names = present.node_names
    added = site.cluster.node_count - present.cluster.node_count
    names = (*names, *(f"new{i + 1}" for i in range(added))) if names else names
    return replace(kept, cluster=site.cluster, pipeline=site.pipeline, node_names=names)


def _without_removals(present: Present, edits: Sequence[Edit]) -> tuple[Present, list[Edit]]:
    """Take nodes down in place of taking them away, so that nodes keep their numbers."""
    down, others = set(present.down), []
    groups = [group for group in present.cluster.groups for _ in range(group.count)]
    busy = set(present.seats.nodes.tolist())
    for edit in edits:
        kind, value = _parted(edit)
        if kind not in _REMOVALS:
            others.append(edit)
            continue
        edit(Site(present.jobs, present.cluster, present.pipeline))  # it says what is wrong
        some = Removal.parse(value, edit.text) if kind == "remove" else None
        named = [
            node
            for node, group in enumerate(groups)
            if node not in down
            and (
                some.takes(group)
                if some is not None
                else group.rack == value
                if kind == "drain"
                else same_name(group.gpu_type, value)
            )
        ]
        named.sort(key=lambda node: (node in busy, -node))
        if some is not None and some.count > len(named):
            raise InputError(f"{edit.text}: there are only {counted(len(named), 'node')} {some} that are up")
        down |= set(named if some is None else named[: some.count])
    return replace(present, down=tuple(sorted(down))), others


def _parted(edit: Edit) -> tuple[str, str]:
    """Take the text of a change apart: its kind, and what is changed."""
    kind, _, value = edit.text.partition("=")
    return kind.strip(), value.strip()


def _paired(present: Present, now_s: Floats, then_s: Floats, change: str, label: str) -> WhatIf:
    """Compare the same jobs under the same draws, roll by roll."""
    kept = np.isfinite(now_s).all(axis=0) & np.isfinite(then_s).all(axis=0)
    if not kept.any():
        raise InputError(f"{change}: none of the jobs that wait starts both with it and without it")
    rows = present.waiting[kept]
    both = now_s[:, kept], then_s[:, kept]
    theirs, ours = (drawn.mean(axis=1) for drawn in both)
    waits = [np.zeros(len(present.jobs)) for _ in range(2)]
    for wait, drawn in zip(waits, both, strict=True):
        wait[rows] = np.median(drawn, axis=0)
    now, then = map(_middle_waits, both)
    return WhatIf(
        change=change,
        where=f"waiting now, {len(now_s)} paired futures; {present.pipeline.label} now, {label} then",
        jobs=int(kept.sum()),
        now_s=now,
        then_s=then,
        difference=_over_rolls(ours - theirs),
        ratio=replace(_ratios(ours, theirs), estimate=then["mean"] / now["mean"] if now["mean"] > 0 else np.nan),
        utilisation=(float("nan"), float("nan")),
        shares=shares_between(present.jobs, waits[0], waits[1], rows.astype(np.intp), _FEWEST),
        small=small_groups(present.jobs, rows.astype(np.intp), _FEWEST),
        fewest=_FEWEST,
        rejected=tuple(int((~np.isfinite(drawn)).any(axis=0).sum()) for drawn in (now_s, then_s)),  # type: ignore[arg-type]
        notes=(
            "waits count from now, of those that wait now: who comes later is in no mean",
            "each wait is that of the future in the middle; of a group, the mean of what is in the middle for each job",
            *present.notes,
        ),
        of_futures=True,
        mean_difference_s=float((ours - theirs).mean()),
    )


def _middle_waits(drawn: Floats) -> dict[str, float]:
    """Return mean and percentiles over the jobs, each in the middle of the futures: a mean over them is of a few."""
    told = [told_waits(waits) for waits in drawn]
    return {name: float(np.median([waits[name] for waits in told])) for name in told[0]}


def _ratios(ours: Floats, theirs: Floats) -> Interval:
    """Return between what the ratio of the mean waits lies in four futures of five."""
    return _over_rolls(np.divide(ours, theirs, out=np.full_like(ours, np.nan), where=theirs > 0))


def _over_rolls(values: Floats) -> Interval:
    """Return the middle of the rolls, and between what four futures in five lie: what comes is one of them."""
    known = values[np.isfinite(values)]
    if len(known) < 2:
        return Interval(float(known.mean()) if len(known) else np.nan, np.nan, np.nan)
    low, middle, high = drawn_quantiles(known[:, None], QUANTILES)[:, 0].tolist()
    return Interval(middle, low, high)
