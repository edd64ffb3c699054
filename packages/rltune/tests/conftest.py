"""Put the helpers of these tests on the path, and make hypothesis repeatable.

RLTUNE_EXAMPLES=20 tries twenty times as many random examples, and fresh ones in every run.
"""

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

TIMES = int(os.environ.get("RLTUNE_EXAMPLES", "1"))

settings.register_profile(
    "rltune",
    max_examples=40 * TIMES,
    derandomize=TIMES == 1,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("rltune")
