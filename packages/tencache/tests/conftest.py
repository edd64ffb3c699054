import os
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from tencache.runtime.optimizer import known_optimizers

# The models here are small. What holds for large ones is tested with them: updates after step() has returned.
known_optimizers.WORTH_BYTES = 0
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE / room) for room in ("fuzz", "standin", "runtime"))]

# The same examples in every run; TENCACHE_EXAMPLES=20 tries twenty times as many, and others every time.
TIMES = int(os.environ.get("TENCACHE_EXAMPLES", "1"))
settings.register_profile("tencache", max_examples=150 * TIMES, derandomize=TIMES == 1, database=None, deadline=None)
settings.load_profile("tencache")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Sums depend on the number of threads: comparisons need one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pytest_collection_finish(session):
    """Load the stand-in before the first test: autograd asks for devices once, at the first backward of a process."""
    names = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if {"standin", "unstarted"} & names and not session.config.option.collectonly:
        import standin_device

        if standin_device.missing() is None:
            standin_device.machine()


@pytest.fixture(params=[0, 1, 2], ids=lambda seed: f"seed{seed}")
def standin(request):
    """The asynchronous stand-in for a GPU, with work done late, and in another order for every seed."""
    machine = _machine()
    # Seed 0 does nothing before somebody waits for it.
    machine.configure(request.param, 0.2 * request.param, 1e-4, 1e9, 1e9)
    yield machine
    machine.synchronize()
    assert machine.faults() == []


@pytest.fixture
def unstarted():
    """The stand-in that does nothing before somebody waits for it; who uses it looks at its faults, or expects some."""
    machine = _machine()
    machine.configure(0, 0.0, 1e-4, 1e9, 1e9)
    yield machine
    machine.synchronize()


def _machine():
    import standin_device

    if why := standin_device.missing():
        pytest.skip(why)
    return standin_device.machine()


@pytest.fixture(params=["sim", "cuda"])
def device(request):
    """Every device the same tests run on."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device here: the CUDA path is not tested on this machine")
    return request.param
