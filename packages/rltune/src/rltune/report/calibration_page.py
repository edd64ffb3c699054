"""One HTML file that shows a calibration: the answer, the evidence, the causes, and both histories over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rltune.calibration import Calibration
from rltune.calibration import calibration_text as text
from rltune.calibration.cluster_file import lines_of
from rltune.report.comparison_page import page_of, write_page
from rltune.report.page_tables import NO_LINE, Row, Table
from rltune.report.start_lines import SCRIPTS, lines_of_starts


def write_calibration(
    made: Calibration, path: str | Path, trace: str = "", cluster: str = "", about: tuple[str, Sequence[str]] = ("", ())
) -> Path:
    """Write the page; `trace` and `cluster` name what was replayed, `about` has the file and what lacks in it."""
    return write_page(render_calibration(made, trace, cluster, about), Path(path))


def render_calibration(
    made: Calibration, trace: str = "", cluster: str = "", about: tuple[str, Sequence[str]] = ("", ())
) -> str:
    """Return the page as text."""
    file, notes = about
    said = text.verdicts(made)
    return page_of(
        "calibration.html.j2",
        SCRIPTS,
        _data(made),
        title="Calibration",
        trace=" on ".join(filter(None, (trace, cluster))),
        lead=" ".join(said),
        answers=[*text.answer(made)[len(said) :], text.how_replayed(made), *notes],
        evidence=text.all_evidence(made),
        causes=[(one.cause, text.told(one, file), bool(one.toml)) for one in made.findings],
        toml=lines_of(made.findings),
        groups=[(_title(made, name), _table(made, name)) for name, rows in made.groups.items() if len(rows) > 1],
    )


def _title(made: Calibration, name: str) -> str:
    head = text.head_of(made, name)
    return f"{head[:1].upper()}{head[1:]}"


def _table(made: Calibration, name: str) -> Table:
    """Lay out a row a group: so that a narrow screen shows who it is."""
    rows = tuple(Row(row.name, NO_LINE, 0, text.cells_of(made, row)) for row in made.groups[name])
    return Table(text.columns_of(made), rows, head=name)


def _data(made: Calibration) -> dict[str, Any]:
    history = made.history
    starts = {"recorded": history.start_s, f"simulated ({made.pipeline})": made.start_s}
    if made.after_start_s is not None:
        starts[f"with the lines ({made.after_pipeline})"] = made.after_start_s
    ran = ~np.any([np.isnan(start) for start in starts.values()], axis=0)
    ready, size, run = history.ready_s[ran], history.size[ran], history.jobs.duration_s[ran]
    sides = {name: start[ran] for name, start in starts.items()}
    return lines_of_starts(ready, size, run, sides, made.cluster.gpu_count, origin_s=made.origin_s)
