"""Tune: choose a pipeline on the middle part of a history, and report once on the last."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.engine.parse_pipeline import parse_pipeline
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.inputs import require_inputs
from rltune.opt_in import for_replay
from rltune.parallel import Here, Spread
from rltune.policy.by_name import get_policy, shipped_models
from rltune.trials.intervals import Interval, difference, over_blocks, ratio
from rltune.trials.leak import Exam, leaks
from rltune.trials.shares import Share
from rltune.tune.halving import Scoreboard, best, halve, measure
from rltune.tune.kept_runs import KeptRuns
from rltune.tune.learnt_here import SHARE as LEARN_SHARE
from rltune.tune.learnt_here import HomeLesson, learn_all, require_ways
from rltune.tune.past_events import WithoutPast, without_past
from rltune.tune.pick import pick
from rltune.tune.plan import VARIED, Plan
from rltune.tune.stretches import BlockSums, HistoryStretch, StretchRunner, blocks_of
from rltune.tune.tried_pipelines import SOLVER, Candidate, opening, usual_estimators, usual_now, variations
from rltune.tune.work import LEARN_S, RunWork, learnt_by

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rltune.cluster import Cluster
    from rltune.jobs import Jobs
    from rltune.metrics.recorded import RecordedWait
    from rltune.model.learned_model import Model

    Progress = Callable[[int, int, str], None]  # runs done, runs known of, what is done

FEWEST_JOBS = 2_000
SHARES = (0.2, 0.55)  # of the jobs: only learnt from, choose; the rest tests
SHARES_TAUGHT = (0.3, 0.45)  # where the first part teaches a policy as well
METRICS = ("wait", "jct", "slowdown")  # of which every job has a value
WATCHED_GAIN = 0.05  # on both parts together: enough to watch, though chance may explain it
SOLVER_SHARE = 0.3  # of the budget
PROBED = 5_000  # jobs of the middle part, the newest, whose queue tells how much work a run is
FEWEST_TESTED = 2_000  # jobs of the last part, however small the budget
CONFIDENCE = 0.95


class Advice(Enum):
    """What an operator is told."""

    CHANGE = "change"
    WATCH = "watch first"
    STAY = "stay"
    TOO_LITTLE = "too little history"


TO_CHANGE = frozenset({Advice.CHANGE, Advice.WATCH})  # answers that name something else than there is now


@dataclass(frozen=True)
class Tuning:
    """What was chosen, on what, and how it did on the part of the history that chose nothing."""

    answer: Advice
    now: Candidate
    chosen: Candidate  # taken on the middle part; what there is now if nothing is better
    metric: str
    jobs: int
    parts: tuple[HistoryStretch, HistoryStretch, HistoryStretch]  # learn, choose, test
    run_on: tuple[HistoryStretch, HistoryStretch]  # of the last two: the newest jobs that the budget had room for
    finalists: tuple[tuple[Candidate, float], ...]  # with the metric on the middle part, best score first
    tried: int
    choosing: Interval  # chosen / now on the middle part
    testing: Interval  # the same on the last part
    together: Interval  # the same on both
    apart: Interval  # chosen - now on the last part
    values: tuple[float, float]  # now, chosen: the metric on the last part
    decided: tuple[tuple[str, float], ...]  # part, how much worse without it on the middle part; none if all stays
    shares: tuple[Share, ...]  # who wins and loses on the last part; none if all stays
    needed_jobs: int  # of history, to tell
    rejected: int  # jobs of the last part that never ran
    resumed: bool  # began with what was recorded to run and wait
    minutes: float
    seed: int
    notes: tuple[str, ...]
    learnt: dict[str, Model] = field(default_factory=dict)  # that the first part taught, by the names of their policies
    recorded: RecordedWait | None = None  # of the last part, beside a replay of what there is now
    scores: tuple[float, ...] = ()  # of the finalists: half the metric, half the same by blocks; 1 is what there is now
    without_past: WithoutPast | None = None  # None: nothing was down in these parts, or all stays

    @property
    def recommended(self) -> Candidate:
        """Return what to run."""
        return self.chosen if self.answer in TO_CHANGE else self.now

    @property
    def recommended_model(self) -> Model | None:
        """Return the model to run, if it was taught here."""
        return self.learnt.get(self.recommended.pipeline.policy.name)

    @property
    def borne_out(self) -> bool:
        """Return whether the last part agrees with the middle one in direction."""
        return bool(self.testing.estimate < 1)

    def __repr__(self) -> str:
        from rltune.tune.tuning_text import sentences

        return "\n".join(["Tuning:", *(f"  {told}" for told in sentences(self))])

    def to_dict(self) -> dict[str, Any]:
        """Return all as plain values."""
        from rltune.tune.tuning_text import as_values

        return as_values(self)


def tune(
    jobs: Jobs,
    cluster: Cluster,
    now: str | None = None,
    *,
    now_estimator: str | None = None,
    metric: str = "wait",
    minutes: float = 10.0,
    models: Sequence[str] | None = None,
    learn: Sequence[str] = (),
    threads: int = 1,
    seed: int = 0,
    kept: Path | None = None,
    spread: Spread | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Return which pipeline to run, from one's own history.

    Args:
        jobs: The history, from `rltune.read_trace(path)`.
        cluster: The machine, from `rltune.Cluster.load(name_or_path)`.
        now: What the site runs today, as tables name it: "multifactor + easy".
        now_estimator: What is known of run times today: "user" (limits) or "history".
        metric: What is to be short: "wait", "jct" or "slowdown".
        minutes: How much may be tried, counted out at a fixed speed of one slow core.
        models: Model files or shipped models to try; None = those that ship and were not taught by these jobs.
        learn: Ways to teach a policy by the first part of the history, to compete on the next: "evolve", "train". Half
            of the minutes go to it.
        threads: On how many threads it learns; no result depends on it.
        seed: For everything that is drawn.
        kept: A file that keeps finished runs, so that an interrupted call goes on.
        spread: Where the work is done; no result depends on it.
        progress: Called with the runs done, the runs known of and what is done.

    Returns the answer: it prints itself; `.to_dict()` has everything.
    """
    require_inputs(jobs, cluster)
    if metric not in METRICS:
        raise InputError(f"metric {metric!r} cannot be tuned for; there are: {', '.join(METRICS)}")
    if not 0 < minutes < np.inf:
        raise InputError(f"a budget of {minutes:g} minutes cannot be; give some, such as 10")
    require_ways(learn)
    ordered = for_replay(jobs, cluster).sorted()
    today = _today(ordered, cluster, now, now_estimator)
    parts = _parts(len(ordered), SHARES_TAUGHT if learn else SHARES)
    runner = StretchRunner(ordered, cluster, metric, seed)
    search = _Search(runner, spread or Here(), KeptRuns(kept, runner), progress)
    search.tell("looking which models these jobs taught")
    policies, notes = _models(models, ordered, parts)  # names that do not exist are refused, however few jobs there are
    if len(ordered) < FEWEST_JOBS:
        return _too_little(today, metric, ordered, parts, minutes, seed)
    search.tell("looking what can be known of run times")
    estimators, unusable = _estimators(runner, parts[1])
    budget = minutes * (1 - LEARN_SHARE) if learn else minutes
    plan = Plan.of(parts[1], opening(today, policies, estimators), budget, _site(runner, today, parts[1].last(PROBED)))
    score = Scoreboard(today)
    order = halve(plan, score, search.run)
    taught, learnt, lessons = _taught(search, order, parts[0].end, learn, (minutes, seed, threads))
    measure(taught, [plan.final], score, search.run)
    plan.spend(taught, [plan.final])
    order = best([*order, *taught], [plan.final], score, len(order) + len(taught))
    order = _vary(order, estimators, plan, score, search)
    chosen = pick(order, score, plan.final)
    told = (*notes, *unusable, *lessons, *_left_out(plan))
    tested = _tested(plan, parts[2], today, chosen, cluster)
    return _report(search, score, (plan.final, tested), today, chosen, order, parts, learnt, (minutes, seed, told))


