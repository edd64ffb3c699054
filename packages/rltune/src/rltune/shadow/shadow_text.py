"""A time in shadow in words: a sentence to put before a director, then the evidence."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rltune.metrics.distribution import Distribution
from rltune.metrics.formats import plain
from rltune.shadow.shadow_report import ShadowReport, StoryOfJob
from rltune.text import columns, counted, seconds, told_change
from rltune.trials.intervals import Interval
from rltune.trials.shares import KINDS, Share

PARTS = ("mean", "p50", "p90", "p99", "max")
_SHOWN = 8  # groups of a kind


def sentence(made: ShadowReport) -> str:
    """Return what a director is to know: what was, what would have been, and how sure that is."""
    jobs = f"From {day(made.begin_s)} to {day(made.end_s)} {counted(made.jobs, 'job')} waited"
    was = f"{jobs} {seconds(made.observed.mean)} on average"
    if not made.observed.mean or not math.isfinite(made.ratio.estimate):
        return f"{was}; there was nothing to win by another order."
    low, high = made.ratio.low, made.ratio.high
    if not math.isfinite(low):
        return f"{was}; too few jobs to say what {made.policy} would have changed."
    span = told_span(made.ratio)
    if low <= 1 <= high:
        return f"{was}; in the order of {made.policy} no difference is shown (95 % interval {span})."
    would = f"in the order of {made.policy} they would have waited about {seconds(made.expected_s)}"
    return f"{was}; {would}, {_changed(made.ratio.estimate)} (95 % interval {span})."


def told_span(ratio: Interval) -> str:
    """Write the interval of a ratio, from the smaller change to the larger if both are of one sign."""
    return ratio.span(_changed, high_first=ratio.high < 1)


def _changed(ratio: float) -> str:
    return told_change(1 - ratio)


def change(then_s: float, now_s: float) -> str:
    """Write by how much a mean wait changes."""
    return _changed(then_s / now_s) if now_s > 0 else ""


def evidence(made: ShadowReport) -> list[str]:
    """Return how far the sentence can be believed, and how the controller did."""
    watch, unended = made.watch, ""
    if made.unended:
        still = counted(made.unended, "job")
        unended = f" {still} had not ended: waits that were not over are counted as far as they had come, on all sides."
    near = (
        f"The replay in Slurm's order waits {seconds(made.slurm.mean)} on average, {seconds(made.observed.mean)} was "
        f"observed: {'near enough' if made.is_near else 'too far apart'} for the size of a gain to be believed."
    )
    whose = "of those that could first start after the first look: who waited then already is replayed, but in no row"
    told = [f"Waits count from when a job could start, {whose}.{unended}", near]
    told.append(f"p99 of the wait: {_p99(made)}.")
    if made.left_out:
        told.append(f"{counted(made.left_out, 'job')} could not be replayed on the nodes that the journal shows.")
    told.append(
        f"{counted(watch.cycles, 'cycle')}, at most {seconds(watch.longest_gap_s)} apart; a decision took "
        f"{1000 * watch.decide_mean_s:.0f} ms on average, p99 {1000 * watch.decide_p99_s:.0f} ms; at most "
        f"{counted(watch.most_waiting, 'job')} waited."
    )
    kinds = ", ".join(f"{kind} {n:,}" for kind, n in watch.trips.items())
    wrong = counted(sum(watch.trips.values()), "event")
    told.append(f"Health: {wrong} of something wrong{f' ({kinds})' if kinds else ''}.")
    calls = ", ".join(f"{name} {count:,}" for name, count in sorted(watch.calls.items()))
    told.append(f"Calls of Slurm's commands: {calls or 'not counted yet'}.")
    if watch.changes:
        told.append(f"{counted(watch.changes, 'change')} made or advised, {watch.refused:,} refused.")
    return [*told, *(f"Note: {note}." for note in made.notes)]


def _p99(made: ShadowReport) -> str:
    parts = (
        ("observed", made.observed),
        ("Slurm's order replayed", made.slurm),
        (f"{made.policy} replayed", made.ours),
    )
    return ", ".join(f"{seconds(of.p99)} {what}" for what, of in parts)


def spreads(made: ShadowReport) -> list[tuple[str, Distribution]]:
    """Return the waits by what they are of."""
    replayed = (("Slurm's order, replayed", made.slurm), (f"{made.policy}, replayed", made.ours))
    return [("observed", made.observed), *replayed]


def shares_of(made: ShadowReport, kind: str) -> list[Share]:
    """Return the groups of a kind for whom it matters most."""
    some = [share for share in made.shares if share.kind == kind]
    if kind == "size":
        return some
    return sorted(some, key=lambda share: -abs(share.jobs * (share.then_s - share.now_s)))[:_SHOWN]


def headline(one: StoryOfJob) -> str:
    """Return what became of a job, in a sentence."""
    way = "sooner" if one.gained_s > 0 else "later"
    who = f"Job {one.job} of {one.user}, {counted(one.gpus, 'GPU')}"
    return (
        f"{who}: waited {seconds(one.observed_s)}; would have started {seconds(abs(one.gained_s))} {way} "
        f"({seconds(one.slurm_s)} in Slurm's order, {seconds(one.our_s)} in ours)"
    )


def lines(made: ShadowReport) -> Iterator[str]:
    """Return the report line by line."""
    yield sentence(made)
    yield from evidence(made)
    yield "Waits:"
    rows = [(what, *(seconds(getattr(of, part)) for part in PARTS)) for what, of in spreads(made)]
    yield from columns([("", *PARTS), *rows])
    for kind in KINDS:
        if some := shares_of(made, kind):
            yield f"Mean wait by {kind}:"
            head = ("", "jobs", "Slurm's order", made.policy)
            yield from columns([head, *((s.name, f"{s.jobs:,}", seconds(s.now_s), seconds(s.then_s)) for s in some)])
    for one in made.stories:
        yield headline(one)
        yield from (f"  {line}" for line in one.lines)
    for when, text in made.watch.last_trips:
        yield f"{moment(when)}  {text}"


def as_dict(made: ShadowReport) -> dict[str, Any]:
    """Return everything as plain values, for JSON."""
    whole = {name: value for name, value in asdict(made).items() if name != "rows"}
    values: dict[str, Any] = plain({"sentence": sentence(made), **whole, "expected_s": made.expected_s})
    return values


def day(time_s: float) -> str:
    """Write the day of a time, or the hour if the time is no date."""
    return dt.datetime.fromtimestamp(time_s, dt.UTC).strftime("%Y-%m-%d %H:%M")


def moment(time_s: float) -> str:
    """Write a time to the second."""
    return dt.datetime.fromtimestamp(time_s, dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ")
