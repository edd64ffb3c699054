"""Machine code on disk is taken only if it was compiled from this very source."""

import os
import subprocess
import sys
import textwrap

ONE, OTHER = (
    """
    from typing import NamedTuple
    from rltune.kernel import jit

    class {name}(NamedTuple):
        x: int

    @jit.kernel
    def twice(pair):
        return {factor} * pair.x

    print(twice({name}(21)))
    """.replace("{name}", name).replace("{factor}", factor)
    for name, factor in (("Pair", "2"), ("Renamed", "3"))
)


def test_a_class_that_is_gone_does_not_make_the_cache_unreadable(tmp_path):
    """Numba's own index would raise on it: after an upgrade every command would end with a traceback."""
    script = tmp_path / "kernels.py"
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run(text, source):
        script.write_text(textwrap.dedent(text).replace("jit\n", f"jit\njit.SOURCE_HASH = {source!r}\n", 1))
        done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, check=False)
        return done.stdout.strip() or done.stderr

    assert run(ONE, "first") == "42"
    assert run(OTHER, "second") == "63"
