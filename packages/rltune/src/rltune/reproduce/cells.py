"""What a report is made of: cells with the paper's number and ours, tables of them, and figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rltune.reproduce.paper import number
from rltune.reproduce.relative_gain import RelativeGain

PAPER, HONEST, PRODUCT = COLUMNS = ("paper's protocol", "honest", "product")


@dataclass(frozen=True)
class Ours:
    """One of our numbers: a gain in percent, or text for what is not a gain; `note` says how it was made."""

    gain: RelativeGain | None = None
    text: str = ""
    note: str = ""
    over_best: RelativeGain | None = None  # the gain over the best rule in hindsight

    def __str__(self) -> str:
        return self.text or (str(self.gain) if self.gain else "-")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "gain": self.gain.to_dict() if self.gain else None,
            "over_best_rule": self.over_best.to_dict() if self.over_best else None,
            "text": str(self),
            "note": self.note,
        }


@dataclass(frozen=True)
class PaperCell:
    """One number of the paper, or one that it shows only as a curve, and what we have for it."""

    row: str
    column: str
    ours: dict[str, Ours]  # by column of ours
    key: str = ""  # of the paper's number; "" if it prints none
    paper_gain: float | None = None  # percent; where the paper's number is a gain or follows from two of its numbers
    paper_text: str = ""

    @classmethod
    def of_key(cls, key: str, row: str, column: str, ours: dict[str, Ours]) -> PaperCell:
        """Make the cell of a gain that the paper prints."""
        return cls(row, column, ours, key, number(key).value)

    @property
    def paper(self) -> str:
        """Write the paper's number."""
        if self.paper_text or self.paper_gain is None:
            return self.paper_text or "no number"
        return f"{self.paper_gain:.4g} %"

    def ahead(self, column: str) -> bool | None:
        """Return whether ours is ahead of the paper's gain; None if one of them is missing."""
        mine = self.ours.get(column)
        if self.paper_gain is None or mine is None or mine.gain is None or mine.gain.percent != mine.gain.percent:
            return None
        return mine.gain.percent >= self.paper_gain

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "row": self.row,
            "column": self.column,
            "key": self.key,
            "paper": self.paper,
            "paper_gain": self.paper_gain,
            "ours": {name: mine.to_dict() for name, mine in self.ours.items()},
            "ahead": {name: self.ahead(name) for name in self.ours},
        }


@dataclass(frozen=True)
class Figure:
    """A picture, with what it shows and what the paper's shows."""

    name: str
    title: str
    svg: str
    caption: str = ""


@dataclass(frozen=True)
class Plain:
    """A table of text: first column at the left, the others at the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"columns": self.columns, "rows": self.rows, "caption": self.caption}


@dataclass(frozen=True)
class Section:
    """What one experiment has to show."""

    name: str  # as `--only` takes it
    title: str
    where: str  # in the paper
    cells: tuple[PaperCell, ...] = ()
    tables: tuple[Plain, ...] = ()
    figures: tuple[Figure, ...] = ()
    differs: tuple[str, ...] = ()  # a sentence each on how ours differs from the paper's experiment
    concludes: str = ""
    missing: tuple[str, ...] = ()  # what was left out, and why
    links: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; figures by the name of their file."""
        return {
            "name": self.name,
            "title": self.title,
            "where": self.where,
            "concludes": self.concludes,
            "cells": [cell.to_dict() for cell in self.cells],
            "tables": [table.to_dict() for table in self.tables],
            "figures": [figure.name for figure in self.figures],
            "differs": list(self.differs),
            "missing": list(self.missing),
        }
