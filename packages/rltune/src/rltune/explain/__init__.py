"""Why a job waits: one dominant reason with its evidence, the others, and what would start it."""

from rltune.explain.explainer import Explainer, explain
from rltune.explain.explanation import Ahead, Explanation, Overtaker, Reason, ScorePart, TriedChange

__all__ = ["Ahead", "Explainer", "Explanation", "Overtaker", "Reason", "ScorePart", "TriedChange", "explain"]
