"""Fair comparisons: the same jobs, the same machine, the same knowledge; differences with their uncertainty."""

from rltune.evaluation.compare import compare
from rltune.evaluation.comparison import Comparison, Run, Standing
from rltune.evaluation.evaluate import evaluate
from rltune.evaluation.evaluation import Evaluation
from rltune.evaluation.results import Results
from rltune.trials.measures import METRICS
from rltune.trials.pipelines import Contender
from rltune.trials.windows import Steady, Window, WindowSpec, parse_windows

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
