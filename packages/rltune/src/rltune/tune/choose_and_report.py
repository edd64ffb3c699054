"""Tune: choose a pipeline on the middle part of a history, and report once on the last."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rltune.engine.parse_pipeline import parse_pipeline
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.inputs import require_inputs
from rltune.opt_in import for_replay
from rltune.parallel import Here, Spread
from rltune.policy.by_name import get_policy, shipped_models
from rltune.trials.leak import Exam, leaks
from rltune.tune.halving import Scoreboard, best, halve, measure
from rltune.tune.kept_runs import KeptRuns
from rltune.tune.last_part import report_on_last
from rltune.tune.learnt_here import SHARE as LEARN_SHARE
from rltune.tune.learnt_here import HomeLesson, learn_all, require_ways
from rltune.tune.plan import VARIED, Plan
from rltune.tune.runs import Runs
from rltune.tune.starving import SparingChoice, choose_sparing
from rltune.tune.stretches import HistoryStretch, StretchRunner
from rltune.tune.tried_pipelines import SOLVER, Candidate, opening, usual_estimators, usual_now, variations
from rltune.tune.tuning import FEWEST_JOBS, Tuning, too_little
from rltune.tune.work import RunWork

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rltune.cluster import Cluster
    from rltune.jobs import Jobs
    from rltune.model.learned_model import Model
    from rltune.tune.runs import Progress

SHARES = (0.2, 0.55)  # of the jobs: only learnt from, choose; the rest tests
SHARES_TAUGHT = (0.3, 0.45)  # where the first part teaches a policy as well
METRICS = ("wait", "jct", "slowdown")  # of which every job has a value
SOLVER_SHARE = 0.3  # of the budget
PROBED = 5_000  # jobs of the middle part, the newest, whose queue tells how much work a run is


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
    runs = Runs(runner, spread or Here(), KeptRuns(kept, runner), progress)
    runs.tell("looking which models these jobs taught")
    policies, notes = _models(models, ordered, parts)  # names that do not exist are refused, however few jobs there are
    if len(ordered) < FEWEST_JOBS:
        return too_little(today, metric, ordered, parts, minutes, seed)
    runs.tell("looking what can be known of run times")
    estimators, unusable = _estimators(runner, parts[1])
    budget = minutes * (1 - LEARN_SHARE) if learn else minutes
    plan = Plan.of(parts[1], opening(today, policies, estimators), budget, _site(runner, today, parts[1].last(PROBED)))
    score = Scoreboard(today)
    order = halve(plan, score, runs.run)
    taught, learnt, lessons = _taught(runs, order, parts[0].end, learn, (minutes, seed, threads))
    measure(taught, [plan.final], score, runs.run)
    plan.spend(taught, [plan.final])
    order = best([*order, *taught], [plan.final], score, len(order) + len(taught))
    order = _vary(order, estimators, plan, score, runs)
    choice = choose_sparing(order, score, plan, runs)
    told = (*notes, *unusable, *lessons, *_left_out(plan), *_unguarded(choice))
    return report_on_last(runs, score, plan, choice, parts, learnt, (minutes, seed, told))


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


def _unguarded(choice: SparingChoice) -> tuple[str, ...]:
    """Return that who starves by a choice was not tried with a guard, if so."""
    told = "The budget has no room for a guard around what was set aside: more --minutes would try it."
    return (told,) if choice.unguarded else ()


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
    runs: Runs, order: Sequence[Candidate], end: int, learn: Sequence[str], about: tuple[float, int, int]
) -> tuple[list[Candidate], dict[str, Model], tuple[str, ...]]:
    """Let the first part teach policies, to beat the best rule where it works."""
    minutes, seed, threads = about
    lead = next((c for c in order if not c.pipeline.learned), order[0])
    runner, each = runs.runner, minutes * LEARN_SHARE / max(len(learn), 1)
    lessons = [
        HomeLesson(
            how, runner.jobs, runner.cluster, end, lead, runner.metric, each, seed, threads, runs.kept.checkpoint(how)
        )
        for how in dict.fromkeys(learn)
    ]
    return learn_all(lessons, runs.tell)


def _vary(
    order: list[Candidate], estimators: Sequence[str], plan: Plan, score: Scoreboard, runs: Runs
) -> list[Candidate]:
    """Change parts of the best as far as the budget goes, the least work first, and put all in order again."""
    solving = Candidate(parse_pipeline("saf", "easy", SOLVER), "history")
    solver = plan.site.seconds([solving]) * VARIED * len(plan.final) <= SOLVER_SHARE * 60.0 * plan.minutes
    changed = variations(order[:VARIED], estimators, solver=solver, turns=bool(runs.runner.jobs.preemptible.any()))
    new = plan.affordable([c for c in changed if (c.label, plan.final) not in score.outcomes])
    measure(new, [plan.final], score, runs.run)
    every = {c.label: c for c in (*order, *new)}
    return best(list(every.values()), [plan.final], score, len(every))
