"""Nothing is ever half written: a full disk, Ctrl-C or a crash leaves the old file, or none."""

import os
import resource
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from learn.small_training import jobs

import rltune
from rltune.errors import InputError
from rltune.model.model_file import save_model
from rltune.policy.by_name import get_policy
from rltune.report import write_report
from rltune.trace import write
from rltune.whole_file import write_whole

SMALL = 4096  # bytes of a disk on which nothing below has room


@contextmanager
def only_small_files():
    """Let no file grow beyond what a small disk would hold, where no small disk can be had."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def small_disk(tmp_path):
    """Give a folder on a disk that is nearly full: a tmpfs if this user may mount one, else a limit on files."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True, check=False).returncode == 0:
        yield folder
        subprocess.run(["umount", str(folder)], check=True)
    else:
        with only_small_files():
            yield folder


@pytest.fixture(scope="module")
def comparison():
    """A comparison whose files are all larger than the small disk."""
    return rltune.compare(jobs(), rltune.Cluster.uniform(nodes=2, gpus=4), ["fcfs"], ["none"])


def model(_, path):
    save_model(get_policy("learned").model, path)


WRITERS = {
    "trace.csv": lambda _, path: write(jobs(), path),
    "trace.csv.gz": lambda _, path: write(jobs(), path),
    "trace.parquet": lambda _, path: write(jobs(), path),
    "jobs.csv": lambda made, path: made.write_jobs(path),
    "jobs.parquet": lambda made, path: made.write_jobs(path),
    "all.json": lambda made, path: made.to_json(path),
    "page.html": write_report,
    "model.rltune": model,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("before", [None, "what was there before"])
def test_a_full_disk_leaves_the_old_file_or_none(name, before, comparison, small_disk):
    path = small_disk / name
    if before is not None:
        path.write_text(before)
    with pytest.raises(InputError, match=rf"{name}: cannot be written: (No space left on device|File too large)$"):
        WRITERS[name](comparison, path)
    assert [file.name for file in small_disk.iterdir()] == ([] if before is None else [name])
    assert before is None or path.read_text() == before


def test_an_interrupt_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    """Ctrl-C may come at any moment, also while the bytes are on their way to the disk."""

    def interrupted(_):
        raise KeyboardInterrupt

    path = tmp_path / "a.txt"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_replaced_hands_on_who_may_read_it(tmp_path):
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    write_whole(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_a_device_is_written_and_not_replaced():
    """Root that writes to /dev/null must not put a file in its place."""
    write_whole("/dev/null", "x")
    assert not Path("/dev/null").is_file()
    with pytest.raises(InputError, match=r"^/dev/full: cannot be written: No space left on device$"):
        write_whole("/dev/full", "x")
