"""Who starves by a change: a mean falls while somebody waits for weeks. Such a change is not proposed, or with a guard.

A group of jobs starves if its slowest tenth waits more than twice as long as it does now, and more than a day longer.
What is chosen may let nobody starve on the part that chooses. Whatever does is set aside; with a guard around it, it
comes back as another candidate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from rltune.engine.guard import get_guard
from rltune.tune.halving import best, measure
from rltune.tune.pick import pick

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rltune.jobs import Floats
    from rltune.trials.shares import Share
    from rltune.tune.halving import Scoreboard
    from rltune.tune.plan import Plan
    from rltune.tune.runs import Runs
    from rltune.tune.tried_pipelines import Candidate

TIMES = 2.0  # as long as now
LONGER_S = 86_400.0  # than now
DAY_H = 24.0
GUARD_SHARE = 0.85  # of the budget, with all that was tried before: the search must not use up what a guard needs
GRACE_TIMES = "4x"  # of a job's own estimate: the controller's default


@dataclass(frozen=True)
class StarvingCandidate:
    """A candidate that would have been chosen, had nobody starved by it."""

    candidate: Candidate
    score: float
    starving: tuple[Share, ...]  # on the part that chooses, the worst first


@dataclass(frozen=True)
class SparingChoice:
    """What is chosen, all candidates by score, and who would have been chosen before it."""

    chosen: Candidate
    order: tuple[Candidate, ...]
    set_aside: tuple[StarvingCandidate, ...]
    unguarded: bool  # the budget had no room for a guard around one of these


def starving(shares: Sequence[Share]) -> tuple[Share, ...]:
    """Return the groups that starve, the worst first."""
    found = [s for s in shares if s.p90_s[1] > TIMES * s.p90_s[0] + LONGER_S]
    return tuple(sorted(found, key=lambda s: s.p90_s[0] - s.p90_s[1]))


def guards_around(candidate: Candidate, waits_s: Floats) -> tuple[Candidate, ...]:
    """Return a candidate with guards: the controller's, and one whose grace is what the slowest tenth waits today.

    With backfilling, for a job that is owed its start would hold up all others otherwise.
    """
    if candidate.pipeline.guard:
        return ()
    backfill = "easy" if candidate.pipeline.backfill == "none" else candidate.pipeline.backfill
    grace_h = ceil(float(np.percentile(waits_s, 90)) / 3600.0) if len(waits_s) else 0
    hours = sorted({DAY_H, max(DAY_H, grace_h)})
    guards = [get_guard(f"{each:g}h:{GRACE_TIMES}") for each in hours]
    around = [replace(candidate.pipeline, guard=guard, backfill=backfill) for guard in guards]
    return tuple(replace(candidate, pipeline=pipeline) for pipeline in around)


def choose_sparing(order: Sequence[Candidate], score: Scoreboard, plan: Plan, runs: Runs) -> SparingChoice:
    """Return the candidate to propose, by which nobody starves; what there is now if all others let somebody.

    With a guard around it a candidate stands: among hundreds of users somebody's slowest tenth always waits longer.
    """
    every, left, aside, unguarded = list(order), list(order), list[StarvingCandidate](), False
    chosen = pick(left, score, plan.final)
    if chosen.label == score.now.label:
        return SparingChoice(chosen, tuple(every), (), unguarded=False)
    runner, final = runs.runner, plan.final
    today = runner.schedule(score.now, final)
    plan.spend([score.now], [final])
    waits_s = today.wait_s[today.ran]
    while chosen.label != score.now.label:
        runs.tell(f"looking who would starve by {chosen.label}")
        worse = starving(runner.shares(today, runner.schedule(chosen, final), final))
        plan.spend([chosen], [final])
        if not worse or chosen.pipeline.guard:  # whoever still pays behind a guard is told, and bounded
            break
        aside.append(StarvingCandidate(chosen, score.score(chosen, [final]), worse))
        wanted = [c for c in guards_around(chosen, waits_s) if (c.label, final) not in score.outcomes]
        guarded = plan.affordable(wanted, GUARD_SHARE)
        unguarded |= len(guarded) < len(wanted)
        measure(guarded, [final], score, runs.run)
        every += guarded
        left = [c for c in (*left, *guarded) if c.label != chosen.label]
        chosen = pick(left, score, final)
    return SparingChoice(chosen, tuple(best(every, [final], score, len(every))), tuple(aside), unguarded)
