"""How numbers and summaries look to a reader."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from rltune.text import number, percent, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rltune.metrics.distribution import Distribution
    from rltune.metrics.summary import Summary

__all__ = ["as_table", "model_lines", "most_common", "number", "percent", "plain", "seconds"]


def plain(value: Any) -> Any:
    """Make a value of plain parts that JSON can hold; a number that is none becomes None."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def as_table(summary: Summary) -> Table:
    """Lay a summary out: distributions first, then single numbers."""
    table = Table(
        title=Text(_title(summary)), title_justify="left", caption=Text(_caption(summary)), caption_justify="left"
    )
    table.add_column("")
    for column in ("mean", "p50", "p90", "p99", "max"):
        table.add_column(column, justify="right")
    table.add_row("wait", *_cells(summary.wait_s, seconds))
    for name, waits in _recorded_rows(summary):
        table.add_row(name, *_cells(waits, seconds))
    table.add_row("wait, large jobs", *_cells(summary.large_wait_s, seconds))
    if summary.turns.taken:  # else the delay is the wait
        table.add_row("delay", *_cells(summary.turns.delay_s, seconds))
        table.add_row("times displaced", *_cells(summary.turns.preemptions, number))
    table.add_row("JCT", *_cells(summary.jct_s, seconds))
    table.add_row("bounded slowdown", *_cells(summary.bounded_slowdown, number))
    table.add_row("mean wait of users", *_cells(summary.fairness.users.mean_wait_s, seconds))
    table.add_row("mean wait of VCs", *_cells(summary.fairness.vcs.mean_wait_s, seconds), end_section=True)
    table.add_row("GPUs in use", *_cells(summary.utilisation.over_time, percent))
    table.add_row("jobs waiting", *_cells(summary.queue, number))
    table.add_row("fragmentation, while jobs wait", *_cells(summary.fragmentation.while_waiting, number))
    table.add_row("fragmentation", *_cells(summary.fragmentation.overall, number))
    return table


def _recorded_rows(summary: Summary) -> list[tuple[str, Distribution]]:
    """Return the waits that the history records, and those of the same jobs here if not all have one."""
    told = summary.recorded
    if not told.recorded_s.n:
        return []
    rows = [("wait, as recorded", told.recorded_s)]
    return rows if told.complete else [("wait, jobs with a recorded start", told.simulated_s), *rows]


def _cells(values: Distribution, write: Callable[[float], str]) -> list[str]:
    return [write(v) for v in (values.mean, values.p50, values.p90, values.p99, values.max)]


def _title(summary: Summary) -> str:
    s = summary.settings
    return f"{s.policy}, backfill {s.backfill}, placement {s.placement}, estimates {s.estimator}"


def _caption(summary: Summary) -> str:
    return "\n".join(
        [
            _jobs_line(summary),
            *summary.recorded.warnings(),
            *model_lines(summary.work),
            *_placer_lines(summary),
            *_turns_lines(summary),
            *_cluster_lines(summary),
            *_fairness_lines(summary),
        ]
    )


def model_lines(work: Mapping[str, Any]) -> list[str]:
    """Warn where a model was asked about what it was not trained on, and say what an inspector refused."""
    drift = drift_of("the model", Counter(work))
    lines = [f"warning: {drift}"] if drift else []
    if "refusals" in work:
        lines.append(f"inspector: refused {work['refusals']:,} times what its base policy had chosen")
    return lines


DRIFT = ("model_scores", "scores_outside_training", "model_looks", "looks_by_base_policy")


def drift_of(model: str, work: Counter[str]) -> str:
    """Return how much of what a model was asked lay outside its training, as shares; "" if nothing did."""
    outside, scores = work["scores_outside_training"], work["model_scores"]
    if not outside:
        return ""
    fallen, looks = work["looks_by_base_policy"], work["model_looks"]
    of_scores = f"{percent(outside / scores)} of {scores:,} scores asked of {model} were of jobs unlike its training"
    return f"{of_scores}; its base policy ordered the queue in {percent(fallen / looks)} of {looks:,} looks"


def _placer_lines(summary: Summary) -> list[str]:
    """Return what the solver did, where one was asked."""
    work = summary.work
    if "milp_solved" not in work:
        return []
    solved = f"solver: asked in {work['milp_solved']:,} passes, skipped in {percent(work['milp_skip_rate'])}"
    gained = f"better than greedy {work['milp_better_than_greedy']:,} times, {work['milp_more_starts']:,} more starts"
    took = f"p50 {work['milp_solve_ms_p50']:.1f} ms, p99 {work['milp_solve_ms_p99']:.1f} ms a solve"
    return [f"{solved}; {gained}; {took}"]


def _turns_lines(summary: Summary) -> list[str]:
    """Return what taking turns cost, where anybody was displaced."""
    turns = summary.turns
    if not turns.taken:
        return []
    who = f"{turns.preempted:,} of {summary.ran:,} jobs were displaced, {number(turns.preemptions.mean)} times a job"
    lost = f"{number(turns.lost_gpu_h)} GPU-hours ({percent(turns.lost_share)}) went into restarts and work done again"
    return [f"turns: {who}; {lost}; goodput {percent(summary.goodput)}", _WHAT_WAIT_IS]


_WHAT_WAIT_IS = "wait is until the first start; delay counts all that a job lost by being stopped, so compare by delay"


def _jobs_line(summary: Summary) -> str:
    rejected = f"{summary.rejected:,} rejected{_why(summary)}"
    return f"{summary.ran:,} jobs ran, {rejected}, {summary.requeued:,} requeued; {summary.passes:,} passes"


def _cluster_lines(summary: Summary) -> list[str]:
    use = summary.utilisation
    what = "measured interval" if summary.interval_s else "first submit to last end"
    length = f"{seconds(use.span_s[1] - use.span_s[0])} ({what})"
    bound, idle = summary.bound.mean_jct_s, summary.fragmentation.idle_while_waiting
    lines = [
        f"utilisation {percent(use.share)} of {use.gpus:,} GPUs over {length}; makespan {seconds(summary.makespan_s)}",
        f"GPU-seconds idle while a job waits {percent(idle)}",
    ]
    if summary.turns.taken:  # the bound is of jobs that run in one piece
        return lines
    return [*lines, f"lower bound of the mean JCT {seconds(bound)}; this schedule is {percent(summary.gap)} above it"]


def most_common(reasons: dict[str, int], most: int = 3) -> str:
    """List the reasons given most often, with how often."""
    ordered = sorted(reasons.items(), key=lambda item: -item[1])
    listed = "; ".join(f"{reason}: {n:,}" for reason, n in ordered[:most])
    return f"{listed}; and {len(ordered) - most} more reasons" if len(ordered) > most else listed


def _why(summary: Summary) -> str:
    return f" ({most_common(summary.reject_reasons)})" if summary.reject_reasons else ""


def _fairness_lines(summary: Summary) -> list[str]:
    lines = []
    for name, group in (("users", summary.fairness.users), ("VCs", summary.fairness.vcs)):
        if group.groups:
            lines.append(
                f"Jain's index of mean slowdown over {group.groups:,} {name} {group.jain:.3f}; worst {group.worst} "
                f"waits {seconds(group.worst_mean_wait_s)} on average"
            )
    return lines