def _site(runner: StretchRunner, today: Candidate, probed: HistoryStretch) -> RunWork:
    """Return how much work runs are here: from how many jobs wait today, under the plainest estimates."""
    plain = replace(today, estimator=usual_estimators(runner.jobs)[0])
    return RunWork(runner((plain, probed)).queue, runner.cluster.node_count)


def _left_out(plan: Plan) -> tuple[str, ...]:
    """Return what the budget had no room for."""
    if not plan.left_out:
        return ()
    estimators = sorted({c.estimator for c in plan.left_out if not c.pipeline.learned})
    models = any(c.pipeline.learned for c in plan.left_out)
    what = ", ".join([*(f"estimates by {name}" for name in estimators), *(["models"] if models else [])])
    return (f"The budget has no room for {what} on so many jobs: more --minutes would try them.",)


def _tested(plan: Plan, part: HistoryStretch, today: Candidate, chosen: Candidate, cluster: Cluster) -> HistoryStretch:
    """Return the newest jobs of the last part that the rest of the budget has room for.

    Both are run on them; where something was down, both are run without that as well, on the middle part too. What
    decided it is run on the middle part.
    """
    site, pair = plan.site, (today, chosen)
    times = 2.0 if cluster.maintenance or cluster.outages else 1.0
    left = 60.0 * plan.minutes - plan.spent_s - sum(LEARN_S[name] for name in learnt_by(pair))
    left -= site.seconds([*chosen.changes_from(today).values(), *(pair if times > 1 else ())]) * len(plan.final)
    return part.last(max(FEWEST_TESTED, int(left / (times * site.seconds(pair)))))


