"""Clusters: the presets are the published ones, and a bad file is refused with one sentence."""

import pytest

from rltune import Cluster, InputError, Jobs, simulate
from rltune.cluster import NodeGroup
from rltune.policy.multifactor import Multifactor


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("philly-slice", [(16, 2, "P100"), (20, 8, "P100")]),
        ("philly", [(321, 2, "P100"), (231, 8, "P100")]),
        ("helios-slice", [(16, 8, ""), (12, 8, ""), (10, 8, ""), (8, 8, ""), (8, 8, "")]),
        ("pai-slice", [(8, 2, "T4"), (8, 8, "MISC"), (15, 2, "P100"), (10, 8, "V100"), (8, 8, "V100M32")]),
        ("slurm-five", [(2, 4, "p100"), (2, 2, "k80"), (1, 1, "m40")]),
    ],
)
def test_presets_are_the_published_clusters(name, groups):
    assert [(g.count, g.gpus, g.gpu_type) for g in Cluster.preset(name).groups] == groups


def test_the_whole_of_pai():
    pai = Cluster.preset("pai")
    assert (pai.node_count, pai.gpu_count) == (1897, 6742)


def test_helios_virtual_clusters_do_not_share_nodes():
    assert [g.vc for g in Cluster.preset("helios-slice").groups] == [(f"vc{i}",) for i in range(1, 6)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "a cluster needs at least one node group: [[group]], with its count and gpus"),
        ("group = []", "a cluster needs at least one node group"),
        ("[group]\ncount = 1", "group is written with two brackets on each side, [[group]]"),
        ("[[group]]\ncount = 1", "gpus is missing in [[group]] number 1"),
        ("[[group]]\ncount = 0\ngpus = 8", "count in [[group]] number 1 should be more than 0, not 0"),
        ("[[group]]\ncount = true\ngpus = 8", "count in [[group]] number 1 should be a whole number, not true"),
        ('[[group]]\ncount = "8"\ngpus = 8', 'count in [[group]] number 1 should be a whole number, not "8"'),
        ("[[group]]\ncount = 10000000000\ngpus = 8", "should be 1,000,000 or less, not 10000000000"),
        ("[[group]]\ncount = 1000000\ngpus = 1000000", "are more than can be simulated"),
        ("[[group]]\ncount = 1\ngpus = -8", "gpus in [[group]] number 1 should be 0 or more, not -8"),
        ("[[group]]\ncount = 1\ngpus = 8\nmem_gib = 0", "mem_gib in [[group]] number 1 should be more than 0"),
        ("[[group]]\ncount = 1\ngpus = 8\nmem_gib = nan", "mem_gib in [[group]] number 1 should be a finite number"),
        ("[[group]]\ncount = 1\ngpus = 8\nvc = [1]", "value 1 of vc in [[group]] number 1 should be text"),
        ("[[group]]\ncount = 1\ngpus = 8\ngpu = 1", "no key 'gpu' in [[group]] number 1; did you mean gpus?"),
        ("nodes = 4", "no key 'nodes'; there are: name, about, group"),
        ("[[group]\ncount = 1", "not valid TOML"),
        (
            "NodeName=a01 Arch=x86_64 CPUTot=128\n   State=IDLE\n",
            "this looks like `scontrol show nodes`: make a cluster",
        ),
        ("[[group]]\ncount=1\ngpus=8\n[speed]\nA100 = 2", "no GPU type 'A100' to give a speed for"),
        ("[[group]]\ncount=1\ngpus=8\n[[outage]]\nnode=1\ndown_s=0", "an outage names node 1, the last one is 0"),
        ("[[group]]\ncount=1\ngpus=8\n[[outage]]\nnode=0\ndown_s=5\nup_s=5", "up_s must be after down_s"),
        ("[[group]]\ncount=1\ngpus=8\n[[maintenance]]\nstart_s=5\nend_s=4", "end_s must be after start_s"),
        ("[[group]]\ncount=1\ngpus=8\n[[maintenance]]\nstart_s=5\nend_s=6\ngroups=[3]", "names group 3, there are 1"),
        (
            '[[group]]\ncount=1\ngpus=8\n[[limit]]\nscope="team"',
            "scope in [[limit]] number 1 should be 'user', 'account'",
        ),
    ],
)
def test_a_bad_file_is_refused_with_one_sentence(tmp_path, text, sentence):
    file = tmp_path / "cluster.toml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        Cluster.from_toml(file)
    assert str(file) in str(error.value)
    assert sentence in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_a_missing_or_binary_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        Cluster.from_toml(tmp_path / "nothing.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not text in UTF-8"):
        Cluster.from_toml(tmp_path / "binary.toml")


