"""One HTML file that shows a comparison or an evaluation: no server, no network, nothing beside it."""

from rltune.report.comparison_page import render, write_report
from rltune.report.evaluation_page import render_evaluation, write_evaluation

__all__ = ["render", "render_evaluation", "write_evaluation", "write_report"]
