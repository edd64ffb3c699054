"""A cluster out of what Slurm printed into a file, recorded from a Slurm 22.05."""

from dataclasses import replace
from pathlib import Path

import pytest

from rltune.errors import InputError
from rltune.live.slurm.printed_nodes import printed_snapshot

DATA = Path(__file__).parent / "data"


def nodes_of(text):
    return printed_snapshot(text, "nodes.txt").nodes


@pytest.fixture
def told():
    """The nodes as `scontrol show nodes` tells them."""
    return nodes_of((DATA / "22.05/show-nodes.txt").read_text())


def test_what_scontrol_shows(told):
    assert [(n.name, n.gpu_type, n.gpus, n.cpus, n.mem_gib) for n in told] == [
        ("k80-1", "k80", 2, 32, 125),
        ("k80-2", "k80", 2, 32, 125),
        ("m40-1", "m40", 1, 32, 125),
        ("p100-1", "p100", 4, 32, 125),
        ("p100-2", "p100", 4, 32, 125),
    ]
    assert [n.up for n in told] == [True, False, True, True, True]
    assert {n.partitions for n in told} == {("gpu", "sla")}


def test_one_line_a_node_says_the_same(told):
    text = (DATA / "22.05/show-nodes.txt").read_text()
    assert nodes_of(text.replace("\n   ", " ").replace("\n\n", "\n")) == told


@pytest.mark.parametrize("file", ["sinfo-nodes.txt", "sinfo-bars.txt"])
def test_what_sinfo_prints_says_the_same(told, file):
    """One row for each partition of a node, or of several nodes; without a state nothing is known to be down."""
    seen = nodes_of((DATA / "22.05" / file).read_text())
    plain = [replace(n, state="", up=True, features=()) for n in seen]
    assert sorted(plain, key=lambda n: n.name) == [replace(n, state="", up=True, features=()) for n in told]


def test_sinfo_tells_which_nodes_are_out_of_work(told):
    seen = nodes_of((DATA / "22.05/sinfo-nodes.txt").read_text())
    assert [n.up for n in seen] == [n.up for n in told]


@pytest.mark.parametrize("version", ["22.05/sinfo.json", "24.11/nodes.json", "26.05/nodes.json"])
def test_json_is_read_too(version):
    assert len(nodes_of((DATA / version).read_text())) == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "neither NodeName= nor NODELIST stands in it"),
        ((DATA / "22.05/sinfo-plain.txt").read_text(), "column GRES is missing"),
        ("NODELIST PARTITION GRES CPUS MEMORY\na[1-2] gpu gpu:2 16+ 1000\n", "CPUS of a1 is 16+, of nodes that differ"),
        ("NODELIST PARTITION GRES CPUS MEMORY\na1 gpu gpu:2 16\n", "has 4 fields, the header has 5"),
        ("NODELIST PARTITION GRES CPUS MEMORY\n", "tells of no node"),
        ("NodeName=a1 CPUTot=x RealMemory=5\n", "could not convert string to float"),
        ("NodeName=a1 CPUTot=4\n", "'RealMemory'"),
        ("{}", "printed no nodes"),
        ("{", "did not print JSON"),
    ],
)
def test_what_is_no_list_of_nodes_is_told_with_how_to_ask(text, message):
    with pytest.raises(InputError) as error:
        nodes_of(text)
    assert message in str(error.value)
    assert str(error.value).startswith("nodes.txt: ")
