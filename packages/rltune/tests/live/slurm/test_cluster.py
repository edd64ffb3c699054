"""A Slurm's nodes as a cluster's TOML."""

from dataclasses import replace
from pathlib import Path

import pytest

from rltune.cluster import Cluster
from rltune.live.see.snapshot import LiveNode, Reservation, Snapshot
from rltune.live.slurm import scontrol_show as show
from rltune.live.slurm.cluster_toml import to_toml
from rltune.live.slurm.json_records import answer_of, nodes_of

DATA = Path(__file__).parent / "data/22.05"


@pytest.fixture
def seen():
    """Show the recorded testbed an hour before its maintenance."""
    text = (DATA / "scontrol.txt").read_text()
    nodes = nodes_of(answer_of((DATA / "sinfo.json").read_text(), "sinfo", "nodes"))
    reserved = show.reservations(text)
    taken_s = reserved[0].start_s - 3600
    return Snapshot(
        taken_s=taken_s,
        version="22.05.8",
        jobs=(),
        nodes=tuple(nodes),
        partitions=show.partitions(text),
        reservations=reserved,
    )


def load(tmp_path, text):
    path = tmp_path / "ours.toml"
    path.write_text(text)
    return Cluster.from_toml(path)


def test_the_recorded_testbed(tmp_path, seen):
    """Three kinds of nodes, partitions as VCs, and the maintenance of one of them."""
    cluster = load(tmp_path, to_toml(seen, "ours"))
    assert cluster.name == "ours"
    assert [(g.name, g.count, g.gpus, g.gpu_type, g.cpus, g.mem_gib) for g in cluster.groups] == [
        ("k80", 2, 2, "k80", 32, 125),
        ("m40", 1, 1, "m40", 32, 125),
        ("p100", 2, 4, "p100", 32, 125),
    ]
    assert cluster.vcs == ("gpu", "sla")
    (window,) = cluster.maintenance
    assert (window.start_s, window.end_s, window.groups) == (3600, 7200, (1,))


def test_what_has_no_word_stands_in_comments(seen):
    """Features, other people's reservations and a drained node are not lost."""
    text = to_toml(seen)
    assert "# features: k80" in text
    assert "# reservation class of k80-1, k80-2, for root" in text
    assert "# took no jobs when this was written: k80-2 (MIXED+DRAIN)" in text


def test_memory_that_slurm_does_not_count_is_left_out(tmp_path, seen):
    """Jobs of such a cluster ask for all of it."""
    assert load(tmp_path, to_toml(replace(seen, mem_counts=False))).groups[0].mem_gib is None


def test_a_kind_of_which_only_some_are_in_maintenance_is_split(tmp_path, seen):
    """The others go on working."""
    part = Reservation(name="fans", start_s=seen.taken_s - 5, end_s=seen.taken_s + 5, node_names=("p100-2",))
    cluster = load(tmp_path, to_toml(replace(seen, reservations=(replace(part, flags=("MAINT",)),))))
    assert [(g.count, g.gpu_type) for g in cluster.groups] == [(2, "k80"), (1, "m40"), (1, "p100"), (1, "p100")]
    assert [(w.start_s, w.end_s, w.groups) for w in cluster.maintenance] == [(0, 5, (3,))]


def test_names_cannot_break_the_file(tmp_path):
    """Quotation marks, line ends and umlauts are kept as text."""
    odd = LiveNode(name='a"\n[x]', gpus=1, gpu_type="ü\\", cpus=1, mem_gib=1, partitions=('p"',), features=("f\n[y]",))
    cluster = load(tmp_path, to_toml(Snapshot(taken_s=0, version="1", jobs=(), nodes=(odd,)), 'n"\n'))
    assert cluster.groups[0].gpu_type == "ü\\"
    assert cluster.vcs == ('p"',)


def test_from_a_running_slurm(tmp_path, testbed):
    """The testbed's own nodes come back."""
    cluster = load(tmp_path, to_toml(testbed.backend().observe()))
    found = {(g.count, g.gpus, g.gpu_type) for g in cluster.groups}
    assert found == {(g.count, g.gpus, g.gpu_type) for g in Cluster.preset("slurm-five").groups}