@dataclass
class _Search:
    """Runs tasks: those that are kept are not run again."""

    runner: StretchRunner
    spread: Spread
    kept: KeptRuns
    progress: Progress | None
    done: int = 0

    def tell(self, what: str) -> None:
        """Report what is done beside the runs."""
        if self.progress is not None:
            self.progress(self.done, self.done + 1, what)

    def run(self, tasks: Sequence[tuple[Candidate, HistoryStretch]]) -> list[BlockSums]:
        """Return the outcomes in the order of the tasks."""
        found = [self.kept.find(task) for task in tasks]
        missing = [task for task, outcome in zip(tasks, found, strict=True) if outcome is None]
        known = self.done + len(missing)
        made: dict[int, BlockSums] = {}
        for index, outcome in self.spread.each(self.runner, missing):
            made[index] = outcome
            self.kept.add(missing[index], outcome)
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, known, missing[index][0].label)
        fresh = iter([made[i] for i in range(len(missing))])
        return [next(fresh) if outcome is None else outcome for outcome in found]


def _today(jobs: Jobs, cluster: Cluster, now: str | None, estimator: str | None) -> Candidate:
    from rltune.engine.parse_pipeline import read_pipeline

    usual = usual_now(jobs, cluster)
    pipeline = usual.pipeline if now is None else read_pipeline(now)
    get_estimator(estimator or usual.estimator)
    return Candidate(pipeline, estimator or usual.estimator)


def _parts(jobs: int, shares: tuple[float, float] = SHARES) -> tuple[HistoryStretch, HistoryStretch, HistoryStretch]:
    cuts = (0, int(shares[0] * jobs), int(sum(shares) * jobs), jobs)
    learn, choose, test = (HistoryStretch(a, b) for a, b in pairwise(cuts))
    return learn, choose, test


def _models(
    given: Sequence[str] | None, jobs: Jobs, parts: tuple[HistoryStretch, HistoryStretch, HistoryStretch]
) -> tuple[list[str], tuple[str, ...]]:
    """Return the models that may be tried: none that these jobs have taught."""
    exam = Exam(jobs.window(parts[1].first, len(jobs) - parts[1].first))
    names = [f"learned:{name}" for name in shipped_models()] if given is None else list(given)
    seen = [name for name in names if leaks([get_policy(name)], [exam])]
    told = f"Left out, because these jobs taught them or may have: {', '.join(seen)}."
    return [name for name in names if name not in seen], ((told,) if seen else ())


