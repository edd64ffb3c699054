"""The last part of a history, which chose nothing: what there is now and what was chosen are run on it once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rltune.trials.intervals import Interval, difference, over_blocks, ratio
from rltune.tune.advice import TO_CHANGE, decide
from rltune.tune.halving import CUTS, SHORTER, Scoreboard, measure
from rltune.tune.past_events import without_past
from rltune.tune.starving import SparingChoice, starving
from rltune.tune.stretches import HistoryStretch, blocks_of
from rltune.tune.tried_pipelines import Candidate
from rltune.tune.tuning import Tuning
from rltune.tune.work import LEARN_S, learnt_by

if TYPE_CHECKING:
    from collections.abc import Collection

    from rltune.model.learned_model import Model
    from rltune.schedule import Schedule
    from rltune.tune.plan import Plan
    from rltune.tune.runs import Runs

FEWEST_TESTED = 2_000  # jobs of the last part, however small the budget
CONFIDENCE = 0.95


def report_on_last(
    runs: Runs,
    score: Scoreboard,
    plan: Plan,
    choice: SparingChoice,
    parts: tuple[HistoryStretch, HistoryStretch, HistoryStretch],
    learnt: dict[str, Model],
    about: tuple[float, int, tuple[str, ...]],
) -> Tuning:
    """Run what there is now and what was chosen on the last part, once."""
    runner, final, chosen, today = runs.runner, plan.final, choice.chosen, score.now
    test, before = _tested(plan, runs, parts[2], today, chosen)
    runs.tell(f"testing on {len(test):,} jobs of the last part")
    made = {today.label: before}
    if chosen.label != today.label:
        made[chosen.label] = runner.schedule(chosen, test)
    outcomes = {label: runner.outcome(schedule, test) for label, schedule in made.items()}
    blocks = blocks_of([outcomes[chosen.label]], [outcomes[today.label]])
    tested = over_blocks(blocks, ratio, confidence=CONFIDENCE)
    both = [[score.outcomes[c.label, final], outcomes[c.label]] for c in (chosen, today)]
    together = over_blocks(blocks_of(*both), ratio, confidence=CONFIDENCE)
    shares = runner.shares(made[today.label], made[chosen.label], test)
    minutes, seed, notes = about
    believed = runner.cluster.believed
    hungry = bool(starving(shares)) and not chosen.pipeline.guard
    answer = decide(today, chosen, tested, together, doubted=hungry or not believed)
    changes = answer in TO_CHANGE
    return Tuning(
        answer=answer,
        now=today,
        chosen=chosen,
        metric=runner.metric,
        jobs=len(runner.jobs),
        parts=parts,
        run_on=(final, test),
        finalists=tuple((c, score.mean(c, [final])) for c in choice.order),
        scores=tuple(score.score(c, [final]) for c in choice.order),
        tried=len({label for label, _ in score.outcomes}),
        choosing=score.ratio(chosen, today, final, CONFIDENCE),
        testing=tested,
        together=together,
        apart=over_blocks(blocks, difference, confidence=CONFIDENCE),
        values=(outcomes[today.label].mean, outcomes[chosen.label].mean),
        decided=_decided(chosen, today, score, final, runs) if changes else (),
        shares=shares if changes else (),
        small=runner.small_groups(made[today.label], made[chosen.label], test) if changes else (),
        needed_jobs=_needed(together, (final, test), parts),
        rejected=outcomes[today.label].rejected,
        resumed=runner.resumes(test),
        minutes=minutes,
        seed=seed,
        notes=notes,
        learnt=learnt,
        recorded=runner.recorded(made[today.label], test),
        without_past=without_past(runner, (chosen, today), (final, test), CONFIDENCE) if changes else None,
        set_aside=choice.set_aside,
        believed=believed,
        usable_for=runner.cluster.usable_for,
    )


def _tested(
    plan: Plan, runs: Runs, part: HistoryStretch, today: Candidate, chosen: Candidate
) -> tuple[HistoryStretch, Schedule]:
    """Return the newest jobs of the last part that the rest of the budget has room for, as they run today.

    Its queue may be longer than the middle part's: that is seen in a run of what there is now, and less is run then. As
    a shorter stretch has a shorter queue too, it is cut half of the way each time.
    """
    fits = _room(plan, runs, (today, chosen), chosen.changes_from(today).values())
    for _ in range(CUTS):
        stretch = part.last(fits)
        before = runs.runner.schedule(today, stretch)
        plan.spend([today], [stretch])
        plan.site = replace(plan.site, queue=runs.runner.outcome(before, stretch).queue)
        room = _room(plan, runs, (chosen,), chosen.changes_from(today).values())
        if room >= SHORTER * len(stretch):
            break
        fits = int((room * len(stretch)) ** 0.5)
    return stretch, before


def _room(plan: Plan, runs: Runs, tested: tuple[Candidate, ...], explaining: Collection[Candidate]) -> int:
    """Return on how many jobs of the last part there is room for some candidates.

    What decided it is run on the middle part. Where something was down, all is run without that as well, on both.
    """
    site, cluster = plan.site, runs.runner.cluster
    again = tested if cluster.maintenance or cluster.outages else ()
    left = 60.0 * plan.minutes - plan.spent_s - sum(LEARN_S[name] for name in learnt_by(tested))
    left -= site.seconds([*explaining, *again]) * len(plan.final)
    return max(FEWEST_TESTED, int(left / site.seconds([*tested, *again])))


def _needed(
    found: Interval,
    run_on: tuple[HistoryStretch, HistoryStretch],
    parts: tuple[HistoryStretch, HistoryStretch, HistoryStretch],
) -> int:
    """Return how long a history would show a gain like this one: intervals shrink with the root of the jobs."""
    gain = -np.log(found.estimate) if found.estimate > 0 else 0.0
    if not gain > 0 or not np.isfinite(found.high) or found.high < 1:
        return 0
    run = sum(map(len, run_on)) * parts[2].end / sum(map(len, parts[1:]))  # with the share that only teaches
    return int(np.ceil(run * (np.log(found.high / found.estimate) / gain) ** 2))


def _decided(
    chosen: Candidate, today: Candidate, score: Scoreboard, final: HistoryStretch, runs: Runs
) -> tuple[tuple[str, float], ...]:
    """Return how much worse the choice would be with one part as it is now, the most important first."""
    changed = chosen.changes_from(today)
    measure(list(changed.values()), [final], score, runs.run)
    base = score.mean(chosen, [final])
    worse = [(what, score.mean(without, [final]) / base - 1 if base else 0.0) for what, without in changed.items()]
    return tuple(sorted(worse, key=lambda pair: -pair[1]))
