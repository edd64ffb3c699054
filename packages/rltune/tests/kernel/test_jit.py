"""Machine code on disk is taken only if it was compiled from this very source."""

import os
import subprocess
import sys

KERNELS = """
from typing import NamedTuple
from rltune.kernel import jit

jit.SOURCE_HASH = {source!r}

class {name}(NamedTuple):
    x: int

@jit.kernel
def times(pair):
    return {factor} * pair.x

print(times({name}(21)))
"""


def test_a_class_that_is_gone_does_not_make_the_cache_unreadable(tmp_path):
    """Numba's own index raises on it: after an upgrade every command would end with a traceback."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(**words):
        (tmp_path / "kernels.py").write_text(KERNELS.format(**words))
        command = [sys.executable, "-c", "import kernels"]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stdout.strip() or done.stderr

    assert run(source="first", name="Pair", factor=2) == "42"
    assert run(source="second", name="Renamed", factor=3) == "63"
    assert run(source="first", name="Pair", factor=2) == "42"
    assert "Can't get attribute 'Pair'" in run(source="first", name="Renamed", factor=3)  # what numba's own files do
