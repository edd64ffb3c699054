"""The report: one HTML page, one JSON file and the figures, written whole after every experiment."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from rltune.report.comparison_page import page_of
from rltune.reproduce.cells import COLUMNS, HONEST, PAPER, PaperCell, Section
from rltune.reproduce.paper import Derivation, contradictions
from rltune.version import __version__
from rltune.whole_file import cannot_write, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rltune.reproduce.run_size import RunSize
    from rltune.reproduce.workloads import Origin

PAGE, DATA, FIGURES = "report.html", "results.json", "figures"
SYNTHETIC = (
    "These traces are made up: {names}. They are calibrated on published figures of the real ones, but they are not "
    "them. Give the public files by --traces DIR for real results."
)
READING = (
    (
        "Gains are in percent of the base policy's value, above 0 where ours is better, with a 95 % interval over "
        "windows or blocks of time. Seeds are averaged first, so an interval does not say how much trainings differ. "
        "Levels depend on windows that the paper does not publish, so they are not compared."
    ),
    (
        "Paper's protocol: one queue for all pools, windows of 1,024 jobs from an idle cluster, networks trained with "
        "true run times and judged with noisy estimates, no backfilling unless the row says so. Green: ahead of the "
        "paper's gain."
    ),
    (
        "Honest: a queue for each pool, EASY, run times as learnt from jobs that had ended, steady state at a load of "
        "0.9. The small print has the gain over the best rule in hindsight."
    ),
    (
        "Product: the pipeline that was best on the part before the test part, of all rules, shipped models, "
        "backfillings and placements, with run times as learnt, against the base policy under EASY."
    ),
)


TRIED = (
    (
        "For the networks: random and imitated starts, and the usual rate of PPO beside a tenth of it, compared on "
        "validation windows of Helios only. The smaller rate and both starts are used; the better start is kept."
    ),
    (
        "Longer and larger trainings, more features and attention did not pass the best rule on Philly: "
        "docs/results/training.md. Evolution did better than PPO: docs/results/learned.md."
    ),
)


@dataclass(frozen=True)
class Contradiction:
    """A claim of the paper that its other numbers do not bear out, as text."""

    key: str
    said: str
    found: str
    compare: str
    why: str


@dataclass(frozen=True)
class Reproduction:
    """All sections so far, and what was run."""

    sections: tuple[Section, ...]
    scope: RunSize
    origins: dict[str, Origin]
    machine: str
    complete: bool = True
    commit: str = ""

    @property
    def cells(self) -> list[tuple[Section, PaperCell]]:
        """Return all cells with their sections."""
        return [(section, cell) for section in self.sections for cell in section.cells]

    @property
    def behind(self) -> list[tuple[Section, PaperCell]]:
        """Return the cells that are behind the paper, or honestly behind the best rule in hindsight."""
        return [(section, cell) for section, cell in self.cells if cell.ahead(PAPER) is False or _beaten(cell)]

    def lead(self) -> list[str]:
        """Return the result in a few sentences."""
        judged = [cell for _, cell in self.cells if cell.ahead(PAPER) is not None]
        ahead = sum(bool(cell.ahead(PAPER)) for cell in judged)
        honest = [gain for _, cell in self.cells if (gain := _over_best(cell)) is not None]
        said = []
        if judged:
            said.append(
                f"Under the paper's own protocol ours is ahead of the paper's gain in {ahead} of {len(judged)} cells "
                "that have a number in print."
            )
        if honest:
            shown = sum(gain.low > 0 for gain in honest)
            beaten = sum(gain.high < 0 for gain in honest)
            said.append(
                f"Under honest conditions the learned order is shown to be better than the best rule in hindsight in "
                f"{shown} of {len(honest)} cells, and shown to be worse in {beaten}."
            )
        if not self.complete:
            said.append("This report is not complete: see what was left out under each experiment.")
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return all results as plain values."""
        return {
            "rltune": __version__,
            "commit": self.commit,
            "date": datetime.now(UTC).date().isoformat(),
            "machine": self.machine,
            "scope": vars(self.scope),
            "complete": self.complete,
            "traces": {name: origin.told for name, origin in self.origins.items()},
            "lead": self.lead(),
            "sections": [section.to_dict() for section in self.sections],
            "contradictions": [vars(each) for each in told_contradictions()],
        }


def write_reproduction(made: Reproduction, folder: Path) -> Path:
    """Write page, data and figures; each is whole or as it was before."""
    try:
        (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
    for section in made.sections:
        for figure in section.figures:
            write_whole(folder / FIGURES / f"{figure.name}.svg", figure.svg)
    write_whole(folder / DATA, json.dumps(made.to_dict(), indent=1, default=str) + "\n")
    write_whole(folder / PAGE, render_reproduction(made))
    return folder / PAGE


def render_reproduction(made: Reproduction) -> str:
    """Return the page as text."""
    day = datetime.now(UTC).date().isoformat()
    made_up = sorted({origin.title for origin in _used(made) if origin.synthetic})
    return page_of(
        "reproduction.html.j2",
        (),
        None,
        title="The RLTune paper's evaluation, run again",
        about=", ".join(filter(None, (f"rltune {__version__}", made.commit, day, made.machine, made.scope.name))),
        lead=made.lead(),
        synthetic=SYNTHETIC.format(names=", ".join(made_up)) if made_up else "",
        reading=READING,
        columns=COLUMNS,
        sections=[_marked(section) for section in made.sections],
        behind=made.behind,
        tried=TRIED,
        contradictions=told_contradictions(),
    )


def told_contradictions() -> list[Contradiction]:
    """Return the paper's contradictions as text."""
    return [Contradiction(c.key, _derived(c.said), _derived(c.found), c.compare, c.why) for c in contradictions()]


def _derived(given: Derivation) -> str:
    unit = f" {plain.unit}" if (plain := given.plain) and plain.unit else ""
    return f"{given.value:.4g}{unit}"


def _used(made: Reproduction) -> Iterable[Origin]:
    return made.origins.values()


def _marked(section: Section) -> Section:
    """Let the template take our own drawings as they are; their texts were escaped when they were drawn."""
    figures = tuple(replace(f, svg=Markup(f.svg)) for f in section.figures)  # noqa: S704  our own drawing
    return replace(section, figures=figures)


def _over_best(cell: PaperCell) -> Any:
    mine = cell.ours.get(HONEST)
    return mine.over_best if mine is not None else None


def _beaten(cell: PaperCell) -> bool:
    gain = _over_best(cell)
    return gain is not None and gain.percent < 0
