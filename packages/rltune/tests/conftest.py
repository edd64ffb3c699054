"""Put the helpers of these tests on the path, and make hypothesis repeatable.

RLTUNE_EXAMPLES=20 tries twenty times as many random examples, and fresh ones in every run.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# Ray reads these when it is imported: work on 127.0.0.1 alone, report nothing to anyone.
os.environ |= {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # its switch for the loopback address, whatever the system
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

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


@pytest.fixture(scope="session")
def ray_cluster(tmp_path_factory):
    """Give the address of a Ray cluster of two workers that listens on this machine alone."""
    pytest.importorskip("ray", reason="Ray is not installed")
    command = [sys.executable, Path(__file__).with_name("ray_head.py"), tmp_path_factory.mktemp("r")]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, **pipes) as head:
        address = head.stdout.readline().strip()
        assert address.startswith("127.0.0.1:"), head.communicate(timeout=300)[1]
        yield address
        head.communicate(timeout=300)
