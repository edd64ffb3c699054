import pytest

from rltune.live.see.constraints import UnknownConstraintError, parse


@pytest.mark.parametrize(
    ("constraint", "features", "met"),
    [
        ("p100", {"p100"}, True),
        ("p100", {"k80"}, False),
        ("p100|k80", {"k80"}, True),
        ("p100&ib", {"p100"}, False),
        ("p100&ib", {"p100", "ib"}, True),
        ("p100,ib", {"p100"}, False),
        ("(p100|k80)&ib", {"k80", "ib"}, True),
        ("[rack1|rack2]", {"rack2"}, True),
        ("a|b&c", {"a"}, True),
        ("a|b&c", {"b"}, False),
    ],
)
def test_a_constraint_is_read_as_slurm_reads_it(constraint, features, met):
    """`&` and `,` bind before `|`; brackets group."""
    assert parse(constraint)(features) is met


@pytest.mark.parametrize("constraint", ["p100*2", "a|", "(a", "a)b", "&a", "a b!c"])
def test_what_is_not_understood_is_said_to_be(constraint):
    """Counts of nodes and slips of the pen are not guessed at."""
    with pytest.raises(UnknownConstraintError):
        parse(constraint)