def test_an_unknown_name_lists_the_presets():
    with pytest.raises(InputError, match="philly-slice"):
        Cluster.load("phily-slice")


@pytest.mark.parametrize(("nodes", "gpus"), [(0, 8), (1, -1)])
def test_an_impossible_uniform_cluster_is_refused(nodes, gpus):
    with pytest.raises(InputError, match="cannot be"):
        Cluster.uniform(nodes=nodes, gpus=gpus)


def test_a_cluster_prints_its_groups():
    cluster = Cluster(
        (NodeGroup(count=2, gpus=8, gpu_type="A100", cpus=64, mem_gib=512, vc=("a", "b")), NodeGroup(count=1, gpus=1)),
        name="<small>",
        speed={"A100": 2.0},
    )
    assert repr(cluster).splitlines() == [
        "Cluster <small>: 3 nodes, 17 GPUs",
        "  2 nodes of 8 A100 GPUs, 64 CPUs, 512 GiB, for a, b",
        "  1 node of 1 GPU",
        "  speed: A100 2",
    ]
    assert "&lt;small&gt;: 3 nodes" in cluster._repr_html_()


def test_many_groups_are_cut():
    cluster = Cluster(tuple(NodeGroup(count=1, gpus=n) for n in range(1, 20)))
    assert repr(cluster).splitlines()[-1] == "  ... and 7 more groups"


def test_a_scheduler_of_the_file_gives_multifactor_its_weights(tmp_path):
    """A policy that was given other weights in Python keeps them."""
    path = tmp_path / "site.toml"
    path.write_text("[[group]]\ncount = 1\ngpus = 1\n[scheduler]\nage = 5\nqos_priority = { high = 1.0 }\n")
    site = Cluster.from_toml(path)
    assert site.scheduler.weights == {"age": 5.0, "qos_priority": {"high": 1.0}}
    assert Multifactor().on(site) == Multifactor(age=5.0, qos_priority={"high": 1.0})
    assert Multifactor(age=7.0).on(site) == Multifactor(age=7.0)
    jobs = Jobs.from_arrays([0, 1, 2], 10.0, 1, qos=[None, None, "high"])
    assert simulate(jobs, site, "multifactor", estimator="oracle").start_s.tolist() == [0, 20, 10]


def test_a_weight_below_nothing_is_refused(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text("[[group]]\ncount = 1\ngpus = 1\n[scheduler]\nage = -5\n")
    with pytest.raises(InputError, match=r"age in \[scheduler\] should be 0\.0 or more, not -5"):
        Cluster.from_toml(path)


def test_names_of_types_and_partitions_are_one_however_they_are_spelled():
    """Slurm says a100 and gpu where people write A100 and GPU."""
    group = NodeGroup(count=1, gpus=8, gpu_type="A100", vc=("GPU", "sla"))
    assert group.accepted("gpu", ["a100"], with_gpus=True)
    assert not group.accepted("cpu", ["a100"], with_gpus=True)
    assert not group.accepted("gpu", ["v100"], with_gpus=True)
    assert Cluster((group,), speed={"a100": 2.0}).speed_of("A100") == 2.0


def test_a_cluster_too_large_is_refused_in_code_too():
    with pytest.raises(InputError, match="count should be 1,000,000 or less"):
        Cluster.uniform(nodes=10**10, gpus=8)


def test_a_mark_of_the_encoding_is_no_mistake(tmp_path):
    (tmp_path / "ours.toml").write_text("[[group]]\ncount = 2\ngpus = 4\n", encoding="utf-8-sig")
    assert Cluster.load(str(tmp_path / "ours.toml")).gpu_count == 8


@pytest.mark.parametrize(
    "line", ["share = true", "seed = true", 'preemptible = "yes"', "checkpoint = true", "restart = false"]
)
def test_numbers_of_a_preemption_rule_are_numbers(line, tmp_path):
    (tmp_path / "ours.toml").write_text(f"[[group]]\ncount = 2\ngpus = 4\n[[preemption]]\n{line}\n")
    with pytest.raises(InputError, match=line.split()[0]):
        Cluster.load(str(tmp_path / "ours.toml"))


def test_a_file_that_is_not_there_is_told_so_with_the_nearest_one(tmp_path):
    """A path is no misspelt preset; where no file is near, a preset may be."""
    (tmp_path / "ours.toml").write_text("")
    with pytest.raises(InputError) as caught:
        Cluster.load(str(tmp_path / "our.toml"))
    said = f"{tmp_path / 'our.toml'}: there is no such file; did you mean {tmp_path / 'ours.toml'}? presets are: "
    assert str(caught.value).startswith(said)
    with pytest.raises(InputError, match=r"there is no such file; did you mean philly\? presets are"):
        Cluster.load(str(tmp_path / "nowhere" / "philly.toml"))
