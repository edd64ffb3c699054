"""One HTML file that shows a calibration: the answer, the evidence, the causes, and both histories over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rltune.calibration import Calibration
from rltune.calibration import calibration_text as text
from rltune.calibration.cluster_file import lines_of
from rltune.report.comparison_page import page_of, write_page
from rltune.report.page_tables import Row, Table
from rltune.report.start_lines import SCRIPTS, lines_of_starts
from rltune.text import seconds

_TITLES = {
    "size": "By size",
    "partition": "By partition",
    "user": "By user",
    "hour": "By hour of the day, on the clock of the export",
}


def write_calibration(made: Calibration, path: str | Path, trace: str = "", cluster: str = "") -> Path:
    """Write the page; `trace` and `cluster` name what was replayed."""
    return write_page(render_calibration(made, trace, cluster), Path(path))


def render_calibration(made: Calibration, trace: str = "", cluster: str = "") -> str:
    """Return the page as text."""
    said = text.verdicts(made)
    return page_of(
        "calibration.html.j2",
        SCRIPTS,
        _data(made),
        title="Calibration",
        trace=" on ".join(filter(None, (trace, cluster))),
        lead=" ".join(said),
        answers=[*text.answer(made)[len(said) :], text.how_replayed(made)],
        evidence=text.evidence(made),
        causes=[(one.cause, one.evidence, bool(one.toml)) for one in made.findings],
        toml=lines_of(made.findings),
        groups=[(_TITLES[name], _table(made, name)) for name, rows in made.groups.items() if len(rows) > 1],
    )


def _table(made: Calibration, name: str) -> Table:
    rows = made.groups[name]
    columns = tuple(f"{row.name}\n{row.jobs:,} jobs" for row in rows)
    recorded = Row("recorded", 0, 0, tuple(seconds(row.recorded_s) for row in rows))
    return Table(columns, (recorded, Row("simulated", 1, 0, tuple(seconds(row.simulated_s) for row in rows))))


def _data(made: Calibration) -> dict[str, Any]:
    history = made.history
    ran = ~np.isnan(made.start_s)
    ready, size, run = history.ready_s[ran], history.size[ran], history.jobs.duration_s[ran]
    sides = {"recorded": history.start_s[ran], f"simulated ({made.pipeline})": made.start_s[ran]}
    return lines_of_starts(ready, size, run, sides, made.cluster.gpu_count)
