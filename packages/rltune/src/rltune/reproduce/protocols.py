"""The three protocols of our columns, and who runs under each.

- **The paper's**, as nearly as it can be known: one queue for all pools, ten or more windows of 1,024 jobs from an idle
  cluster, networks trained with true run times. The paper's text has noisy estimates and backfilling in its evaluation,
  its published code true run times and none. The level of its waits fits no backfilling, but for Table 8, which says
  so. All four are run; noisy estimates without backfilling are the headline.
- **Honest**: a queue for each pool, EASY, run times as learnt from what had ended, networks trained under the same
  conditions; steady state: the slice gets a share of the trace's bursts that asks for 0.9 of it, and only what is
  submitted after a tenth of the trace has passed is measured; the best rule in hindsight beside it.
- **Product**: what a user gets today: the pipeline that was best on the validation part, of all rules, shipped models,
  backfillings and placements, with run times as learnt from what had ended, against the base policy under EASY.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rltune.reproduce.held_out import Entry, HeldOutRun
from rltune.reproduce.lesson import Lesson
from rltune.reproduce.relative_gain import RelativeGain, best_rule, mean, steady_gain, window_gain
from rltune.reproduce.steady import SteadyRun
from rltune.reproduce.workloads import STEADY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rltune.reproduce.run_size import RunSize
    from rltune.reproduce.step import Result

RULES = ("fcfs", "sjf", "saf", "f1", "wfp3", "unicep", "qssf", "multifactor")
NOISY, TRUTH, HISTORY = "noisy", "oracle", "history"
PAPER_VARIANTS = ((NOISY, "none"), (TRUTH, "none"), (NOISY, "easy"), (TRUTH, "easy"))
HEADLINE = PAPER_VARIANTS[0]
VARIANT_TOLD = {
    (NOISY, "none"): "noisy estimates, no backfilling",
    (TRUTH, "none"): "true run times, no backfilling",
    (NOISY, "easy"): "noisy estimates, EASY",
    (TRUTH, "easy"): "true run times, EASY",
}
SHIPPED = {
    "philly": ("learned", "learned:philly"),
    "helios": ("learned", "learned:helios"),
    "helios-vc": ("learned",),
    "pai": ("learned", "learned:pai"),
}


def paper_lesson(scope: RunSize, workload: str, base: str, objective: str, seed: int, **more: Any) -> Lesson:
    """Return a training as the paper has it: true run times, one queue, no backfilling."""
    how: dict[str, Any] = {"estimator": TRUTH, "head": "global", "backfill": "none", **more}
    return _lesson(scope, workload, base, objective, seed, how)


def honest_lesson(scope: RunSize, workload: str, base: str, objective: str, seed: int, **more: Any) -> Lesson:
    """Return a training under the conditions in which it is judged: what a site knows, EASY, pools."""
    how: dict[str, Any] = {"estimator": HISTORY, "head": "pool", "backfill": "easy", **more}
    return _lesson(scope, workload + STEADY, base, objective, seed, how)


def _lesson(scope: RunSize, workload: str, base: str, objective: str, seed: int, how: dict[str, Any]) -> Lesson:
    size = {"epochs": scope.epochs, "windows": scope.windows, "patience": scope.patience}
    return Lesson(workload=workload, base=base, objective=objective, seed=seed, **{**size, **how})


def paper_windows(
    scope: RunSize, workload: str, lessons: Iterable[Lesson], variant: tuple[str, str], rules: Iterable[str] = RULES
) -> HeldOutRun:
    """Return rules and networks on windows of the held-out part, as the paper runs them."""
    estimator, backfill = variant
    entries = [Entry(rule, backfill) for rule in rules] + [
        Entry(lesson, backfill, lesson.placement) for lesson in lessons
    ]
    return HeldOutRun(workload, tuple(dict.fromkeys(entries)), estimator, "global", every=scope.every)


def honest_run(workload: str, lessons: Iterable[Lesson], rules: Iterable[str] = RULES) -> SteadyRun:
    """Return rules and networks under EASY in steady state."""
    entries = [Entry(rule, "easy") for rule in rules] + [Entry(lesson, "easy") for lesson in lessons]
    return SteadyRun(workload + STEADY, tuple(entries))


def product_windows(scope: RunSize, workload: str, part: str) -> HeldOutRun:
    """Return all that a user may choose from, on the part that chooses or on the one that judges."""
    entries = [Entry(rule, backfill) for rule in RULES for backfill in ("easy", "fit-first")]
    entries += [Entry(name, backfill) for name in SHIPPED[workload] for backfill in ("none", "easy", "fit-first")]
    if workload in scope.solver:
        entries += [Entry(name, "easy", "milp:8") for name in ("saf", *SHIPPED[workload])]
    return HeldOutRun(workload, tuple(entries), HISTORY, "pool", part, every=max(scope.every, 512))


def product_gain(validation: Result, test: Result, base: str, metric: str) -> tuple[RelativeGain, str]:
    """Return the gain of what was best on the validation part over a base policy under EASY, and its name."""
    chosen = best_rule(validation, list(validation["values"]), metric)
    return window_gain(test, chosen, Entry(base, "easy").label, metric), chosen


def honest_gain(found: Result, lesson: Lesson, metric: str) -> tuple[RelativeGain, RelativeGain, str]:
    """Return the gain of a training over its base and over the best rule in hindsight, and that rule's name."""
    ours, best = Entry(lesson, "easy").group, found["best_rule"][metric]
    return (
        steady_gain(found, ours, Entry(lesson.base, "easy").label, metric),
        steady_gain(found, ours, best, metric),
        best.partition(" + ")[0],
    )


def hindsight(found: Result, backfill: str, metric: str) -> str:
    """Return the rule that was best on these windows."""
    labels = [label for label in found["values"] if label.partition(" + ")[0] in RULES and f" + {backfill}," in label]
    return best_rule(found, labels, metric)


def mean_of(found: Result, policy: str | Lesson, backfill: str, metric: str) -> float:
    """Return the mean of a metric under a rule, or over the seeds of a training."""
    placement = "best-fit" if isinstance(policy, str) else policy.placement
    return mean(found, Entry(policy, backfill, placement).group, metric)
