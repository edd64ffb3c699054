"""A calibration in words and tables: the answer first, then the evidence, the causes and the lines of TOML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from rltune.calibration.calibrate import Calibration
from rltune.calibration.closeness import FOR_RANKING, FOR_SIZES, NEITHER, RANKING, SIZES, Nearness
from rltune.metrics.formats import plain
from rltune.metrics.recorded import spread, times_apart
from rltune.text import percent, seconds

GOOD_FOR = {
    SIZES: "Usable for ranking policies and for sizes of gains.",
    RANKING: "Usable for ranking policies, not for sizes of gains.",
    NEITHER: "Usable neither for ranking policies nor for sizes of gains.",
}
FEW_WAITED = 0.01  # of the jobs: where fewer waited there is nothing to be ranked
_HEADS = {
    "size": "by size",
    "partition": "by partition",
    "user": "by user, longest waiting",
    "hour": "by hour submitted",
}


def answer(made: Calibration) -> list[str]:
    """Return the lines that answer the question: what a replay is good for, then how long jobs waited in it."""
    return [*verdicts(made), *_waits(made)]


def verdicts(made: Calibration) -> list[str]:
    """Return what a replay is good for; where there are two answers, first which of them counts."""
    if made.after is None:
        return [_good_for(made.close)]
    both = (("Without the lines below", made.close), ("With them taken over", made.after))
    said = [f"{which}: {good[0].lower()}{good[1:]}" for which, good in ((w, _good_for(close)) for w, close in both)]
    return ["Two verdicts: that of the file you go on with counts (with --write the second).", *said]


def _waits(made: Calibration) -> list[str]:
    waits = made.close.waits
    lines = [f"Recorded wait:     {spread(waits.recorded_s)}", f"Replayed:          {spread(waits.simulated_s)}"]
    return lines if made.after is None else [*lines, f"With the lines:    {spread(made.after.waits.simulated_s)}"]


def how_replayed(made: Calibration) -> str:
    """Return under which policy the history was replayed, and how that was chosen."""
    then = f"; with the lines below under {made.after_pipeline}" if made.after is not None else ""
    return f"Replayed under {made.pipeline} ({made.chosen}), estimates {made.estimator}{then}."


def _good_for(close: Nearness) -> str:
    if close.waited < FEW_WAITED:
        return f"Only {percent(close.waited)} of the jobs waited over a minute: there is little to rank."
    return GOOD_FOR[close.verdict]


def evidence(made: Calibration) -> list[str]:
    """Return each test that decided, in one line."""
    verdict = made.close.verdict
    bar = FOR_SIZES if verdict in {SIZES, RANKING} else FOR_RANKING
    lines = [f"{'ok   ' if good else 'FAR  '}{said}" for good, said in made.close.tests(bar)]
    close = made.close
    more = f"rank correlation of starts {close.rank_of_starts:.2f}, correlation of GPUs in use {close.use:.2f}"
    return [*lines, f"     {more}"]


def causes(made: Calibration) -> list[str]:
    """Return what was found, one line each."""
    return [f"{one.cause}: {one.evidence}{' [TOML]' if one.toml else ''}" for one in made.findings]


def tables(made: Calibration) -> Iterator[Table]:
    """Lay out recorded and simulated waits by group."""
    for name, rows in made.groups.items():
        if len(rows) < 2 or name == "hour":  # the page has the hours
            continue
        table = Table(_HEADS[name], title_justify="left", box=None, padding=(0, 2, 0, 0))
        for column in ("jobs", "recorded", "simulated", ""):
            table.add_column(column, justify="right" if column else "left")
        for row in rows:
            apart = "" if row.recorded_s == row.simulated_s else times_apart(row.simulated_s, row.recorded_s)
            cells = (row.name, f"{row.jobs:,}", seconds(row.recorded_s), seconds(row.simulated_s))
            table.add_row(*map(Text, cells), Text(apart.removesuffix(" than")))
        yield table


def as_dict(made: Calibration) -> dict[str, Any]:
    """Return everything as plain values, for JSON."""

    def close(one: Nearness) -> dict[str, Any]:
        return {**asdict(one), "good_for": one.verdict}

    values: dict[str, Any] = plain(
        {
            "answer": answer(made),
            "good_for": made.close.verdict,
            "evidence": evidence(made),
            "pipeline": made.pipeline,
            "chosen": made.chosen,
            "estimator": made.estimator,
            "replay": close(made.close),
            "with_all_lines": None if made.after is None else {"pipeline": made.after_pipeline, **close(made.after)},
            "findings": [asdict(one) for one in made.findings],
            "groups": {name: [asdict(row) for row in rows] for name, rows in made.groups.items()},
        }
    )
    return values
