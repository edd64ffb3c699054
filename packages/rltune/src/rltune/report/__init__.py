"""One HTML file that shows a comparison: no server, no network, nothing beside it."""

from rltune.report.page import render, write_report

__all__ = ["render", "write_report"]
