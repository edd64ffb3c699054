"""One HTML file that shows a comparison or an evaluation: no server, no network, nothing beside it."""

from rltune.report.evaluation import render_evaluation, write_evaluation
from rltune.report.page import render, write_report

__all__ = ["render", "render_evaluation", "write_evaluation", "write_report"]
