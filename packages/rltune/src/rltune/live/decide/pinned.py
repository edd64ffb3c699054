"""What a controller decides by: a value, read once. Who reads it is `live.pinned_pipeline`."""

from __future__ import annotations

from dataclasses import dataclass, field

from rltune.engine.pipeline import Pipeline
from rltune.estimate.estimators import Estimator, User


@dataclass(frozen=True)
class Pinned:
    """A pipeline and an estimator as they were when they were read: no cycle looks at a file again."""

    pipeline: Pipeline
    estimator: Estimator = field(default_factory=User)
    sha256: str = ""  # of the model, or of the file that the policy is in; "" = built in
    text: str = field(default="", repr=False)  # of that file, for the journal; "" = built in, or a trace
