"""Slurm's spellings of node lists, GPUs and priorities."""

import pytest

from rltune.hostlist import expand
from rltune.live.see.backend import BackendError
from rltune.live.see.snapshot import PriorityParts
from rltune.live.slurm.gres import parse_gpus
from rltune.live.slurm.sprio import factors_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("p100-[1-2],m40-1", ("p100-1", "p100-2", "m40-1")),
        ("n[01-03,7]", ("n01", "n02", "n03", "n7")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("a[9-11]-ib", ("a9-ib", "a10-ib", "a11-ib")),
        ("one", ("one",)),
        ("", ()),
        ("(null)", ()),
        ("None assigned", ()),
    ],
)
def test_lists_of_nodes(text, names):
    """Ranges keep their zeros, several of them multiply."""
    assert expand(text) == names


@pytest.mark.parametrize("text", ["n[3-1]", "n[a-b]", "n[1", "n1,,n2", "n[1-99999999]"])
def test_what_is_no_list_of_nodes(text):
    """It is refused, not guessed at."""
    with pytest.raises(ValueError, match="is no list of nodes"):
        expand(text)


@pytest.mark.parametrize(
    ("text", "by_type", "shared"),
    [
        ("gpu:k80:2(IDX:0-1)", (("k80", 2),), False),
        ("gpu:fake1:1(S:0),gpu:fake2:3(S:0-1)", (("fake1", 1), ("fake2", 3)), False),
        ("gres:gpu:p100:2", (("p100", 2),), False),
        ("gres/gpu:8", (("", 8),), False),
        ("gres/gpu=1", (("", 1),), False),
        ("gpu:3090:2", (("3090", 2),), False),
        ("gpu", (("", 1),), False),
        ("gpu:a100", (("a100", 1),), False),
        ("tmpsize:7T,gpu:l40s:4(S:0-1)", (("l40s", 4),), False),
        ("gpu:a100_1g.5gb:7", (("a100_1g.5gb", 7),), True),
        ("gpu:k80:2,shard:8", (("k80", 2),), True),
        ("gpu:k80:2,shard:0", (("k80", 2),), False),
        ("gpu:0(IDX:N/A)", (("", 0),), False),
        ("", (), False),
        ("license:4", (), False),
    ],
)
def test_gpus_in_all_spellings(text, by_type, shared):
    """With and without type, count, prefix and details; what is no GPU is passed over."""
    found = parse_gpus(text)
    assert (found.by_type, found.shared) == (by_type, shared)


def test_what_is_no_count_of_gpus():
    """It is refused."""
    with pytest.raises(ValueError, match="many"):
        parse_gpus("gpu:a100:many")


def test_priorities_by_factor_and_by_hand():
    """Slurm shows no factor of a priority set by hand; one that is 1 may be anything."""
    text = "8|1|0|0|0|0|0|0|0|0|\n19|4242|0|0|0|0|0|0|0|0|\n22|700|700|0|0|0|0|0|0|0|\n"
    text += "23|1050|0|0|1000|0|50|0|0|0|cpu=0.00\n24|51|0|0|0|0|0|0|0|0|cpu=1.50,gres/gpu=49.50\n"
    assert factors_of(text) == {
        8: PriorityParts(1, 0, 0, by_hand=False),  # shown as 1, made of nothing
        19: PriorityParts(4242, 0, 0, by_hand=True),
        22: PriorityParts(700, 700, 0, by_hand=False),
        23: PriorityParts(1050, 0, 1050, by_hand=False),
        24: PriorityParts(51, 0, 51, by_hand=False),
    }


def test_what_sprio_does_not_print():
    """It is shown as it came."""
    with pytest.raises(BackendError, match="sprio printed what cannot be read: 'JOBID"):
        factors_of("JOBID PRIORITY SITE")
