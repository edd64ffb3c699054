"""Fair comparisons: the same jobs, the same machine, the same knowledge; differences with their uncertainty."""

from rltune.evaluate.compare import compare
from rltune.evaluate.comparison import Comparison, Standing
from rltune.evaluate.evaluate import evaluate
from rltune.evaluate.evaluation import Evaluation
from rltune.evaluate.metric import METRICS
from rltune.evaluate.results import Results
from rltune.evaluate.runs import Contender, Run
from rltune.evaluate.windows import Steady, Window, WindowSpec, parse_windows

__all__ = [
    "METRICS",
    "Comparison",
    "Contender",
    "Evaluation",
    "Results",
    "Run",
    "Standing",
    "Steady",
    "Window",
    "WindowSpec",
    "compare",
    "evaluate",
    "parse_windows",
]
