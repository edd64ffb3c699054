"""A real Slurm for the tests: one with and one without accounting, started when first asked for."""

import pytest
from real_slurm import EVERYWHERE, NAMES, RELEASES, has_rest, require_release, require_slurm, short_folder

from rltune.lab.testbed import Testbed


@pytest.fixture(scope="session")
def started_testbed():
    require_slurm()
    with Testbed.up(short_folder(), rest=has_rest()) as bed:
        yield bed


@pytest.fixture(scope="session")
def started_testbed_with_database():
    require_slurm(database=True)
    with Testbed.up(short_folder(), database=True, rest=has_rest()) as bed:
        yield bed


@pytest.fixture(scope="session", params=RELEASES, ids=NAMES)
def started_testbed_of_any_release(request):
    require_release(request.param)
    yield from _own_or_made(request, "started_testbed", database=False)


_MANY = len(RELEASES) if EVERYWHERE else 1


@pytest.fixture(scope="session", params=RELEASES[:_MANY], ids=NAMES[:_MANY])
def started_testbed_everywhere(request):
    yield from _own_or_made(request, "started_testbed", database=False)


@pytest.fixture(scope="session", params=RELEASES[:_MANY], ids=NAMES[:_MANY])
def started_testbed_with_database_everywhere(request):
    yield from _own_or_made(request, "started_testbed_with_database", database=True)


def _own_or_made(request, own, *, database):
    """Give the testbed of the machine's own release that is up already, or start one of another release."""
    if not request.param:
        yield request.getfixturevalue(own)
        return
    require_release(request.param)
    with Testbed.up(short_folder(), database=database, release=request.param, rest=True) as bed:
        yield bed


@pytest.fixture
def testbed_everywhere(started_testbed_everywhere):
    """As `testbed`; with RLTUNE_SLURM=all also of the releases made beside the machine's own."""
    started_testbed_everywhere.clear()
    return started_testbed_everywhere


@pytest.fixture
def testbed_with_database_everywhere(started_testbed_with_database_everywhere):
    """As `testbed_with_database`; with RLTUNE_SLURM=all also of the releases made beside the machine's own."""
    started_testbed_with_database_everywhere.clear()
    return started_testbed_with_database_everywhere


@pytest.fixture
def testbed_of_any_release(started_testbed_of_any_release):
    """Five nodes with 13 GPUs, idle, without accounting, of the machine's own release and of those made beside it."""
    started_testbed_of_any_release.clear()
    return started_testbed_of_any_release


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
def bed_folder():
    """A folder for a testbed of the test's own: short, since a socket's path may have 108 characters."""
    require_slurm()
    folder = short_folder() / "bed"
    yield folder
    if folder.exists():
        Testbed.open(folder).down()
    folder.parent.rmdir()
