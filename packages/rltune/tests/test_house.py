"""The tree shows the architecture: contracts hold, nothing private is borrowed, one name is one thing."""

import ast
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import rltune

SOURCE = Path(rltune.__file__).parent
ROOT = Path(__file__).parents[3]
PACKAGES = [SOURCE, ROOT / "packages" / "tencache" / "src" / "tencache"]
FILES = sorted(file for package in PACKAGES for file in package.rglob("*.py"))
NAMED_TUPLE = {"_make", "_replace", "_fields", "_asdict"}  # its own public words
SHARED_FILES = {"__init__.py", "errors.py"}  # each product has its own errors


def private(tree: ast.Module) -> list[str]:
    """List the private names that a module takes from another of ours."""
    ours = ("rltune", "tencache")
    modules, found = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in ours:
            names = [alias.name for alias in node.names]
            found += [f"{node.module}.{n}" for n in names if n.startswith("_") and not n.startswith("__")]
            modules |= {alias.asname or alias.name for alias in node.names}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            public = node.attr.startswith("__") or node.attr in NAMED_TUPLE
            found += [f"{node.value.id}.{node.attr}"] if node.attr.startswith("_") and not public else []
    return found


def test_nobody_takes_anothers_private_name():
    """What a module shares has a public name."""
    taken = {str(f.relative_to(ROOT)): private(ast.parse(f.read_text())) for f in FILES}
    assert {name: found for name, found in taken.items() if found} == {}
    planted = "from rltune.engine.run import _options\nfrom rltune.engine import run\nrun._placements"
    assert private(ast.parse(planted)) == ["rltune.engine.run._options", "run._placements"]


def test_one_file_name_is_one_file():
    """A newcomer finds the room by its name, and an error message names one file."""
    names = Counter(file.name for file in FILES if file.name not in SHARED_FILES)
    assert [name for name, count in names.items() if count > 1] == []


def test_one_class_name_is_one_class():
    """In the whole repository."""
    classes = [n.name for f in FILES for n in ast.walk(ast.parse(f.read_text())) if isinstance(n, ast.ClassDef)]
    assert [name for name, count in Counter(classes).items() if count > 1 and not name.startswith("_")] == []


PLANTED = {
    "kernel/state/score_heap.py": "from rltune.trace import synthetic",
    "metrics/distribution.py": "from rltune.schedule import Schedule",
    "live/decide/ranking.py": "from rltune.live.journal.store import Journal",
    "policy/qssf.py": "from rltune.learn import objective",
    "lounge.py": "",  # a new room that is in no layer
}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("lint-imports", path=Path(sys.executable).parent) is None, reason="no import-linter")
@pytest.mark.parametrize("where", PLANTED)
def test_a_forbidden_import_breaks_a_contract(where, tmp_path):
    """Each of these passed once, or could have."""
    copy = tmp_path / "rltune"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / where).open("a", encoding="utf-8") as file:
        file.write(f"\n{PLANTED[where]}\n")
    told = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--config", ROOT / "pyproject.toml"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        # This tree's tencache, whichever is installed.
        env={"PYTHONPATH": f"{tmp_path}:{ROOT / 'packages/tencache/src'}", "PATH": "/usr/bin:/bin"},
    )
    assert told.returncode == 1, told.stdout + told.stderr
    assert "BROKEN" in told.stdout


# Where a file is opened for writing other than by `write_whole`, and why that loses nothing.
WRITES_ITSELF = {
    "whole_file.py": "the one place",
    "cli/exits.py": "/dev/null, for a stream that was closed",
    "lab/faults/scene.py": "logs that grow, and a file whose being there is a word to jobs",
    "lab/faults/fault_table.py": "fills a disk on purpose",
    "lab/faults/faults_of_records.py": "damages a journal on purpose",
    "live/single_instance.py": "a lock: what matters is who holds it, not what stands in it",
    "live/journal/store.py": "SQLite, which is whole after a crash; here its file is made, empty and private",
    "live/pinned_pipeline.py": "a copy in a folder that is removed a line later",
    "kernel/jit.py": "an empty file that is locked while something is compiled",
    "parallel.py": "a message to worker processes, in a folder that is removed with them",
    "lab/experiment/checkpointing_job.py": "runs in jobs, alone: a checkpoint by the same rule, and a log that grows",
    "lab/testbed/release_folder.py": "a log that grows while a release is made, and a lock",
    "lab/testbed/bed.py": "an empty file with the rights of a secret, before the secret is written whole",
    "lab/testbed/daemon_parent.py": "a log that grows, and a pipe",
}
WRITING_CALLS = {
    *("write_text", "write_bytes", "touch", "write_parquet", "write_csv", "sink_parquet", "sink_csv"),
    *("tofile", "savez", "savez_compressed", "savetxt", "mkstemp", "NamedTemporaryFile", "copyfile", "copy2", "fdopen"),
}


def writes(tree: ast.Module) -> list[str]:
    """List the calls by which a module writes a file itself; polars may write into memory, which is named a buffer."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        into = node.args[0].id if node.args and isinstance(node.args[0], ast.Name) else ""
        told = [*node.args, *(k.value for k in node.keywords)]
        words = [str(word.value) for word in told if isinstance(word, ast.Constant)]
        opens = name == "open" and any(set(word) & set("wax+") and set(word) <= set("rwaxbt+") for word in words)
        flags = name == "open" and any("O_CREAT" in ast.dump(word) or "O_WRONLY" in ast.dump(word) for word in told)
        in_memory = into == "buffer" or (name == "write_csv" and not node.args)
        method = isinstance(node.func, ast.Attribute) and name in WRITING_CALLS
        if opens or flags or (method and not in_memory):
            found.append(f"{name} in line {node.lineno}")
    return found


def test_every_file_is_written_whole():
    """A full disk, Ctrl-C or a crash leaves the old file or none: only `write_whole` sees to that."""
    ours = (file for file in SOURCE.rglob("*.py"))
    found = {str(f.relative_to(SOURCE)): writes(ast.parse(f.read_text())) for f in ours}
    assert {name: calls for name, calls in found.items() if calls and name not in WRITES_ITSELF} == {}
    assert [name for name in WRITES_ITSELF if not found[name]] == []
    planted = "p.write_text('')\nopen(p, 'w')\np.open('ab')\nframe.write_parquet(p)\nopen(p)\nos.open(p, os.O_CREAT)"
    assert len(writes(ast.parse(planted))) == 5
