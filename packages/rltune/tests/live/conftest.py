"""A real Slurm for the tests: one with and one without accounting, started when first asked for."""

import os
import tempfile
from pathlib import Path

import pytest

from rltune.live.slurm.testbed import Testbed, missing


def require_slurm(**needs) -> None:
    """Skip, with the reason, where no Slurm can be had; never in CI, and never as root on Debian."""
    reason = missing(**needs)
    if reason and (os.environ.get("CI") or (os.geteuid() == 0 and Path("/etc/debian_version").exists())):
        pytest.fail(f"{reason} (or run scripts/setup tests)")
    if reason:
        pytest.skip(reason)


def short_folder() -> Path:
    """Make a folder that other accounts may enter, with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="rltune-"))
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def started_testbed():
    require_slurm()
    with Testbed.up(short_folder()) as bed:
        yield bed


@pytest.fixture(scope="session")
def started_testbed_with_database():
    require_slurm(database=True)
    with Testbed.up(short_folder(), database=True) as bed:
        yield bed


@pytest.fixture
def testbed(started_testbed):
    """Five nodes with 13 GPUs, idle, without accounting."""
    started_testbed.clear()
    return started_testbed


@pytest.fixture
def testbed_with_database(started_testbed_with_database):
    """Five nodes with 13 GPUs, idle, with slurmdbd, accounts, and the user `slurm` as Operator."""
    started_testbed_with_database.clear()
    return started_testbed_with_database


@pytest.fixture
def bed_folder(tmp_path):
    """A folder for a testbed of the test's own."""
    require_slurm()
    folder = tmp_path / "bed"
    yield folder
    if folder.exists():
        Testbed.open(folder).down()
