"""Who may change others' jobs, by what Slurm tells of an account."""

import pytest

from rltune.live.slurm import rights_of_account as rights

CONFIG = "AccountingStorageType   = accounting_storage/slurmdbd\nSlurmUser               = slurm(64030)\n"


@pytest.mark.parametrize(("user", "own"), [("root", True), ("slurm", True), ("games", False), ("", True)])
def test_root_and_slurms_own_account_may(user, own):
    """They need no level; who is not told is not taken for powerless."""
    assert rights.is_slurms_own(user, CONFIG) is own
    assert rights.is_slurms_own(user, "") is True


@pytest.mark.parametrize(
    ("answer", "may"),
    [
        ("games|None|\n", False),
        ("games|Operator|\n", True),
        ("games|Administrator|\n", True),
        ("games|None|research\n", True),
        ("", False),
        ("gamesmaster|Operator|\n", False),
    ],
)
def test_levels_are_read(answer, may):
    """Operators, Administrators and coordinators may; who is not in the accounting may not."""
    assert rights.may_drive("games", answer) is may


def test_without_accounting_there_are_no_levels():
    """Then root and Slurm's own account alone may change others' jobs."""
    assert rights.has_levels(CONFIG)
    assert not rights.has_levels("AccountingStorageType = accounting_storage/none\n")
