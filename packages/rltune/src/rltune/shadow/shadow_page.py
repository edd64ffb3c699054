"""One HTML file that shows a time in shadow: the sentence, the evidence, who gains, stories, and how the watch went."""

from __future__ import annotations

from pathlib import Path

from rltune.report.comparison_page import page_of, write_page
from rltune.report.page_tables import NO_LINE, Row, Table
from rltune.report.start_lines import SCRIPTS, lines_of_starts
from rltune.shadow import shadow_text as text
from rltune.shadow.shadow_report import ShadowReport
from rltune.text import seconds
from rltune.trials.shares import KINDS


def write_shadow(made: ShadowReport, path: str | Path, source: str = "") -> Path:
    """Write the page; `source` names the journal."""
    return write_page(render_shadow(made, source), Path(path))


def render_shadow(made: ShadowReport, source: str = "") -> str:
    """Return the page as text."""
    rows = made.rows
    waits = (rows.observed_s, rows.slurm_s, rows.our_s)
    names = [name for name, _ in text.spreads(made)]
    starts = {name: rows.ready_s + wait for name, wait in zip(names, waits, strict=True)}
    return page_of(
        "shadow.html.j2",
        SCRIPTS,
        lines_of_starts(rows.ready_s, rows.gpus, rows.run_s, starts, made.gpus, made.end_s),
        title=f"{made.policy} in shadow",
        trace=source,
        lead=text.sentence(made),
        answers=text.evidence(made),
        waits=_waits(made),
        groups=[(f"By {kind}", _shares(made, kind)) for kind in KINDS if text.shares_of(made, kind)],
        stories=[(text.headline(one), [str(line) for line in one.lines]) for one in made.stories],
        trips=[(text.moment(when), told) for when, told in made.watch.last_trips],
    )


def _waits(made: ShadowReport) -> Table:
    rows = (
        Row(name, i, 0, tuple(seconds(getattr(of, part)) for part in text.PARTS))
        for i, (name, of) in enumerate(text.spreads(made))
    )
    return Table(text.PARTS, tuple(rows), head="wait")


def _shares(made: ShadowReport, kind: str) -> Table:
    rows = (
        Row(s.name, NO_LINE, 0, (f"{s.jobs:,}", seconds(s.now_s), seconds(s.then_s), text.change(s.then_s, s.now_s)))
        for s in text.shares_of(made, kind)
    )
    return Table(("jobs", "Slurm's order", made.policy, "change"), tuple(rows), head=kind)