def _estimators(runner: StretchRunner, part: HistoryStretch) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what can be known of run times here, and what is to be said of the rest."""
    usable, notes = [], []
    for name in usual_estimators(runner.jobs):
        try:
            runner.require_estimates(name, part)
        except InputError as error:
            notes.append(f"Estimates by {name} were not tried: {error}.")
        else:
            usable.append(name)
    return tuple(usable), tuple(notes)


def _taught(
    search: _Search, order: Sequence[Candidate], end: int, learn: Sequence[str], about: tuple[float, int, int]
) -> tuple[list[Candidate], dict[str, Model], tuple[str, ...]]:
    """Let the first part teach policies, to beat the best rule where it works."""
    minutes, seed, threads = about
    lead = next((c for c in order if not c.pipeline.learned), order[0])
    runner, each = search.runner, minutes * LEARN_SHARE / max(len(learn), 1)
    lessons = [
        HomeLesson(
            how, runner.jobs, runner.cluster, end, lead, runner.metric, each, seed, threads, search.kept.checkpoint(how)
        )
        for how in dict.fromkeys(learn)
    ]
    return learn_all(lessons, search.tell)


def _vary(
    order: list[Candidate], estimators: Sequence[str], plan: Plan, score: Scoreboard, search: _Search
) -> list[Candidate]:
    """Change parts of the best as far as the budget goes, the least work first, and put all in order again."""
    solving = Candidate(parse_pipeline("saf", "easy", SOLVER), "history")
    solver = plan.site.seconds([solving]) * VARIED * len(plan.final) <= SOLVER_SHARE * 60.0 * plan.minutes
    changed = variations(order[:VARIED], estimators, solver=solver, turns=bool(search.runner.jobs.preemptible.any()))
    new = plan.affordable([c for c in changed if (c.label, plan.final) not in score.outcomes])
    measure(new, [plan.final], score, search.run)
    every = {c.label: c for c in (*order, *new)}
    return best(list(every.values()), [plan.final], score, len(every))


def _mean(score: Scoreboard, candidate: Candidate, stretch: HistoryStretch) -> float:
    return score.mean(candidate, [stretch])


def _report(
    search: _Search,
    score: Scoreboard,
    run_on: tuple[HistoryStretch, HistoryStretch],
    today: Candidate,
    chosen: Candidate,
    order: Sequence[Candidate],
    parts: tuple[HistoryStretch, HistoryStretch, HistoryStretch],
    learnt: dict[str, Model],
    about: tuple[float, int, tuple[str, ...]],
) -> Tuning:
    """Run what there is now and what was chosen on the last part, once."""
    runner, (final, test) = search.runner, run_on
    search.tell(f"testing on {len(test):,} jobs of the last part")
    made = {c.label: runner.schedule(c, test) for c in (today, chosen)}
    outcomes = {label: runner.outcome(schedule, test) for label, schedule in made.items()}
    blocks = blocks_of([outcomes[chosen.label]], [outcomes[today.label]])
    choosing = score.ratio(chosen, today, final, CONFIDENCE)
    tested = over_blocks(blocks, ratio, confidence=CONFIDENCE)
    both = [[score.outcomes[c.label, final], outcomes[c.label]] for c in (chosen, today)]
    together = over_blocks(blocks_of(*both), ratio, confidence=CONFIDENCE)
    minutes, seed, notes = about
    answer = decide(today, chosen, tested, together)
    return Tuning(
        answer=answer,
        now=today,
        chosen=chosen,
        metric=runner.metric,
        jobs=len(runner.jobs),
        parts=parts,
        run_on=run_on,
        finalists=tuple((c, _mean(score, c, final)) for c in order),
        scores=tuple(score.score(c, [final]) for c in order),
        tried=len({label for label, _ in score.outcomes}),
        choosing=choosing,
        testing=tested,
        together=together,
        apart=over_blocks(blocks, difference, confidence=CONFIDENCE),
        values=(outcomes[today.label].mean, outcomes[chosen.label].mean),
        decided=_decided(chosen, today, score, final, search) if answer in TO_CHANGE else (),
        shares=runner.shares(made[today.label], made[chosen.label], test) if answer in TO_CHANGE else (),
        needed_jobs=_needed(together, run_on, parts),
        rejected=outcomes[today.label].rejected,
        resumed=runner.resumes(test),
        minutes=minutes,
        seed=seed,
        notes=notes,
        learnt=learnt,
        recorded=runner.recorded(made[today.label], test),
        without_past=without_past(runner, (chosen, today), (final, test), CONFIDENCE) if answer in TO_CHANGE else None,
    )


def decide(today: Candidate, chosen: Candidate, testing: Interval, together: Interval) -> Advice:
    """Decide by both parts together, or by the last if it shows the gain alone; the middle alone is not enough.

    The middle part chose the best of many, so what it shows of the choice is partly luck. The last part stops a change
    if it shows a loss; one of its queues on which the choice does worse takes the certainty away.
    """
    lost = testing.low > 1 or testing.estimate == np.inf  # shown, or nobody waits now and somebody would
    if chosen.label == today.label or lost or together.estimate >= 1:
        return Advice.STAY
    if testing.estimate < 1 and any(one.high < 1 for one in (testing, together)):
        return Advice.CHANGE
    if not np.isfinite(testing.estimate):
        return Advice.TOO_LITTLE  # nobody waits on the last part: it cannot say anything
    if together.estimate <= 1 - WATCHED_GAIN:
        return Advice.WATCH
    return Advice.TOO_LITTLE if testing.estimate < 1 else Advice.STAY


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
    chosen: Candidate, today: Candidate, score: Scoreboard, final: HistoryStretch, search: _Search
) -> tuple[tuple[str, float], ...]:
    """Return how much worse the choice would be with one part as it is now, the most important first."""
    changed = chosen.changes_from(today)
    measure(list(changed.values()), [final], score, search.run)
    base = _mean(score, chosen, final)
    worse = [(what, _mean(score, without, final) / base - 1 if base else 0.0) for what, without in changed.items()]
    return tuple(sorted(worse, key=lambda pair: -pair[1]))


def _too_little(
    today: Candidate,
    metric: str,
    jobs: Jobs,
    parts: tuple[HistoryStretch, HistoryStretch, HistoryStretch],
    minutes: float,
    seed: int,
) -> Tuning:
    nothing = Interval(np.nan, np.nan, np.nan)
    return Tuning(
        answer=Advice.TOO_LITTLE,
        now=today,
        chosen=today,
        metric=metric,
        jobs=len(jobs),
        parts=parts,
        run_on=parts[1:],
        finalists=(),
        tried=0,
        choosing=nothing,
        testing=nothing,
        together=nothing,
        apart=nothing,
        values=(np.nan, np.nan),
        decided=(),
        shares=(),
        needed_jobs=FEWEST_JOBS,
        rejected=0,
        resumed=False,
        minutes=minutes,
        seed=seed,
        notes=(),
    )
