"""A calibration in words and tables: the answer first, then the evidence, the causes and the lines of TOML."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from rltune.calibration.calibrate import Calibration, GroupRow
from rltune.calibration.closeness import FOR_RANKING, FOR_SIZES, NEITHER, RANKING, SIZES, Nearness
from rltune.calibration.finding import SiteFact
from rltune.metrics.formats import plain
from rltune.metrics.recorded import SMALL_S, spread, times_apart
from rltune.text import percent, seconds

GOOD_FOR = {
    SIZES: "Usable for ranking policies and for sizes of gains.",
    RANKING: "Usable for ranking policies, not for sizes of gains.",
    NEITHER: "Usable neither for ranking policies nor for sizes of gains.",
}
FEW_WAITED = 0.01  # of the jobs: where fewer waited there is nothing to be ranked
OF_RECORDED = "of recorded"
RANKS_WORSE = 0.05  # of the rank correlation of waits
WORSE = 1.25  # times: who is so much farther off with the lines is worse by them
PARTS = {"mean": "the mean wait", "p90": "the p90 wait", "p99": "the p99 wait"}
_HISTORY = "HISTORY"  # where nobody told which file it is


def answer(made: Calibration) -> list[str]:
    """Return the lines that answer the question: what a replay is good for, then how long jobs waited in it."""
    return [*verdicts(made), *_waits(made)]


def verdicts(made: Calibration) -> list[str]:
    """Return what a replay is good for; where there are two answers, first which of them counts."""
    if made.after is None:
        return [_good_for(made.close)]
    both = (("Without the lines below", made.close), ("With them taken over", made.after))
    said = [f"{which}: {good[0].lower()}{good[1:]}" for which, good in ((w, _good_for(close)) for w, close in both)]
    first = "Two verdicts: that of the file you go on with counts (with --write the second)."
    return [first, *said, *_made_worse(made.close, made.after)]


def _made_worse(without: Nearness, lines: Nearness) -> list[str]:
    """Return in which the replay is farther from what happened with the lines than without them."""
    worse = [_farther(part, without, lines) for part in PARTS]
    ranks = lines.rank_of_waits < without.rank_of_waits - RANKS_WORSE
    told = f"ranks of waits correlate by {lines.rank_of_waits:.2f}, before {without.rank_of_waits:.2f}"
    found = [*filter(None, worse), *([told] if ranks else [])]
    if not found:
        return []
    return [f"In this the lines make it worse: {'; '.join(found)}. Leave out those that you do not know to be true."]


def _farther(part: str, without: Nearness, lines: Nearness) -> str:
    recorded = getattr(lines.waits.recorded_s, part)
    now, then = (getattr(close.waits.simulated_s, part) for close in (without, lines))
    before, after = (abs(math.log((one + SMALL_S) / (recorded + SMALL_S))) for one in (now, then))
    if after < before + math.log(WORSE) or abs(then - recorded) <= SMALL_S:
        return ""
    was = "as recorded" if abs(now - recorded) <= SMALL_S else f"{times_apart(now, recorded)} recorded"
    return f"{PARTS[part]} is {times_apart(then, recorded)} recorded, before {was}"


def _waits(made: Calibration) -> list[str]:
    waits = made.close.waits
    lines = [
        f"Waits of {waits.of_whom()}:",
        f"Recorded:          {spread(waits.recorded_s)}",
        f"Replayed:          {spread(waits.simulated_s)}",
    ]
    return lines if made.after is None else [*lines, f"With the lines:    {spread(made.after.waits.simulated_s)}"]


def how_replayed(made: Calibration) -> str:
    """Return under which policy the history was replayed, and how that was chosen."""
    then = f"; with the lines below under {made.after_pipeline}" if made.after is not None else ""
    return f"Replayed under {made.pipeline} ({made.chosen}), estimates {made.estimator}{then}."


def _good_for(close: Nearness) -> str:
    if close.waited < FEW_WAITED:
        return f"Only {percent(close.waited)} of the jobs waited over a minute: there is little to rank."
    return GOOD_FOR[close.verdict]


def evidence(close: Nearness) -> list[str]:
    """Return each test that decided a verdict, in one line; those for sizes where ranking is beyond doubt."""
    bar = FOR_SIZES if close.verdict in {SIZES, RANKING} else FOR_RANKING
    lines = [f"{'ok   ' if good else 'FAR  '}{said}" for good, said in close.tests(bar)]
    more = f"rank correlation of starts {close.rank_of_starts:.2f}, correlation of GPUs in use {close.use:.2f}"
    return [*lines, f"     {more}"]


def all_evidence(made: Calibration) -> list[tuple[str, list[str]]]:
    """Return the evidence of each verdict, under a title."""
    if made.after is None:
        return [("Evidence", evidence(made.close))]
    both = (("Evidence, without the lines below", made.close), ("Evidence, with them taken over", made.after))
    return [(title, evidence(close)) for title, close in both]


def causes(made: Calibration, trace: str = "") -> list[str]:
    """Return what was found, one line each; commands name the history."""
    return [f"{one.cause}: {told(one, trace)}{' [TOML]' if one.toml else ''}" for one in made.findings]


def told(one: SiteFact, trace: str = "") -> str:
    """Return what a finding says, with the command that takes it over, if there is one."""
    if not one.convert:
        return one.evidence
    stem = Path(trace or _HISTORY).name.split(".")[0]
    words = ("rltune", "trace", "convert", trace or _HISTORY, "-o", f"{stem}-throttled.csv", *one.convert.split())
    some = one.convert.count("=")
    which = "them" if some == len(one.named) else f"{some} of the {len(one.named):,} (--json names all)"
    return f"{one.evidence}. To hold {which}: `{shlex.join(words)}`"


def tables(made: Calibration) -> Iterator[tuple[str, Table]]:
    """Lay out recorded and simulated waits by group, each table with its title."""
    for name, rows in made.groups.items():
        if len(rows) < 2 or name == "hour":  # the page has the hours
            continue
        table = Table(box=None, padding=(0, 2, 0, 0))
        for column in ("", *columns_of(made)):
            table.add_column(column, justify="right" if column else "left", no_wrap=True)
        for row in rows:
            table.add_row(*map(Text, (row.name, *cells_of(made, row))))
        yield head_of(made, name), table


def columns_of(made: Calibration) -> tuple[str, ...]:
    """Name the columns of a table of groups."""
    lines = ("with the lines", OF_RECORDED) if made.after is not None else ()
    return ("jobs", "recorded", "simulated", OF_RECORDED, *lines)


def cells_of(made: Calibration, row: GroupRow) -> tuple[str, ...]:
    """Return the cells of a group, in the order of its columns."""
    cells = [f"{row.jobs:,}", seconds(row.recorded_s)]
    for value in (row.simulated_s, row.with_lines_s)[: 1 if made.after is None else 2]:
        share = f"{value / row.recorded_s:.2g}" if row.recorded_s > 0 else "-"
        cells += [seconds(value), share]
    return tuple(cells)


def head_of(made: Calibration, name: str) -> str:
    """Name a table of groups; where not all of them are in it, how many are."""
    if name == "hour":
        return "by hour of the day, on the clock of the export"
    of = f", the {len(made.groups[name])} of {made.cut[name]:,} that waited longest in all" if name in made.cut else ""
    return f"by {name}{of}"


def as_dict(made: Calibration) -> dict[str, Any]:
    """Return everything as plain values, for JSON."""

    def close(one: Nearness) -> dict[str, Any]:
        return {**asdict(one), "good_for": one.verdict}

    values: dict[str, Any] = plain(
        {
            "answer": answer(made),
            "good_for": made.close.verdict,
            "evidence": evidence(made.close),
            "evidence_with_all_lines": None if made.after is None else evidence(made.after),
            "pipeline": made.pipeline,
            "chosen": made.chosen,
            "estimator": made.estimator,
            "replay": close(made.close),
            "with_all_lines": None if made.after is None else {"pipeline": made.after_pipeline, **close(made.after)},
            "findings": [asdict(one) for one in made.findings],
            "groups": {name: [asdict(row) for row in rows] for name, rows in made.groups.items()},
            "groups_in_all": made.cut,
        }
    )
    return values
