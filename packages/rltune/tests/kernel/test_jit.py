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


TWO = """
from rltune.kernel import jit

@jit.kernel
def twice(x):
    return x + x
"""


def test_two_processes_that_compile_at_once_never_take_each_others_code(tmp_path, monkeypatch):
    """Numba numbers its files: both would write number 1, and the index that is written last may name the other's."""
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "two.py").write_text(TWO)
    monkeypatch.syspath_prepend(tmp_path)
    import two

    file = two.twice._cache._cache_file
    monkeypatch.setattr(file, "_load_index", dict)  # each looks before the other has written
    file.save("int64", "code for int64")
    file.save("float64", "code for float64")
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) == 2


def test_a_copy_of_the_same_source_needs_not_compile_again(tmp_path):
    """With NUMBA_CACHE_DIR a new clone or a new venv takes the code that another one has compiled."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    hits = "import two; two.twice(1); print(sum(two.twice.stats.cache_hits.values()))"

    def run(folder):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "two.py").write_text(TWO)
        command = [sys.executable, "-c", hits]
        return subprocess.run(
            command, env=env, cwd=tmp_path / folder, capture_output=True, text=True, check=True
        ).stdout

    assert (run("one"), run("another")) == ("0\n", "1\n")


def test_processes_that_want_the_same_code_at_once_compile_it_once(tmp_path):
    """The others wait and take it over: a core that takes minutes to compile would keep every process busy."""
    (tmp_path / "two.py").write_text(TWO.replace("return x + x", "\n    ".join(["x = x * x + 1"] * 400 + ["return x"])))
    wait_for_all = "import sys, two; print(flush=True); sys.stdin.readline(); two.twice(1);"
    command = [sys.executable, "-c", wait_for_all + "print(sum(two.twice.stats.cache_misses.values()))"]
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    running = [subprocess.Popen(command, env=env, cwd=tmp_path, text=True, **pipes) for _ in range(3)]
    for process in running:
        process.stdout.readline()
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert sorted(process.communicate()[0] for process in running) == ["0\n", "0\n", "1\n"]
