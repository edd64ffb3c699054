"""Changes as scontrol's lines, and its transcript as their outcomes."""

import pytest

from rltune.live.see.backend import Change, ChangeKind
from rltune.live.slurm.scontrol_orders import lines_of, may_be_made, outcomes_of

FAILS = "Invalid job id specified for job 999999"


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (Change(7, ChangeKind.SITE_FACTOR, 500), ("update JobId=7 SiteFactor=500",)),
        (Change(7, ChangeKind.SITE_FACTOR, -3), ("update JobId=7 SiteFactor=-3",)),
        (Change(7, ChangeKind.PRIORITY, 9), ("update JobId=7 Priority=9",)),
        (Change(7, ChangeKind.RELEASE), ("release 7",)),
        (Change(7, ChangeKind.RELEASE, 20), ("release 7", "update JobId=7 Nice=20")),
        (Change(7, ChangeKind.EXCLUDE_NODES, nodes=("a", "b")), ("update JobId=7 ExcNodeList=a,b",)),
        (Change(7, ChangeKind.EXCLUDE_NODES), ("update JobId=7 ExcNodeList=",)),
        (Change(7, ChangeKind.REQUIRE_NODES, nodes=("a",)), ("update JobId=7 ReqNodeList=a",)),
        (Change(7, ChangeKind.SITE_FACTOR, 1, ref="7_[3-9]"), ("update JobId=7_[3-9] SiteFactor=1",)),
    ],
)
def test_a_change_as_scontrol_wants_it(change, lines):
    """Nice is given back with a release, because Slurm takes it away."""
    assert lines_of(change) == lines


CHANGES = (
    Change(3, ChangeKind.SITE_FACTOR, 500),
    Change(999999, ChangeKind.RELEASE, 5),
    Change(3, ChangeKind.REQUIRE_NODES, nodes=("nosuch",)),
    Change(4, ChangeKind.EXCLUDE_NODES, nodes=("k80-1",)),
)
TRANSCRIPT = f"""scontrol: update JobId=3 SiteFactor=500
scontrol: release 999999
{FAILS}
slurm_suspend error: Invalid job id specified
scontrol: update JobId=999999 Nice=5
{FAILS}
scontrol: update JobId=3 ReqNodeList=nosuch
Invalid node name specified for job 3
scontrol: update JobId=4 ExcNodeList=k80-1
4_3-6: No error
scontrol:
"""


def test_errors_belong_to_the_line_before_them():
    """Of two changes of one job only the one that failed has failed."""
    outcomes = outcomes_of(CHANGES, TRANSCRIPT)
    assert [o.change for o in outcomes] == list(CHANGES)
    assert [o.done for o in outcomes] == [True, False, False, True]
    assert FAILS in outcomes[1].error
    assert outcomes[2].error == "Invalid node name specified for job 3"


def test_where_lines_are_not_repeated_errors_go_by_number():
    """Then a job's changes share its error."""
    bare = "\n".join(line for line in TRANSCRIPT.splitlines() if not line.startswith("scontrol:"))
    outcomes = outcomes_of(CHANGES[:1] + CHANGES[2:], bare.replace("slurm_suspend error: Invalid job id specified", ""))
    assert [o.done for o in outcomes] == [False, False, True]


def test_an_error_that_names_nobody_is_everybodys():
    """Nothing is called done that may not be."""
    outcomes = outcomes_of(CHANGES, "slurm_update error: Access/permission denied\n")
    assert {o.error for o in outcomes} == {"slurm_update error: Access/permission denied"}


@pytest.mark.parametrize(
    ("error", "open_"),
    [
        ("Socket timed out on send/recv operation for job 7", True),
        ("Unable to contact slurm controller (connect failure) for job 7", True),
        ("Zero Bytes were transmitted or received for job 7", True),
        ("Invalid job id specified for job 999999", False),
        ("Access/permission denied for job 7", False),
        ("", False),
    ],
)
def test_whether_a_change_may_have_been_made_all_the_same(error, open_):
    """A slurmctld that hung makes later what scontrol has given up on; what it refused it never makes."""
    assert may_be_made(error) is open_
